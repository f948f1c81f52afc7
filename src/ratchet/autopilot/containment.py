"""The containment of a project's agent, from [agent.allow] and [sandbox]."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.types import ConfigError

if TYPE_CHECKING:
    from ratchet.autopilot.agent_section import AgentAllowSection, AgentSection
    from ratchet.autopilot.learning_sections import SandboxSection
    from ratchet.sandbox.containment import AgentContainment, Allowance

NOT_CONTAINED_NOTE = (
    "Rollouts are not contained: in them the agent acts as it does for you. Add a section "
    "[agent.allow] to ratchet.toml to contain them."
)
"""Warning for a project without the section."""

_UNSAFE = (
    "Rollouts are not contained: this machine cannot contain them, and unsafe = true under "
    "[sandbox] allows that. In them the agent acts as it does for you."
)
SHARED_PROCESS_NOTE = (
    "Rollouts that run at the same time share a process, which is contained as a whole: they see"
    ' what the others write. executor = "process" under [run] gives each a home of its own.'
)

BY_VARIABLES = (
    "macOS contains rollouts only partly: they have their own home and proxy, but a program that "
    "ignores these variables acts as it does for you. See the page Contained rollouts."
)
"""Warning on a system that cannot contain processes."""

_NOT_ABSENT = (
    "Rollouts still see what is listed under absent in [agent.allow]: on this machine they cannot "
    "have a copy of the project's folder. That needs user namespaces, or bubblewrap."
)
"""Warning if nothing can be made absent."""

_RUNS_ALREADY = (
    "Rollouts are not contained: the agent is already running at {url}, and acts there as it does "
    "for you. If serve is set under [agent], Ratchet starts the agent and contains it."
)


def containment_of(
    agent: AgentSection,
    sandbox: SandboxSection,
    *,
    root: Path,
    state: Path,
    python: str = "",
) -> tuple[AgentContainment | None, str]:
    """The containment of an agent, and a warning if there is none.

    Args:
        agent: Its section.
        sandbox: The section with the level.
        root: The project's folder, which the folders are relative to.
        state: Ratchet's own folder, which the agent cannot read.
        python: The agent's interpreter; empty for this one.

    Raises:
        SandboxUnavailable: This machine cannot contain it.
    """
    if agent.allow is None:
        return None, NOT_CONTAINED_NOTE
    if agent.runs_already:
        return None, _RUNS_ALREADY.format(url=agent.url)
    # Imported late: most commands start no agent.
    from ratchet.sandbox.containment import AgentContainment
    from ratchet.sandbox.limits import SandboxUnavailable

    try:
        containment = AgentContainment(
            allowance(agent.allow, root),
            root=root,
            python=python,
            hidden=[state],
            level=sandbox.level,
        )
    except SandboxUnavailable:
        if sandbox.unsafe:
            return None, _UNSAFE
        raise
    sentences = [
        BY_VARIABLES if containment.level == "variables" else "",
        _NOT_ABSENT if agent.allow.absent and containment.level != "bubblewrap" else "",
    ]
    return containment, " ".join(filter(None, sentences))


def allowance(section: AgentAllowSection, root: Path) -> Allowance:
    """What a section allows; missing folders are created.

    Raises:
        ConfigError: What is to be absent is not the project's own, or is really written to.
    """
    from ratchet.sandbox.containment import Allowance

    folders = []
    for name in section.folders:
        path = Path(os.path.normpath(root / os.path.expanduser(name)))
        if not path.exists():
            with contextlib.suppress(OSError):  # then it is not written to
                path.mkdir(parents=True)
        folders.append(str(path))
    return Allowance(
        hosts=tuple(host_and_port(text) for text in section.hosts),
        programs=section.programs,
        folders=tuple(folders),
        absent=tuple(_absent(name, root, folders) for name in section.absent),
    )


def _absent(name: str, root: Path, folders: Sequence[str]) -> str:
    """The path that an entry of `absent` names."""
    from ratchet.sandbox.containment import copied_folders

    path = Path(os.path.normpath(root / os.path.expanduser(name)))
    path = Path(os.path.realpath(path.parent), path.name)
    copied = {Path(folder) for folder in copied_folders(str(root), os.environ)}
    if copied.isdisjoint(path.parents) or any(folder.is_relative_to(path) for folder in copied):
        raise ConfigError(
            f"absent under [agent.allow] names {name!r}, of which rollouts have no copy.",
            hint="Name a file or a folder inside the project, your home or a temporary folder.",
        )
    for folder in map(os.path.realpath, folders):
        if path.is_relative_to(folder):
            raise ConfigError(
                f"[agent.allow] names {name!r} under absent, and {folder} under folders, which "
                "rollouts write to directly: absent files there would be deleted for good.",
                hint="Remove one of them.",
            )
    return str(path)


def host_and_port(text: str) -> tuple[str, int]:
    """A host and port; port 0 for the path of a unix socket."""
    if text.startswith("/"):
        return os.path.realpath(text), 0
    host, _, port = text.rpartition(":")
    host = host.strip("[]").lower()
    return "localhost" if host in ("127.0.0.1", "::1") else host, int(port)


def check_executor(kind: str) -> None:
    """Check that the attempts of an executor of this kind can be contained.

    Raises:
        ConfigError: They run in a process that cannot be.
    """
    if kind in ("inline", "ray"):
        where = "Ratchet's own process" if kind == "inline" else "processes of the cluster"
        raise ConfigError(
            f'executor = "{kind}" under [run] and [agent.allow] cannot be combined: attempts run in'
            f" {where}, which is not contained.",
            hint='Set executor = "auto", or remove [agent.allow] to run rollouts uncontained.',
        )
