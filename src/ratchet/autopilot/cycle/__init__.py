"""The autopilot: the loop, unattended, as a persisted state machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ratchet.autopilot.cycle.autopilot import Autopilot
    from ratchet.autopilot.project import Project
    from ratchet.store import Store


def project_autopilot(
    project: Project,
    store: Store,
    *,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Autopilot:
    """The autopilot of a project's agent.

    Args:
        project: The project.
        store: Its store.
        say: Receives a sentence for each change.
        clock: Unix seconds.
    """
    from ratchet.autopilot.cycle.autopilot import Autopilot
    from ratchet.autopilot.cycle.live_traffic import ProjectTraffic
    from ratchet.autopilot.cycle.project_parts import ProjectParts
    from ratchet.autopilot.cycle.source_files import SourceFiles
    from ratchet.autopilot.live_agent import live_agent

    files = SourceFiles(project.root)
    agent = live_agent(project, store)
    traffic = ProjectTraffic(project, store, agent, clock, say)
    parts = ProjectParts(project, store, traffic, agent=agent, clock=clock, say=say)
    return Autopilot(
        agent, project.config, store, parts, say=say, is_stale=files.changed, clock=clock
    )


__all__ = ["project_autopilot"]
