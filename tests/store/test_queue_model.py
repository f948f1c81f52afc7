"""The queue against a model in memory: any sequence of calls, on a clock that is given."""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from ratchet.store import Store, lifecycle
from ratchet.types import FINAL, ROLLOUT_TRANSITIONS, SPOILED, Outcome, Rollout, Score, Span

LEASE_S = 10.0
DELIVERIES = 4

_numbers = itertools.count()


@dataclasses.dataclass
class Expected:
    """What the model knows of one rollout."""

    max_attempts: int
    status: str = "queued"
    fence: int = 0
    failures: int = 0
    lease_until: float = 0.0
    accepted: int = 0
    """Fence of the attempt whose report ended it."""

    def again(self) -> None:
        self.status = "queued" if self.fence < DELIVERIES else "crashed"


class QueueMachine(RuleBasedStateMachine):
    """Calls the store and the model alike, and compares them after each call."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.queue = f"queue-{next(_numbers)}"
        self.rollouts: dict[str, Expected] = {}
        self.now = 1000.0

    @initialize(attempts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def begin(self, attempts: list[int]) -> None:
        self.create(attempts)

    @rule(attempts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def create(self, attempts: list[int]) -> None:
        made = [
            Rollout(
                id=f"{self.queue}/{len(self.rollouts) + n}",
                queue=self.queue,
                candidate_id="c",
                task_id="t",
                input=n,
                max_attempts=allowed,
            )
            for n, allowed in enumerate(attempts)
        ]
        assert self.store.rollouts.create(made, self.now) == len(made)
        assert self.store.rollouts.create(made, self.now) == 0
        self.rollouts.update((r.id, Expected(r.max_attempts)) for r in made)

    @rule(seconds=st.sampled_from([1.0, 5.0, LEASE_S, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def expire_in_model(self) -> list[str]:
        over = [id for id, e in self.rollouts.items() if e.status == "running"]
        over = [id for id in over if self.rollouts[id].lease_until <= self.now]
        for id in over:
            self.rollouts[id].again()
        return over

    @rule()
    def expire(self) -> None:
        assert self.store.rollouts.expire(self.now, self.queue) == self.expire_in_model()

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        self.expire_in_model()
        oldest = [id for id, e in self.rollouts.items() if e.status == "queued"][:limit]
        claims = self.store.rollouts.claim(self.queue, "w", limit, LEASE_S, self.now)
        assert [c.rollout.id for c in claims] == oldest
        for claim in claims:
            expected = self.rollouts[claim.rollout.id]
            expected.status, expected.fence = "running", expected.fence + 1
            expected.lease_until = self.now + LEASE_S
            assert claim.fence == claim.rollout.fence == expected.fence
            assert claim.lease_until == expected.lease_until

    def pairs(self, data: Any) -> list[tuple[str, int]]:
        """Some attempts: those that run, older ones, and ones that never were."""
        id = st.sampled_from(sorted(self.rollouts))
        older = st.tuples(id, st.integers(0, 4))
        newest = id.map(lambda i: (i, self.rollouts[i].fence))
        drawn: list[tuple[str, int]] = data.draw(
            st.lists(newest | newest | older, min_size=1, max_size=4, unique=True)
        )
        return drawn

    def runs(self, pair: tuple[str, int]) -> bool:
        expected = self.rollouts[pair[0]]
        return expected.status == "running" and expected.fence == pair[1]

    @rule(data=st.data())
    def heartbeat(self, data: Any) -> None:
        pairs = self.pairs(data)
        # However late: only `expire` and `claim` end an overdue attempt.
        kept = {pair for pair in pairs if self.runs(pair)}
        assert self.store.rollouts.heartbeat(pairs, LEASE_S, self.now) == kept
        for id, _ in kept:
            self.rollouts[id].lease_until = self.now + LEASE_S

    @rule(
        data=st.data(),
        status=st.sampled_from([*sorted(SPOILED), "succeeded", "inconclusive", "cancelled"]),
    )
    def finish(self, data: Any, status: Any) -> None:
        answers: dict[tuple[str, int], str | None] = {}
        pairs = self.pairs(data)
        for pair in pairs:
            expected, answers[pair] = self.rollouts[pair[0]], None
            if not self.runs(pair):
                continue
            expected.failures += status in SPOILED
            if status in SPOILED and expected.failures < expected.max_attempts:
                expected.again()
            else:
                expected.status = status
            if expected.status in FINAL:
                expected.accepted = expected.fence
            answers[pair] = expected.status
        outcomes = [
            Outcome(
                rollout_id=id,
                fence=fence,
                status=status,
                started_at=self.now,
                ended_at=self.now,
                duration_s=0.0,
                output=fence,
                spans=(Span(trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2),),
                scores=(Score(evaluator="e", version="1", value=float(fence)),),
            )
            for id, fence in pairs
        ]
        assert self.store.rollouts.finish(outcomes, self.now) == answers

    @rule(data=st.data())
    def release(self, data: Any) -> None:
        pairs = self.pairs(data)
        given = {pair for pair in pairs if self.runs(pair)}
        assert self.store.rollouts.release(pairs, self.now) == given
        for id, _ in given:
            self.rollouts[id].again()

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        ids = {id for id, _ in self.pairs(data)}
        going = [id for id in ids if self.rollouts[id].status not in FINAL]
        assert self.store.rollouts.cancel(sorted(ids), self.now) == len(going)
        for id in going:
            self.rollouts[id].status = "cancelled"

    @invariant()
    def both_agree(self) -> None:
        stored = self.store.rollouts.get(list(self.rollouts))
        for id, expected in self.rollouts.items():
            found = stored[id]
            assert (found.status, found.fence, found.failures) == (
                expected.status,
                expected.fence,
                expected.failures,
            )
        assert len(self.store.rollouts.running(self.queue)) == sum(
            expected.status == "running" for expected in self.rollouts.values()
        )

    def teardown(self) -> None:
        stored = self.store.rollouts.get(list(self.rollouts))
        scores = self.store.scores.of(list(self.rollouts))
        for id, expected in self.rollouts.items():
            attempts = self.store.rollouts.attempts(id)
            assert [a.fence for a in attempts] == list(range(1, expected.fence + 1))
            assert sum(a.status == "running" for a in attempts) == (expected.status == "running")
            reported = {s.value for s in scores[id]}
            if expected.accepted:
                # Exactly one report ended it, and everything stored is of that report.
                assert stored[id].output == expected.accepted
                assert reported == {float(expected.accepted)}
            else:
                assert reported == set()


def watch_transitions(store: Store) -> None:
    """Have the database itself write down every change of a rollout's status."""
    statements = ["CREATE TABLE status_changes (earlier TEXT, later TEXT)"]
    insert = "INSERT INTO status_changes VALUES (old.status, new.status);"
    if store._database.is_sqlite:
        statements.append(
            "CREATE TRIGGER watch AFTER UPDATE ON rollouts WHEN old.status <> new.status"
            f" BEGIN {insert} END"
        )
    else:
        statements += [
            "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {insert} RETURN NULL; END $$",
            "CREATE TRIGGER watch AFTER UPDATE ON rollouts FOR EACH ROW"
            " WHEN (old.status <> new.status) EXECUTE FUNCTION watch()",
        ]
    for statement in statements:
        store._database.write(lambda c, s=statement: c.execute(text(s)))


def test_any_sequence_of_calls_agrees_with_the_model_and_ends_each_rollout_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "MAX_DELIVERIES", DELIVERIES)
    watch_transitions(store)

    class Machine(QueueMachine):
        pass

    Machine.store = store
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=30 if os.environ.get("RATCHET_LONG_FAULTS") else 6,
            stateful_step_count=25,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    query = text("SELECT DISTINCT earlier, later FROM status_changes")
    seen = {
        (before, after) for before, after in store._database.read(lambda c: list(c.execute(query)))
    }
    allowed = {
        (before, after) for before in ROLLOUT_TRANSITIONS for after in ROLLOUT_TRANSITIONS[before]
    }
    assert seen
    assert seen <= allowed
