"""A coach that is of no use: Evolve stops asking it, whatever the budget still allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ratchet.learn import Budget
from ratchet.llm import Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate
from tests.learn.conftest import MakeStore
from tests.learn.evolve.conftest import SOURCE, RuleCoach, by_rules, learn

UNLIMITED = Budget(rollouts=5_000)
"""Of rollouts only: what is refused costs none of them."""


class Rewrites(RuleCoach):
    """Answers with a prompt that is new each time, and says which."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """The source with another last line."""
        self.calls.append(messages[-1].content)
        text = f"{SOURCE.resources['system']}\nvariant {len(self.calls)}"
        return Reply(text=f"Another variant is better.\n```\n{text}\n```", model="m")


async def refuse(candidate: Candidate) -> str:
    """A check that lets only the source through."""
    return "" if candidate.resources == SOURCE.resources else "It breaks a test."


def fails(resources: Mapping[str, Any], given: Any) -> float:
    """The agent: any other prompt than the source's makes it fail."""
    if "variant" in str(resources["system"]):
        raise ValueError("no such room")
    return by_rules(resources, given)


def kept(store: Store, kind: str) -> list[tuple[str, Any]]:
    return [entry for entry in store.journal.read("run0") if entry[0].startswith(kind)]


def test_a_coach_whose_candidates_are_all_refused_is_not_asked_for_ever(
    make_store: MakeStore,
) -> None:
    store = make_store()
    found = learn(store, coach=Rewrites(), checks=refuse, budget=UNLIMITED)
    assert found.finding.best == SOURCE
    assert len(found.coach.calls) <= 160
    assert "candidates of llm in a row did not run" in found.finding.sentence
    assert len(kept(store, "check/")) >= 20
    # Models hear that their proposals did not survive.
    assert found.coach.credits
    assert not any(found.coach.credits)


def test_a_coach_whose_candidates_all_fail_is_not_asked_for_ever(make_store: MakeStore) -> None:
    found = learn(make_store(), coach=Rewrites(), answer=fails, budget=UNLIMITED)
    assert found.finding.best == SOURCE
    assert len(found.coach.calls) <= 160
    assert found.lab.spent.rollouts < 300
    broken = [proposal for proposal in found.proposals if proposal.failed]
    assert len(broken) >= 20
    assert all("no such room" in proposal.error for proposal in broken)


@pytest.mark.long
def test_one_candidate_that_runs_now_and_then_keeps_the_search_going(
    make_store: MakeStore,
) -> None:
    checked: list[str] = []

    async def most(candidate: Candidate) -> str:
        checked.append(candidate.id)
        return "" if len(checked) % 8 == 0 else "It breaks a test."

    found = learn(make_store(), coach=Rewrites(), checks=most, budget=Budget(rollouts=80))
    assert len(checked) > 48
    assert "did not run" not in found.finding.sentence


@pytest.mark.long
def test_a_coach_whose_candidates_never_lead_is_not_asked_for_ever(make_store: MakeStore) -> None:
    found = learn(make_store(), coach=Rewrites(), budget=UNLIMITED)
    assert found.finding.best == SOURCE
    assert "of 200 candidates of llm in a row none led" in found.finding.sentence
    assert 200 <= len(found.coach.calls) <= 1000


def test_a_source_that_fails_itself_is_no_fault_of_its_changes(make_store: MakeStore) -> None:
    def never(resources: Mapping[str, Any], given: Any) -> float:
        raise ValueError("no such room")

    found = learn(make_store(), coach=Rewrites(), answer=never, budget=Budget(rollouts=200))
    assert "did not run" not in found.finding.sentence


def test_each_answer_that_could_not_be_used_is_kept_with_its_reason(make_store: MakeStore) -> None:
    class Cut(RuleCoach):
        async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
            self.calls.append(messages[-1].content)
            text = f"```\n{SOURCE.resources['system']}\nAlways ans"
            return Reply(text=text, problem="The answer was cut at the limit.", model="m")

    store = make_store()
    found = learn(store, coach=Cut(), budget=UNLIMITED)
    assert found.finding.best == SOURCE
    assert found.lab.spent.rollouts < 40
    reasons = [why for _, why in kept(store, "unusable/")]
    assert len(reasons) >= len(found.coach.calls) > 0
    assert set(reasons) == {"The coach gave no whole answer: The answer was cut at the limit."}


def test_a_single_coach_call_makes_a_proposal(make_store: MakeStore) -> None:
    found = learn(make_store(), coach=RuleCoach(seed=1), budget=Budget(rollouts=300, coach_calls=1))
    assert len(found.coach.calls) == found.lab.spent.coach_calls == 1
    assert "coach calls are spent" in found.finding.sentence
    assert "Candidates: 1 by llm" in found.finding.sentence
