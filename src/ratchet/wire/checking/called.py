"""One call of an agent that is a program of its own, and what it says of the wiring."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ratchet.bind import BINDING_VARIABLE, Binding
from ratchet.observe import BLOCKED_SUFFIX
from ratchet.types import PromptTemplate, Resource
from ratchet.wire.checking.findings import CheckFinding, same_finding
from ratchet.wire.facts import PromptSite

MARK = "ratchet-check"
_LONG = 12
"""Characters from which on a static part of a prompt is looked for."""
_STEP = "Check with a task that takes the way through them."


class Called(NamedTuple):
    """What became of one call."""

    ran: bool
    said: str
    """What it answered, or why it did not."""
    requests: list[list[str]]
    """Texts that the model was sent."""
    blocked: str
    """The tool that was denied; empty if none was called."""
    status: int = 0
    """Of HTTP, where it is a service; 0 where there was no answer."""


class CheckBinding:
    """What makes a program run as in a rollout: its tools are denied, and prompts replaced.

    Args:
        folder: Where the file is written that the program inherits.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "binding.json"
        self._blocked = self._file.with_name(self._file.name + BLOCKED_SUFFIX)

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the program."""
        return {BINDING_VARIABLE: str(self._file)}

    def write(self, prompts: Mapping[str, str]) -> None:
        """Begin a call.

        Args:
            prompts: Texts that prompts are replaced by, by name.
        """
        resources: dict[str, Resource] = {
            name: PromptTemplate(text, "plain") for name, text in prompts.items()
        }
        self._file.write_bytes(msgspec.json.encode(Binding(resources=resources)))
        self._blocked.unlink(missing_ok=True)

    def denied(self) -> str:
        """The tool that was denied since; empty if none was called."""
        return self._blocked.read_text() if self._blocked.exists() else ""


def mark_of(name: str) -> str:
    """The mark of a prompt, as `ratchet.autopilot.probe` writes it.

    It is short, and of letters, digits and hyphens: an agent may make an identifier of a prompt.
    """
    return f"{MARK}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def marks(names: Sequence[str]) -> dict[str, str]:
    """A text for each prompt that is recognised where it arrives."""
    return {name: mark_of(name) for name in names}


def changed_prompts(names: Sequence[str], call: Called) -> CheckFinding:
    """Whether prompts that were replaced by marks reached the model."""
    sent = "\n".join(text for request in call.requests for text in request)
    lost = [name for name, mark in marks(names).items() if mark not in sent]
    if not lost:
        why = f"All {len(names)} prompts, when changed, reached the model."
        return CheckFinding("changed prompts", "verified", why)
    why = f"{len(names) - len(lost)} of {len(names)} changed prompts reached the model in this run."
    why += f" Not seen: {', '.join(lost)}."
    return CheckFinding("changed prompts", "not verified", why, _STEP)


def gateway_prompts(sites: Mapping[str, PromptSite], call: Called) -> CheckFinding:
    """Whether the model was sent the prompts that the gateway is to replace.

    Args:
        sites: Prompts by name.
        call: A call of the agent as it is.
    """
    sent = "\n".join(text for request in call.requests for text in request)
    lost = [name for name, site in sites.items() if not _is_in(site, sent)]
    if not lost:
        why = f"All {len(sites)} prompts are in the model calls, where the gateway replaces them."
        return CheckFinding("prompts at the gateway", "verified", why)
    why = f"{len(sites) - len(lost)} of {len(sites)} prompts were in the model calls of this run."
    why += f" Not seen: {', '.join(lost)}."
    return CheckFinding("prompts at the gateway", "not verified", why, _STEP)


def _is_in(site: PromptSite, sent: str) -> bool:
    static = [
        piece.strip()
        for part in site.parts
        for piece in re.split(r"\$?\{[^{}]*\}", part.text)
        if len(piece.strip()) >= _LONG
    ]
    return bool(static) and all(piece in sent for piece in static)


def same_prompts(before: Called, now: Called) -> CheckFinding:
    """Whether the model was sent the same texts without the wiring."""
    ran = before.ran or before.blocked
    old = {"status": "succeeded"} if ran else {"error": before.said}
    return same_finding(old, before.requests, now.requests)
