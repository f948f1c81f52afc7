"""GEPA: the package searches in our lab, spends our budget, and resumes by our journal."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from ratchet.learn import Budget, Finding, Proposal
from ratchet.learn.gepa import FRUITLESS, GEPA
from ratchet.llm import CoachUnavailable
from ratchet.store import Store
from ratchet.types import Candidate, ConfigError, InputError, Int, Params
from tests.learn.conftest import FakeRunner, Killed, MakeStore, make_lab
from tests.learn.evolve.conftest import FUNCTION, by_code
from tests.learn.rule_coach import RULES, SOURCE, RuleCoach, obeys

pytest.importorskip("gepa", reason="the extra gepa is not installed")


class Learned(msgspec.Struct):
    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    coach: RuleCoach
    lab: Any


def fenced(text: str) -> str:
    return f"Here it is:\n```\n{text}\n```"


def learn(
    store: Store,
    gepa: GEPA | None = None,
    *,
    coach: RuleCoach | None = None,
    order: int = 0,
    dies_after: int | None = None,
    baseline: Candidate = SOURCE,
    agent: Any = obeys,
    budget: Budget | None = None,
    **options: Any,
) -> Learned:
    proposals: list[Proposal] = []
    coach = coach or RuleCoach(fenced, order=order)
    runner = FakeRunner(store, agent, order=order, dies_after=dies_after, cost_usd=0.001)
    lab = make_lab(
        runner,
        store,
        baseline,
        coach=coach,
        budget=budget or Budget(rollouts=300),
        on_proposal=proposals.append,
        **options,
    )
    finding = asyncio.run((gepa or GEPA()).learn(lab))
    return Learned(finding, proposals, runner, coach, lab)


def test_it_finds_a_better_prompt(make_store: MakeStore) -> None:
    found = learn(make_store())
    assert found.finding.baseline_val == 0.0
    assert found.finding.best_val >= 0.6
    text = found.finding.best.resources["system"].text  # type: ignore[union-attr]
    assert text.startswith("Book a room for {request}.")
    assert sum(rule in text for rule in RULES) >= 3
    assert found.finding.best.algorithm == "gepa"
    assert "rewrote system" in found.finding.best.reason
    kept = [p for p in found.proposals if p.accepted]
    assert found.finding.best.id in {p.candidate_id for p in kept}
    assert "better on its train tasks" in kept[0].accepted
    assert found.coach.credits.count(True) == len(kept)
    assert found.coach.credits.count(False) > 0


def test_it_never_exceeds_its_budgets(make_store: MakeStore) -> None:
    for rollouts in (26, 40, 77):
        found = learn(make_store(), budget=Budget(rollouts=rollouts))
        assert found.runner.executed.total() <= rollouts
        assert "the budget is spent" in found.finding.sentence
    found = learn(make_store(), budget=Budget(coach_calls=3))
    assert len(found.coach.asked) == 3
    assert "the budget is spent" in found.finding.sentence


def same(one: Learned, other: Learned) -> None:
    assert other.finding == one.finding
    assert other.proposals == one.proposals


def test_rollouts_that_end_in_another_order_change_nothing(make_store: MakeStore) -> None:
    runs = [learn(make_store(), order=order) for order in range(3)]
    same(runs[0], runs[1])
    same(runs[0], runs[2])


@pytest.mark.parametrize("calls", [0, 1, 4])
def test_killed_at_a_coach_call_and_resumed_it_pays_nothing_twice(
    make_store: MakeStore, calls: int
) -> None:
    whole = learn(make_store())
    store = make_store()
    dying = RuleCoach(fenced, dies_after=calls)
    with pytest.raises(Killed):
        learn(store, coach=dying)
    going_on = learn(store, order=5)
    same(whole, going_on)
    assert dying.asked + going_on.coach.asked == whole.coach.asked


@pytest.mark.parametrize("rollouts", [3, 11, 60])
def test_killed_at_a_rollout_and_resumed_it_pays_nothing_twice(
    make_store: MakeStore, rollouts: int
) -> None:
    whole = learn(make_store())
    store = make_store()
    dying = RuleCoach(fenced)
    with pytest.raises(Killed):
        learn(store, coach=dying, dies_after=rollouts)
    going_on = learn(store, order=5)
    same(whole, going_on)
    assert dying.asked + going_on.coach.asked == whole.coach.asked
    assert going_on.runner.executed.total() == whole.runner.executed.total() - rollouts


def test_a_proposal_that_fails_the_checks_costs_no_rollout(make_store: MakeStore) -> None:
    async def refuse(candidate: Candidate) -> str:
        return "It fails the tests."

    found = learn(make_store(), GEPA(max_iterations=5), checks=refuse)
    assert found.finding.best == SOURCE
    assert found.runner.executed.total() <= 10 + 5 * 3


@pytest.mark.parametrize("refused", [True, False])
def test_code_passes_the_repositorys_tests_before_a_whole_evaluation(
    make_store: MakeStore, refused: bool
) -> None:
    tested: list[str] = []

    async def tests(candidate: Candidate) -> str:
        tested.append(candidate.id)
        return "It fails test_it." if refused else ""

    class Writes(RuleCoach):
        async def ask(self, *args: Any, **options: Any) -> Any:
            reply = await super().ask(*args, **options)
            better = FUNCTION.source.replace("share = 0.1", "share = 0.7")
            return msgspec.structs.replace(reply, text=fenced(better))

    store = make_store()
    source = Candidate.of({"guess": FUNCTION})
    runner = FakeRunner(store, by_code)
    lab = make_lab(
        runner, store, source, coach=Writes(fenced), budget=Budget(rollouts=300), tests=tests
    )
    finding = asyncio.run(GEPA(max_iterations=3).learn(lab))
    assert len(tested) == 1
    ran = store.rollouts.get(list(runner.executed)).values()
    own = [r.task_id for r in ran if r.candidate_id == tested[0]]
    assert any(task.startswith("train") for task in own)
    assert any(task.startswith("val") for task in own) is not refused
    assert (finding.best == source) is refused


def test_a_coach_that_is_gone_ends_the_run_with_its_sentence(make_store: MakeStore) -> None:
    class Gone(RuleCoach):
        async def ask(self, *args: Any, **options: Any) -> Any:
            raise CoachUnavailable("Nobody is there.")

    with pytest.raises(CoachUnavailable, match="Nobody is there"):
        learn(make_store(), coach=Gone(fenced))


def test_a_source_that_solves_val_by_chance_still_learns_what_train_shows(
    make_store: MakeStore,
) -> None:
    def lucky(resources: Any, given: Any) -> Any:
        return 1.0 if given["split"] == "val" else obeys(resources, given)

    found = learn(make_store(), agent=lucky)
    assert found.finding.best != SOURCE
    assert found.finding.best_val == found.finding.baseline_val == 1.0


def test_without_text_it_says_how_to_declare_some(make_store: MakeStore) -> None:
    knobs = Candidate.of({"k": Params({"k": Int(1, 0, 5)})})
    with pytest.raises(
        InputError, match=r"no prompt or function for gepa to improve.*ratchet\.prompt"
    ):
        learn(make_store(), baseline=knobs)
    with pytest.raises(InputError, match="There are no val tasks"):
        learn(make_store(), val=0)


@pytest.mark.parametrize(
    "options",
    [
        {"candidate_selection_strategy": "best"},
        {"module_selector": "none"},
        {"reflection_minibatch_size": 0},
        {"max_iterations": True},
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        GEPA(**options)


def test_without_the_package_it_names_the_extra(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(ConfigError, match=r"not installed.*agent-ratchet\[gepa\]"):
        learn(make_store())


@pytest.mark.parametrize(
    ("text", "problem"), [("", "The answer is empty."), ("```\nBook for {nobody}.\n```", "")]
)
def test_a_coach_whose_answers_cannot_be_tried_is_not_asked_for_ever(
    make_store: MakeStore, text: str, problem: str
) -> None:
    class Useless(RuleCoach):
        async def ask(self, *args: Any, **options: Any) -> Any:
            reply = await super().ask(*args, **options)
            return msgspec.structs.replace(reply, text=text, problem=problem)

    coach = Useless(fenced)
    found = learn(make_store(), coach=coach)
    assert found.finding.best == SOURCE
    assert len(coach.asked) <= FRUITLESS + 1
    assert "answers from the coach in a row could not be used (the last: " in found.finding.sentence
