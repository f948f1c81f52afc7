"""What is decided before a repository is wired: by its facts, by three questions, or by --yes."""

from __future__ import annotations

from typing import Literal

import msgspec

from ratchet.wire.facts import EntryPoint, PromptSite

RunWay = Literal["python", "command", "service"]
"""How rollouts run the agent: a Python function, a command for each task, or a running service."""

PromptWay = Literal["code", "file", "gateway", "leave"]
"""How a prompt is bound: declared in the code, as a file of prompts, by its text in the model
calls that pass the gateway, or not at all."""


class PromptChoice(msgspec.Struct, frozen=True):
    """How one prompt is bound."""

    prompt: PromptSite
    name: str
    """Of the resource; unique in the project, of letters, digits, `_`, `-` and `.`."""
    way: PromptWay
    reason: str


class Choices(msgspec.Struct, frozen=True):
    """What the wiring does."""

    project: str
    """Folder of the project, relative to the repository; `.` for the repository itself."""
    agent: str
    """Name of the agent."""
    entry: EntryPoint
    run: RunWay
    prompts: tuple[PromptChoice, ...]
    may_run: tuple[str, ...] = ()
    """Tools with side effects that may act in rollouts; all others are denied."""
    workflow: bool = False
    """Whether a CI job verifies pull requests."""
