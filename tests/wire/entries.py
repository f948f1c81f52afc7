"""Wires the entry of a small repository that is written here, and loads what was made."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet.observe import Collector, collecting
from ratchet.wire import RepositoryLook, look
from ratchet.wire.changes import StepChanges, apply_pieces
from ratchet.wire.choices import Choices, RunWay
from ratchet.wire.entry import wire_entry
from ratchet.worker.agent import Agent, AgentSpec, load_agent

LONG = "You plan the shelves of a public library and explain each choice to the staff in charge."


class Wired:
    """A repository after the step."""

    def __init__(
        self, root: Path, step: StepChanges, found: RepositoryLook, choices: Choices
    ) -> None:
        self.root = root
        self.step = step
        self.look = found
        self.choices = choices

    @property
    def config(self) -> dict[str, Any]:
        """`[agent]`."""
        agent: dict[str, Any] = self.step.config.get("agent", {})
        return agent

    @property
    def left(self) -> str:
        """All reasons why something was left alone."""
        return "\n".join(f"{one.what}: {one.why}" for one in self.step.changes.left_alone)

    def text(self, path: str) -> str:
        """A file as it is now."""
        return (self.root / path).read_bytes().decode("utf-8-sig")

    def again(self) -> StepChanges:
        """The same step on what it made."""
        return wire_entry(self.root, look(self.root), self.choices)


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write a repository, and return its folder."""
    root = folder / "repository"
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return root


def wire(
    folder: Path,
    files: dict[str, str],
    entry: str,
    *,
    run: RunWay = "python",
    may_run: tuple[str, ...] = (),
    project: str = ".",
) -> Wired:
    """Write a repository, look at it, wire the entry of that name, and apply the changes."""
    root = write(folder, files)
    found = look(root)
    named = [one for one in found.entries if one.name == entry]
    assert named, [one.name for one in found.entries]
    choices = Choices(project, "desk", named[0], run, (), may_run)
    step = wire_entry(root, found, choices)
    for change in step.changes.files:
        path = root / change.path
        if change.content is not None:
            path.write_bytes(change.content.encode())
        else:
            path.write_bytes(apply_pieces(path.read_bytes(), change.pieces))
        if path.suffix == ".py":
            compile(path.read_bytes(), change.path, "exec")
    return Wired(root, step, found, choices)


@contextmanager
def loaded(wired: Wired) -> Iterator[Agent]:
    """The agent as a rollout loads it; what it imported is forgotten afterwards."""
    before, folders = dict(sys.modules), list(sys.path)
    path = tuple(wired.config.get("path", ["."]))
    project = wired.root / wired.choices.project
    try:
        yield load_agent(AgentSpec(entry=wired.config["entry"], root=str(project), path=path))
    finally:
        sys.path[:] = folders
        for name in set(sys.modules) - set(before):
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(wired.root)):
                del sys.modules[name]


def answer(wired: Wired, given: Any) -> Any:
    """What the agent returns for a task's input."""
    with loaded(wired) as agent:
        args, kwargs = agent.arguments(given, {})
        result = agent.function(*args, **kwargs)
        return asyncio.run(result) if asyncio.iscoroutine(result) else result


@contextmanager
def in_rollout() -> Iterator[Collector]:
    """As in a rollout: what has side effects does not act."""
    collector = Collector()
    token = collecting.set(collector)
    try:
        yield collector
    finally:
        collecting.reset(token)
