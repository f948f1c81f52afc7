"""Name of a project's agent in its live traces."""

from __future__ import annotations

import os

from ratchet.autopilot.project import Project
from ratchet.observe.agent_names import agent_name
from ratchet.store import Store
from ratchet.types.trace import OWN_AGENTS

AGENT_VARIABLE = "RATCHET_AGENT"


def live_agent(project: Project, store: Store) -> str:
    """Name of the project's agent in its live traces.

    [autopilot] agent; or RATCHET_AGENT; or the entry of an agent in Python, or else the name at the
    gateway. If there are no traces of that name, and those of one other live agent, it is that one;
    without live traces, the one of imported trajectories.
    """
    configured = project.config.autopilot.agent or os.environ.get(AGENT_VARIABLE)
    if configured:
        return agent_name(configured)
    entry = project.config.agent.entry
    usual = agent_name(entry) if entry else project.agent_name
    live_names = [name for name in store.spans.agents() if name not in OWN_AGENTS]
    names = live_names or [*store.recordings.imported_since(0.0)]
    return names[0] if len(names) == 1 else usual
