"""One rollout of the wired agent in the copy, by `ratchet.autopilot.probe`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet.wire.checking.called import mark_of
from ratchet.wire.checking.contained import run_program
from ratchet.wire.facts import RepositoryLook

_LOG = 8000
"""Characters of a log that are read, from its end."""


def probe(
    facts: RepositoryLook, python: Path, project: Path, variables: Mapping[str, str], mark: str
) -> dict[str, Any]:
    """What the probe printed, and with `log` what the agent did.

    Args:
        facts: Of the repository.
        python: The agent's interpreter.
        project: The project's folder in the copy.
        variables: Of its environment.
        mark: Text that is added to each prompt, if any.
    """
    words = [sys.executable, "-m", "ratchet.autopilot.probe", ".", "--python", str(python)]
    done = run_program(facts, [*words, *(["--mark", mark] if mark else [])], project, variables)
    if isinstance(done, str):
        return {"error": done}
    lines = done.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (ValueError, IndexError):
        found = {"error": done.stderr[-600:] or "It ended without a word."}
    said = [done.stderr, *_logs(project)]
    return {"log": "\n".join(said)[-_LOG:], **found}


def _logs(project: Path) -> list[str]:
    """What the worker processes of a rollout printed."""
    found = sorted((project / ".ratchet").rglob("worker-*.log"))
    return [one.read_text(encoding="utf-8", errors="replace")[-_LOG:] for one in found]


def failed(probed: Mapping[str, Any]) -> bool:
    """Whether the agent did not run to an end, or to what was denied."""
    return probed.get("status") not in ("succeeded", "inconclusive")


def unseen(names: Iterable[str], requests: Sequence[Sequence[str]]) -> list[str]:
    """The prompts whose marks no request holds."""
    sent = "\n".join(text for request in requests for text in request)
    return [name for name in names if mark_of(name) not in sent]
