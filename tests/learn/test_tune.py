"""Tune: it finds better knobs, spends what it may, and does the same again when it is resumed."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec
import pytest

from ratchet.learn import Budget, Finding, Proposal, Tune
from ratchet.store import Store
from ratchet.types import (
    Bool,
    Candidate,
    Choice,
    Float,
    InputError,
    Int,
    Model,
    Params,
    PromptTemplate,
    version_of,
)
from tests.learn.conftest import Answer, FakeRunner, Killed, MakeStore, make_lab

SEARCH = Params({"k": Int(3, 1, 50), "weight": Float(0.1, 0.01, 10.0, log=True)})
STYLE = Params({"mode": Choice("a", ("a", "b", 1, True)), "stem": Bool(False)})
SOURCE = Candidate.of({"search": SEARCH, "style": STYLE, "prompt": PromptTemplate("{q}")})


def landscape(resources: Any, given: Any) -> float:
    """Best at k = 20, weight = 1, mode = b, stem; without noise, a little different by task."""
    search, style = resources["search"].values, resources["style"].values
    value = 0.5 - abs(search["k"] - 20) / 100 - abs(math.log10(search["weight"])) / 8
    value += 0.2 * (style["mode"] == "b") + 0.15 * style["stem"] - (given["nr"] % 7) / 100
    return min(max(value, 0.0), 1.0)


class Learned(msgspec.Struct):
    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    spent: int


def learn(
    store: Store,
    tune: Tune,
    *,
    baseline: Candidate = SOURCE,
    answer: Answer = landscape,
    rollouts: int | None = 1500,
    seed: int = 0,
    order: int = 0,
    dies_after: int | None = None,
    cost_usd: float = 0.0,
    **options: Any,
) -> Learned:
    """One whole search, or a beginning of one that a kill ends."""
    proposals: list[Proposal] = []
    runner = FakeRunner(store, answer, order=order, dies_after=dies_after, cost_usd=cost_usd)
    budget = options.pop("budget", Budget(rollouts=rollouts))
    lab = make_lab(
        runner, store, baseline, seed=seed, budget=budget, on_proposal=proposals.append, **options
    )
    finding = asyncio.run(tune.learn(lab))
    return Learned(finding, proposals, runner, lab.spent.rollouts)


def shown(learned: Learned) -> list[tuple[str, float, bool]]:
    return [(p.candidate_id, p.value, p.pruned) for p in learned.proposals]


def test_it_finds_knobs_near_the_optimum_over_several_resources(make_store: MakeStore) -> None:
    found = learn(make_store(), Tune())
    best = found.finding.best
    assert found.finding.best_val > found.finding.baseline_val + 0.25
    assert found.finding.best_val > 0.7  # 0.82 at the optimum
    assert best.resources["style"].values == {"mode": "b", "stem": True}
    assert best.changed_from(SOURCE) == ("search", "style")
    assert best.parents == (SOURCE.id,)
    assert best.algorithm == "tune"
    assert best.reason


def test_the_first_trial_is_the_source_itself(make_store: MakeStore) -> None:
    odd = Params({"k": Int(3, 1, 50), "weight": Float(0.123456789, 0.01, 10.0, log=True)})
    source = Candidate.of({"search": odd, "style": STYLE})
    found = learn(make_store(), Tune(max_trials=1), baseline=source)
    assert [p.candidate_id for p in found.proposals] == [source.id]
    assert not found.proposals[0].pruned
    assert found.finding.best == source


def test_the_same_seed_proposes_the_same_in_whatever_order_rollouts_end(
    make_store: MakeStore,
) -> None:
    runs = [learn(make_store(), Tune(), rollouts=900, order=order) for order in range(3)]
    assert shown(runs[0]) == shown(runs[1]) == shown(runs[2])
    assert runs[0].finding == runs[1].finding == runs[2].finding


def test_trials_given_up_early_cost_fewer_rollouts(make_store: MakeStore) -> None:
    pruning, full = (
        learn(make_store(), Tune(max_trials=24, first_tasks=n), rollouts=None, train=54)
        for n in (6, 54)
    )
    assert sum(p.pruned for p in full.proposals) == 0
    assert sum(p.pruned for p in pruning.proposals) >= 8
    assert pruning.spent < 0.7 * full.spent
    by_tasks = {p.pruned: set[int]() for p in pruning.proposals}
    for proposal in pruning.proposals:
        by_tasks[proposal.pruned].add(proposal.tasks)
    assert by_tasks == {True: by_tasks[True], False: {54}}
    assert by_tasks[True] <= {6, 18}


@pytest.mark.parametrize("rollouts", [110, 111, 150, 333, 500])
def test_it_never_exceeds_its_budget(make_store: MakeStore, rollouts: int) -> None:
    found = learn(make_store(), Tune(), rollouts=rollouts)
    assert found.spent == found.runner.executed.total() <= rollouts
    assert "budget is spent" in found.finding.sentence
    assert found.proposals[-1].rollouts <= rollouts


def test_dollars_that_are_gone_in_the_middle_of_a_batch_end_the_search(
    make_store: MakeStore,
) -> None:
    store = make_store()
    runner = FakeRunner(store, landscape, cost_usd=0.01)

    def dearer(resources: Any, given: Any) -> float:
        runner.cost_usd = 0.01 if given["split"] == "val" else 0.5
        return landscape(resources, given)

    runner.answer = dearer
    lab = make_lab(runner, store, SOURCE, budget=Budget(dollars=8.0))
    finding = asyncio.run(Tune(first_tasks=4).learn(lab))
    assert "budget is spent" in finding.sentence
    assert finding.proposals == 8


def test_a_small_space_is_searched_once(make_store: MakeStore) -> None:
    tiny = Candidate.of({"p": Params({"on": Bool(False), "fixed": Float(1.0, 1.0, 1.0)})})
    found = learn(
        make_store(),
        Tune(),
        baseline=tiny,
        answer=lambda r, _: 0.25 + 0.5 * r["p"].values["on"],
        rollouts=None,
    )
    assert found.finding.best.resources["p"].values["on"] is True
    assert "all 2 combinations were tried" in found.finding.sentence
    assert len({p.candidate_id for p in found.proposals}) == 2


def test_options_that_python_takes_for_equal_are_told_apart(make_store: MakeStore) -> None:
    mixed = Candidate.of({"p": Params({"m": Choice(0, (0, False, 1, True))})})
    found = learn(
        make_store(),
        Tune(),
        baseline=mixed,
        answer=lambda r, _: 0.9 if r["p"].values["m"] is True else 0.1,
        rollouts=None,
    )
    assert found.finding.best.resources["p"].values["m"] is True


def test_the_baseline_stays_when_val_speaks_against_all_others(make_store: MakeStore) -> None:
    def overfits(resources: Any, given: Any) -> float:
        if given["split"] == "val":
            return 0.5 if resources == SOURCE.resources else 0.45
        return landscape(resources, given)

    found = learn(make_store(), Tune(), answer=overfits, rollouts=800)
    assert found.finding.best == SOURCE
    assert found.finding.best_val == found.finding.baseline_val == 0.5
    assert found.proposals[-1].best > found.proposals[0].value


def test_a_candidate_without_any_score_counts_as_0_and_ends_nothing(
    make_store: MakeStore,
) -> None:
    def unscorable(resources: Any, given: Any) -> float:
        return 7.0 if resources["style"].values["mode"] != "a" else landscape(resources, given)

    found = learn(make_store(), Tune(), answer=unscorable, rollouts=800)
    assert found.finding.best.resources["style"].values["mode"] == "a"
    assert found.finding.best_val > found.finding.baseline_val
    assert 0.0 in {proposal.value for proposal in found.proposals}


def test_an_evaluator_that_never_says_anything_of_the_source_is_an_error(
    make_store: MakeStore,
) -> None:
    with pytest.raises(InputError, match="No val task has a score"):
        learn(make_store(), Tune(), answer=lambda *_: 7.0)


def test_a_candidate_whose_rollouts_fail_is_not_chosen(make_store: MakeStore) -> None:
    def fragile(resources: Any, given: Any) -> float:
        if resources["search"].values["k"] > 30:
            raise ValueError("too many")
        return landscape(resources, given)

    found = learn(make_store(), Tune(), answer=fragile, rollouts=800)
    assert found.finding.best.resources["search"].values["k"] <= 30


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"eta": 1},
        {"max_trials": -1},
        {"first_tasks": 0},
        {"finalists": 0},
        {"patience": 0},
        {"batch": 2.5},
        {"batch": "8"},
        {"eta": "3"},
        {"max_trials": True},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="whole number"):
        Tune(**options)


@pytest.mark.parametrize("dies_after", [0, 1, 9, 10, 11, 50, 73, 130, 200, 260])
def test_a_killed_search_executes_only_what_is_missing_and_finds_the_same(
    make_store: MakeStore, dies_after: int
) -> None:
    tune = Tune(first_tasks=5)
    whole = learn(make_store(), tune, rollouts=340, train=30)
    store = make_store()
    with pytest.raises(Killed):
        learn(store, tune, rollouts=340, train=30, order=1, dies_after=dies_after)
    resumed = learn(store, tune, rollouts=340, train=30, order=2)
    assert resumed.finding == whole.finding
    assert shown(resumed) == shown(whole)
    assert resumed.spent == whole.spent
    # The kill came in the middle of several evaluations: none of what they had stored ran again.
    assert resumed.runner.executed.total() == whole.runner.executed.total() - kept(store, resumed)


def kept(store: Store, resumed: Learned) -> int:
    return sum(store.rollouts.counts().values()) - resumed.runner.executed.total()


def test_a_search_that_is_killed_again_and_again_executes_nothing_twice(
    make_store: MakeStore,
) -> None:
    tune = Tune(first_tasks=5)
    whole = learn(make_store(), tune, rollouts=340, train=30)
    store = make_store()
    executed = 0
    for kill in range(100):
        runner = FakeRunner(store, landscape, order=kill, dies_after=23)
        lab = make_lab(runner, store, SOURCE, train=30, budget=Budget(rollouts=340))
        try:
            finding = asyncio.run(tune.learn(lab))
        except Killed:
            executed += runner.executed.total()
            continue
        executed += runner.executed.total()
        break
    assert finding == whole.finding
    assert executed == whole.spent == sum(store.rollouts.counts().values())


def by_model(resources: Any, given: Any) -> float:
    """The large model is right more often; with the small one first, the cold one is as good."""
    model = resources["answers"]
    value = {"small": 0.4, "large": 0.8}[model.model] - model.sampling["temperature"] / 10
    return min(max(value + (given["nr"] % 7) / 100, 0.0), 1.0)


def test_models_and_their_settings_are_searched_together_each_model_once_at_first(
    make_store: MakeStore,
) -> None:
    small = Model(
        "small", sampling={"temperature": 0.9, "max_tokens": 60}, choices=("small", "large")
    )
    source = Candidate.of({"answers": small})
    found = learn(make_store(), Tune(), baseline=source, answer=by_model)
    best = found.finding.best.resources["answers"]
    assert isinstance(best, Model)
    assert (best.model, best.sampling["max_tokens"]) == ("large", 60)
    assert best.sampling["temperature"] < 0.9
    assert best.choices == small.choices


def test_a_cheaper_model_may_be_asked_first_where_the_agent_checks_answers() -> None:
    alone = Model("large", choices=("small",))
    assert "first" not in alone.space.space
    checked = Model("large", choices=("small",), first="")
    assert version_of(checked) == version_of(alone)  # it asks the same
    point = checked.space
    assert checked.at(point.replace(first="small")).first == "small"
    assert checked.at(point.replace(model="small", first="small")).first == ""
