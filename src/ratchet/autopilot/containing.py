"""Where candidates of code run: a sandbox made of what the project says."""

from __future__ import annotations

import os
from pathlib import Path

from ratchet.autopilot.project import Project
from ratchet.run import Agent, Executor
from ratchet.run.contained import ContainedExecutor, Containment
from ratchet.run.routed import RoutedExecutor
from ratchet.types import Code

MAX_SLOTS = 16
"""Sandboxes at once, unless the configuration says otherwise: each holds the agent's imports."""

GIVES_UP = (
    "Where no sandbox can be made, the code of candidates now runs with your rights: it can read"
    " your files, use the network, and look for the expected answers."
)
"""What running code candidates without a sandbox gives up."""


def with_sandbox(project: Project, agent: Agent, usual: Executor) -> Executor:
    """An executor that contains the candidates whose code differs from the source's.

    Args:
        project: The project.
        agent: The loaded agent.
        usual: Runs all others.
    """
    source = {
        name: declaration.resource
        for name, declaration in agent.declarations.items()
        if isinstance(declaration.resource, Code)
    }
    if not source:
        return usual
    said = project.config.sandbox
    cores = os.cpu_count() or 1
    contained = ContainedExecutor(
        project.agent_spec,
        Containment(
            level=said.level,
            unsafe=said.unsafe,
            memory_bytes=said.memory_mb * 1024 * 1024,
            read=tuple(_placed(project, name) for name in said.read),
            hide=tuple(hidden(project)),
            connect=tuple(_address(text) for text in said.connect),
            environment={n: os.environ[n] for n in said.environment if n in os.environ},
            check_returns=said.check_returns,
        ),
        slots=said.slots or min(MAX_SLOTS, usual.slots, 2 * cores),
        timeout_s=said.seconds or project.config.run.timeout_s,
        self_graded=is_self_graded(project, agent),
        allow_self_graded=said.unsafe_self_graded,
    )
    return RoutedExecutor(usual, contained, source)


def hidden(project: Project) -> list[Path]:
    """What nothing in a sandbox may read: the expected answers, what Ratchet keeps, secrets."""
    root = project.root
    named = [project.config.tasks.file, *project.config.sandbox.hide]
    found = [_placed(project, name) for name in named]
    found += [project.state, root / ".git", *sorted(root.glob(".env*"))]
    found += sorted(root.glob("*/.env*"))
    # What an evaluator of the user's own compares with.
    found += [
        _placed(project, value)
        for section in project.config.evaluators
        if ":" in section.use
        for value in section.options.values()
        if isinstance(value, str) and value and (root / value).is_file()
    ]
    url = project.store_url
    if url.startswith("sqlite:///"):
        found.append(Path(url.removeprefix("sqlite:///")))
    return [path for path in dict.fromkeys(found) if not any(a in found for a in path.parents)]


def is_self_graded(project: Project, agent: Agent) -> bool:
    """Whether the score that counts is one that the agent gives itself."""
    if agent.kind == "rollout":
        return True
    config = project.config
    if not config.evaluators:
        return False  # nothing counts: the project cannot be improved, and says so elsewhere
    named = {section.name or section.use.rpartition(":")[2] for section in config.evaluators}
    return config.objective.evaluator == "reward" and "reward" not in named


def _placed(project: Project, name: str) -> Path:
    return (project.root / name).absolute()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
