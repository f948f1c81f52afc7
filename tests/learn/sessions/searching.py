"""One search of a session: in a domain, by an algorithm, with whoever sits in the coach's seat."""

from __future__ import annotations

import asyncio
from typing import Any

from ratchet.evaluate import FunctionEvaluator, Scorer
from ratchet.learn import Budget, Finding, Lab, LabSettings
from ratchet.learn.apo import APO
from ratchet.learn.evolve import Evolve
from ratchet.store import Store
from tests.learn.conftest import FakeRunner
from tests.learn.sessions.domains import DOMAINS, DeskRunner

SESSIONS = {"tickets": Evolve, "dates": APO, "desk": Evolve}
"""The algorithm of each session, by domain."""

CALLS = {"tickets": 6, "dates": 14, "desk": 6}
"""Coach calls of each session, by domain."""


def search(name: str, store: Store, coach: Any, *, slots: int = 2) -> tuple[Finding, Lab]:
    """Search in a domain; returns what was found, and the lab."""
    domain = DOMAINS[name]
    runner = (DeskRunner if name == "desk" else FakeRunner)(store, domain.agent)
    runner.slots = slots  # type: ignore[attr-defined]
    lab = Lab(
        LabSettings(run_id=name, stage="learn", queue="queue", objective="objective", seed=1,
                    max_attempts=1),
        baseline=domain.baseline,
        train=domain.tasks("train", 30),
        val=domain.tasks("val", 10),
        runner=runner,
        scorer=Scorer(store, [FunctionEvaluator(domain.judge, name="objective", trusted=True)]),
        store=store,
        budget=Budget(rollouts=160, coach_calls=CALLS[name]),
        clock=lambda: 0.0,
        coach=coach,
    )  # fmt: skip
    return asyncio.run(SESSIONS[name]().learn(lab)), lab
