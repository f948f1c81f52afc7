"""Killed and resumed: the same decisions, and nothing paid twice."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.learn import Budget
from ratchet.learn.evolve import Evolve
from ratchet.llm import Message, Reply
from ratchet.types import Candidate
from tests.learn.conftest import Killed, MakeStore, make_lab
from tests.learn.evolve.conftest import (
    FUNCTION,
    SOURCE,
    Learned,
    RuleCoach,
    SlotRunner,
    by_code,
    by_rules,
    learn,
)

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))


def shown(learned: Learned) -> list[tuple[Any, ...]]:
    return [(p.candidate_id, p.value, p.tasks, p.pruned, p.accepted) for p in learned.proposals]


@pytest.mark.parametrize(
    ("share", "slots"),
    [*itertools.product([0.0, 0.1, 0.5, 0.95], [1, 8])]
    if LONG
    else [(0.0, 8), (0.5, 1), (0.95, 8)],
)
def test_a_killed_search_is_resumed_as_if_nothing_had_happened(
    make_store: MakeStore, share: float, slots: int
) -> None:
    # At the end of so many rollouts no draft is under way: how far one has come, threads decide.
    options: dict[str, Any] = {"rollouts": 110, "slots": slots, "oldest_first": True}
    whole = learn(make_store(), **options)
    total = whole.runner.executed.total()
    store = make_store()
    with pytest.raises(Killed):
        learn(store, order=1, dies_after=int(share * total), **options)
    ran = sum(store.rollouts.counts().values())
    asked = sum(key.startswith("coach/") for key, _ in store.journal.read("run0"))
    resumed = learn(store, order=2, **options)
    assert resumed.finding == whole.finding
    assert shown(resumed) == shown(whole)
    assert resumed.lab.spent.rollouts == whole.lab.spent.rollouts
    assert resumed.lab.spent.coach_calls == whole.lab.spent.coach_calls
    # None of what was paid for before the kill is paid for again, and nothing else is missing.
    assert resumed.runner.executed.total() == total - ran
    assert len(resumed.coach.calls) == len(whole.coach.calls) - asked


@pytest.mark.parametrize("slots", [8])
def test_with_many_at_once_what_was_decided_stays_decided(
    make_store: MakeStore, slots: int
) -> None:
    store, executed, again = make_store(), 0, 0
    decided: list[tuple[str, Any]] = []
    for kill in range(60):
        runner = SlotRunner(store, by_rules, order=kill, dies_after=11)
        runner.slots = slots
        lab = make_lab(runner, store, SOURCE, train=24, budget=Budget(rollouts=160))
        lab._coach = RuleCoach()
        try:
            finding = asyncio.run(Evolve().learn(lab))
        except Killed:
            again += 1
        else:
            executed += runner.executed.total()
            break
        executed += runner.executed.total()
        written = [e for e in store.journal.read("run0") if e[0].startswith(("first", "prop"))]
        assert written[: len(decided)] == decided  # a journal only grows: see the next line
        decided = written
    assert again >= 3
    assert executed == lab.spent.rollouts == sum(store.rollouts.counts().values()) <= 160
    replayed = learn(store, rollouts=160, slots=slots)
    assert replayed.runner.executed.total() == 0
    assert not replayed.coach.calls
    assert replayed.finding == finding


def test_resuming_knows_the_order_in_which_things_ended(make_store: MakeStore) -> None:
    for seed in range(2):
        store = make_store()
        first = learn(store, rollouts=120, slots=8, seed=seed)
        replayed = learn(store, rollouts=120, slots=8, seed=seed, order=9)
        assert replayed.finding == first.finding
        assert shown(replayed) == shown(first)
        assert replayed.runner.executed.total() == 0
        assert not replayed.coach.calls


class HangingCoach(RuleCoach):
    """Answers the tenth question late: after the end, unless nothing is left but to wait for it."""

    async def ask(self, messages: Sequence[Message], **more: Any) -> Reply:
        """Answer as a model would, or not at all."""
        hangs = len(self.calls) == 9
        reply = await super().ask(messages, **more)
        for _ in range(50_000 if hangs else 0):
            await asyncio.sleep(0)
        return reply


@pytest.mark.usefixtures("one_thread")  # how late the answer is does not hang on the machine
def test_drafts_that_the_end_left_behind_are_not_begun_again(make_store: MakeStore) -> None:
    for seed in range(10):
        store = make_store()
        options: dict[str, Any] = {"rollouts": 600, "slots": 8, "seed": seed}
        first = learn(store, Evolve(patience=6), coach=HangingCoach(), **options)
        asked = sum(key.startswith("coach/") for key, _ in store.journal.read(f"run{seed}"))
        if asked == len(first.coach.calls):
            continue  # it waited for the late one
        replayed = learn(store, Evolve(patience=6), coach=HangingCoach(), **options)
        assert replayed.finding == first.finding
        assert replayed.lab.spent.coach_calls == asked  # each that was answered has been paid for
        assert not replayed.coach.calls
        return
    raise AssertionError("no search ended before the late answer")


def test_code_searches_resume_too(make_store: MakeStore) -> None:
    source = Candidate.of({"guess": FUNCTION})
    options: dict[str, Any] = {"baseline": source, "answer": by_code, "train": 12, "rollouts": 90}
    options["oldest_first"] = True
    ast_only = Evolve(proposers=["ast"])
    whole = learn(make_store(), ast_only, **options)
    store = make_store()
    with pytest.raises(Killed):
        learn(store, ast_only, dies_after=50, **options)
    resumed = learn(store, ast_only, **options)
    assert resumed.finding == whole.finding
    assert shown(resumed) == shown(whole)
