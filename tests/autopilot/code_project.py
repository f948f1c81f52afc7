"""A project whose agent calls a function that evolves, and an algorithm that tries given code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.repositories import committed

from ratchet import bind
from ratchet.autopilot import Project, Watcher, improve
from ratchet.autopilot.algorithms import ALGORITHMS
from ratchet.learn import Finding, Lab, mean
from ratchet.types import Code, Run

AGENT = '''"""An agent that adds up the digits of a number, badly."""

import ratchet


@ratchet.evolve
def digits(number: int) -> int:
    """The digits of a number, added up."""
    return 0  # nobody has done it yet


@ratchet.agent
def answer(number):
    return digits(number)


@ratchet.evaluator
def right(output, expected):
    return output == expected
'''

CONFIG = """
[agent]
entry = "{module}:answer"

[[evaluators]]
use = "{module}:right"

[tasks.split]
train = 0.12
val = 0.12
test = 0.76

[improve]
algorithm = "given"

[run]
concurrency = 2
attempts = 1

[[guardrails]]
metric = "latency"
off = true
"""

HONEST = '''def digits(number: int) -> int:
    """The digits of a number, added up."""
    return sum(int(digit) for digit in str(number))
'''


class Given:
    """An algorithm that evaluates the code it is given, on train and val.

    Args:
        sources: Source by a name for the test; all of one resource.
        resource: Its name.
    """

    name = "given"

    def __init__(self, sources: Mapping[str, str], resource: str = "digits") -> None:
        self.sources = sources
        self.resource = resource
        self.train: dict[str, float | None] = {}
        self.val: dict[str, float | None] = {}
        self.errors: dict[str, str] = {}
        self.faults: dict[str, str] = {}

    async def learn(self, lab: Lab) -> Finding:
        """Evaluate all; the best on val is found."""
        own = lab.baseline.resources[self.resource]
        assert isinstance(own, Code)
        baseline = mean(await lab.evaluate(lab.baseline, lab.val)) or 0.0
        best, best_val = lab.baseline, baseline
        for name, source in self.sources.items():
            candidate = lab.propose(
                {self.resource: Code(source, own.function)}, algorithm="given", reason=name
            )
            self.faults[name] = await lab.check(candidate) or await lab.test(candidate)
            train, val = await asyncio.gather(
                lab.evaluate(candidate, lab.train), lab.evaluate(candidate, lab.val)
            )
            self.train[name], self.val[name] = mean(train), mean(val)
            self.errors[name] = next((e.rollout.error for e in train if e.rollout.error), "")
            if (self.val[name] or 0.0) > best_val:
                best, best_val = candidate, self.val[name] or 0.0
        return Finding(
            best=best,
            baseline_val=baseline,
            best_val=best_val,
            proposals=len(self.sources),
            sentence="All were tried.",
        )


def right_answer(number: int) -> int:
    """What the tasks expect."""
    return sum(int(digit) for digit in str(number))


def build(
    root: Path, module: str, *, agent: str = AGENT, config: str = "", tasks: int = 64
) -> Path:
    """A project in a git repository, committed; its agent's module has a name of its own."""
    root.mkdir()
    (root / f"{module}.py").write_text(agent)
    (root / "ratchet.toml").write_text(CONFIG.format(module=module) + config)
    numbers = [1000 + 7919 * n for n in range(tasks)]
    lines = [
        json.dumps({"id": f"t{n}", "input": number, "expected": right_answer(number)})
        for n, number in enumerate(numbers)
    ]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    return committed(root)


@contextmanager
def loaded(root: Path) -> Iterator[None]:
    """What is loaded from a project inside is forgotten at the end."""
    path, modules = list(sys.path), set(sys.modules)
    bind.forget()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if str(root) in file:
                del sys.modules[name]
        bind.forget()


def go_around(root: Path, algorithm: Given, monkeypatch: pytest.MonkeyPatch, **given: Any) -> Run:
    """`ratchet improve` with that algorithm."""
    monkeypatch.setitem(ALGORITHMS, "given", lambda: algorithm)
    with loaded(root):
        project = Project.find(root)
        with project.open_store() as store:
            return asyncio.run(improve(project, store, watcher=Watcher(), **given))
