"""Scores a function on tasks inside a sandbox: a handler for `ratchet.sandbox.SandboxPool`."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any


def handle(state: Any, body: bytes) -> bytes:
    """Mean score of a source's function on the tasks of a problem; failures count 0."""
    given = json.loads(body)
    problem = import_module(f"optimisations.{given['problem']}")
    return json.dumps(mean_of(problem, given["source"], given["tasks"])[0]).encode()


def mean_of(problem: Any, source: str, tasks: list[Any]) -> tuple[float, list[str]]:
    """Mean score, and the message for each task."""
    names: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + source, names)
    scores, said = [], []
    for task in tasks:
        try:
            value, words = problem.score(problem.run(names[problem.FUNCTION], task), task)
        except Exception as error:
            value, words = 0.0, f"{type(error).__name__}: {error}"
        scores.append(value)
        said.append(words)
    return sum(scores) / len(scores), said
