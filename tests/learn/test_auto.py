"""Auto: which algorithm works on what, for how much, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ratchet.learn import Budget, Finding, Lab, auto, mean
from ratchet.learn.algorithm import Cause
from ratchet.learn.arms import Arm
from ratchet.learn.auto import Auto
from ratchet.learn.search.plan import least
from ratchet.learn.tune import Tune
from ratchet.types import Candidate, InputError, Int, Params, PromptTemplate, Resource
from tests.learn.conftest import FakeRunner, Killed, MakeStore, make_lab

KNOBS = Params({"k": Int(2, 1, 20)})
PROMPT = PromptTemplate("You are a booking assistant of few words.")
BASELINE = Candidate.of({"knobs": KNOBS, "system": PROMPT})


class StandIn:
    """Asks nothing; only there so that the lab has a coach."""

    async def ask(self, *messages: Any, **options: Any) -> Any:
        raise AssertionError("nobody should ask")

    def credit(self, model: str, survived: bool) -> None:
        raise AssertionError("nothing to credit")


def answer(resources: Mapping[str, Resource], given: Any) -> float:
    """A knob counts for a little, each rule of the prompt for more, up to 0.95."""
    knobs, system = resources["knobs"], resources["system"]
    assert isinstance(knobs, Params)
    assert isinstance(system, PromptTemplate)
    knob = float(knobs.values["k"]) / 100
    return min(0.95, 0.1 + knob + 0.05 * system.text.count("rule"))


class Steps:
    """Improves one resource by one step each time, tried on val."""

    def __init__(self, name: str, steps: int, seen: list[Any]) -> None:
        self.name = name
        self._steps = steps
        self._seen = seen

    async def learn(self, lab: Lab) -> Finding:
        self._seen.append((self.name, tuple(lab.targets), lab.budget.rollouts))
        before = mean(await lab.evaluate(lab.baseline, lab.val)) or 0.0
        resource = lab.baseline.resources["knobs" if self.name == "knobs" else "system"]
        if isinstance(resource, Params):
            k = min(20, int(resource.values["k"]) + self._steps)
            changed: Resource = resource.replace(k=k)
            name = "knobs"
        else:
            assert isinstance(resource, PromptTemplate)
            changed, name = PromptTemplate(resource.text + " rule" * self._steps), "system"
        child = lab.propose({name: changed}, algorithm=self.name, reason="A step.")
        after = mean(await lab.evaluate(child, lab.val)) or 0.0
        best, best_val = (child, after) if after > before else (lab.baseline, before)
        return Finding(
            best=best,
            baseline_val=before,
            best_val=best_val,
            proposals=1,
            sentence="One step; the budget is spent.",
        )


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arms that improve step by step, and a list of who worked when."""
    worked: list[Any] = []

    def arm(name: str, kind: type, steps: int, prior: float, asks: bool = False) -> Arm:
        return Arm(
            name,
            lambda: Steps(name, steps, worked),
            lambda resource: isinstance(resource, kind),
            asks=asks,
            prior=prior,
            what=name,
        )

    arms = (
        arm("knobs", Params, 3, 1.0),
        arm("rules", PromptTemplate, 2, 0.9, asks=True),
        arm("nothing", PromptTemplate, 0, 0.8),
    )
    monkeypatch.setattr(auto, "ARMS", arms)
    return worked


def learn(lab: Lab, **options: Any) -> Finding:
    return asyncio.run(Auto(**options).learn(lab))


def lab_of(make_store: MakeStore, **options: Any) -> tuple[FakeRunner, Lab]:
    store = options.pop("store", None) or make_store()
    runner = FakeRunner(store, answer, dies_after=options.pop("dies_after", None))
    options.setdefault("budget", Budget(rollouts=600))
    options.setdefault("coach", StandIn())
    return runner, make_lab(runner, store, options.pop("baseline", BASELINE), **options)


def test_each_way_is_tried_and_the_one_that_gains_most_gets_the_rest(
    make_store: MakeStore, seen: list[Any]
) -> None:
    said: list[str] = []
    _, lab = lab_of(make_store, on_note=said.append)
    finding = learn(lab)
    names = [name for name, _, _ in seen]
    assert set(names[:3]) == {"knobs", "rules", "nothing"}
    assert names.count("rules") > names.count("knobs") >= 1
    assert names.count("nothing") <= 2
    assert finding.best_val == pytest.approx(0.95)
    assert finding.baseline_val == pytest.approx(0.12)
    assert "rules on 'system' (+" in finding.sentence
    assert "'nothing'" not in finding.sentence
    assert "no gain" in finding.sentence
    assert any("raised the mean from" in note and "val tasks (" in note for note in said)


def test_gains_of_several_algorithms_add_up(make_store: MakeStore, seen: list[Any]) -> None:
    _, lab = lab_of(make_store)
    best = learn(lab).best
    assert {*best.changed_from(BASELINE)} == {"knobs", "system"}


def test_each_arm_sees_its_own_resources_and_a_share_of_the_budget(
    make_store: MakeStore, seen: list[Any]
) -> None:
    _, lab = lab_of(make_store)
    learn(lab)
    for name, targets, rollouts in seen:
        assert targets == (("knobs",) if name == "knobs" else ("system",))
        assert 0 < rollouts < 600
    assert lab.spent.rollouts <= 600


def test_what_needs_a_coach_is_left_out_without_one_and_that_is_said(
    make_store: MakeStore, seen: list[Any]
) -> None:
    said: list[str] = []
    _, lab = lab_of(make_store, coach=None, on_note=said.append)
    learn(lab)
    assert "rules" not in {name for name, _, _ in seen}
    assert any("rules" in note and "coach" in note for note in said)


def test_an_arm_that_cannot_work_is_said_and_the_others_go_on(
    make_store: MakeStore, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refuses:
        name = "knobs"

        async def learn(self, lab: Lab) -> Finding:
            raise InputError("There is no knob to turn.")

    broken = [
        Arm("knobs", Refuses, arm.fits, asks=False, prior=9.0, what="") if n == 0 else arm
        for n, arm in enumerate(auto.ARMS)
    ]
    monkeypatch.setattr(auto, "ARMS", tuple(broken))
    said: list[str] = []
    _, lab = lab_of(make_store, on_note=said.append)
    assert learn(lab).best_val > 0.5
    assert any("There is no knob to turn." in note for note in said)


@pytest.mark.parametrize("algorithm", [Auto, Tune])
@pytest.mark.parametrize("val", [1, 4])
def test_a_source_that_solves_val_by_chance_still_learns_what_train_shows(
    make_store: MakeStore, algorithm: type, val: int
) -> None:
    def lucky(resources: Mapping[str, Resource], given: Any) -> float:
        knobs = resources["knobs"]
        assert isinstance(knobs, Params)
        return float(given["split"] == "val" or given["nr"] < int(knobs.values["k"]))

    store = make_store()
    baseline = Candidate.of({"knobs": KNOBS})
    options: dict[str, Any] = {"train": 16, "val": val, "budget": Budget(rollouts=600)}
    lab = make_lab(FakeRunner(store, lucky), store, baseline, **options)
    finding = asyncio.run(algorithm().learn(lab))
    knobs = finding.best.resources["knobs"]
    assert isinstance(knobs, Params)
    assert int(knobs.values["k"]) >= 12
    assert finding.best_val == finding.baseline_val == 1.0


def test_a_change_that_gains_nowhere_is_refused_where_val_is_solved(make_store: MakeStore) -> None:
    def blind(resources: Mapping[str, Resource], given: Any) -> float:
        return float(given["split"] == "val" or given["nr"] < 4)

    store = make_store()
    baseline = Candidate.of({"knobs": Params({"k": Int(2, 1, 4)})})
    lab = make_lab(
        FakeRunner(store, blind), store, baseline, train=16, val=4, budget=Budget(rollouts=600)
    )
    assert learn(lab).best.id == baseline.id


def test_an_algorithm_for_one_prompt_gets_the_one_that_is_most_to_blame(
    make_store: MakeStore, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = [msgspec.structs.replace(arm, one=True) for arm in auto.ARMS[2:]]
    monkeypatch.setattr(auto, "ARMS", tuple(arms))
    monkeypatch.setattr(auto, "blame", lambda *_, **__: {"greeting": 0.2, "system": 0.8})
    prompts = {"greeting": PROMPT, "system": PROMPT, "knobs": KNOBS}
    _, lab = lab_of(make_store, baseline=Candidate.of(prompts))
    learn(lab)
    assert {targets for _, targets, _ in seen} == {("system",)}


@pytest.mark.parametrize(("budget", "tasks"), [(250, (26, 13)), (20_000, (40, 40))])
def test_an_algorithm_that_runs_whole_splits_gets_as_many_tasks_as_its_slice_bears(
    make_store: MakeStore,
    seen: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    budget: int,
    tasks: tuple[int, int],
) -> None:
    given = []

    class Looks(Steps):
        async def learn(self, lab: Lab) -> Finding:
            given.append((len(lab.train), len(lab.val)))
            return await super().learn(lab)

    knobs, *others = auto.ARMS
    made = msgspec.structs.replace(
        knobs,
        make=lambda: Looks("knobs", 1, seen),
        subset=lambda lab, rollouts: (lab.train[: rollouts // 8], lab.val[: rollouts // 16]),
    )
    monkeypatch.setattr(auto, "ARMS", (made, *others))
    _, lab = lab_of(make_store, budget=Budget(rollouts=budget), val=40)
    learn(lab, algorithms=["knobs"])
    assert given[0][0] <= tasks[0]
    assert given[0][1] <= tasks[1]
    assert (given[0] == tasks) == (budget == 20_000)
    assert len(lab.train) == 40


def test_an_arm_that_is_added_works_once_if_a_second_slice_would_bring_nothing_more(
    make_store: MakeStore, seen: list[Any]
) -> None:
    algorithm = Auto(algorithms=["sft"])
    knobs = auto.ARMS[0]
    algorithm.arms += (
        msgspec.structs.replace(
            knobs, name="sft", make=lambda: Steps("knobs", 3, seen), what="weights", once=True
        ),
    )
    _, lab = lab_of(make_store)
    found = asyncio.run(algorithm.learn(lab))
    assert [name for name, *_ in seen] == ["knobs"]
    assert found.best_val > found.baseline_val


@pytest.mark.parametrize(
    ("ended", "sentence", "slices"),
    [("idle", "Nothing new came; the budget is spent.", 1), ("budget", "That was all.", 2)],
)
def test_only_an_algorithm_that_spent_its_budget_gets_a_second_slice_without_a_gain(
    make_store: MakeStore,
    seen: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    ended: Cause,
    sentence: str,
    slices: int,
) -> None:
    class EndsByItself(Steps):
        async def learn(self, lab: Lab) -> Finding:
            finding = await super().learn(lab)
            return msgspec.structs.replace(finding, ended=ended, sentence=sentence)

    knobs, rules, _ = auto.ARMS
    ends = Arm(
        "ends",
        lambda: EndsByItself("ends", 0, seen),
        rules.fits,
        asks=False,
        prior=5.0,
        what="",
    )
    monkeypatch.setattr(auto, "ARMS", (knobs, rules, ends))
    _, lab = lab_of(make_store)
    learn(lab)
    assert [name for name, _, _ in seen].count("ends") == slices


class Flattered(Steps):
    """Tries what it makes on two val tasks only, which it solves."""

    async def learn(self, lab: Lab) -> Finding:
        self._seen.append((self.name, tuple(lab.targets), lab.budget.rollouts))
        easy = lab.val[:2]
        child = lab.propose({"system": PromptTemplate("easy")}, algorithm=self.name, reason="-")
        before, after = [mean(await lab.evaluate(c, easy)) or 0.0 for c in (lab.baseline, child)]
        return Finding(
            best=child, baseline_val=before, best_val=after, proposals=1, sentence="Lucky."
        )


@pytest.mark.parametrize(("elsewhere", "kept"), [(0.0, False), (0.4, True)])
def test_a_gain_on_a_few_val_tasks_is_compared_on_more_before_it_is_believed(
    make_store: MakeStore,
    seen: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: float,
    kept: bool,
) -> None:
    def lucky(resources: Mapping[str, Resource], given: Any) -> float:
        if str(resources["system"]) != "easy":
            return 0.2
        return 1.0 if given["split"] == "val" and given["nr"] < 2 else elsewhere

    arm = auto.ARMS[1]
    arms = [
        Arm(name, lambda: Flattered("rules", 0, seen), arm.fits, asks=False, prior=1.0, what="")
        for name in ("one", "two")
    ]
    monkeypatch.setattr(auto, "ARMS", tuple(arms))
    store = make_store()
    notes: list[str] = []
    lab = make_lab(
        FakeRunner(store, lucky),
        store,
        BASELINE,
        coach=StandIn(),
        budget=Budget(rollouts=600),
        val=20,
        on_note=notes.append,
    )
    finding = learn(lab)
    assert any("on 2 val tasks" in note for note in notes)
    assert "solves every" not in finding.sentence
    if kept:
        assert finding.best_val == pytest.approx((2 * 1.0 + 18 * 0.4) / 20)
        assert finding.baseline_val == pytest.approx(0.2)
    else:
        assert finding.best.id == BASELINE.id
        assert finding.best_val == finding.baseline_val
        assert any("is no better than the source on" in note for note in notes)


@pytest.mark.parametrize("rollouts", [60, 90, 150])
def test_a_small_budget_buys_a_shorter_look_and_fewer_slices(
    make_store: MakeStore, seen: list[Any], rollouts: int
) -> None:
    _, lab = lab_of(make_store, budget=Budget(rollouts=rollouts), val=8)
    finding = learn(lab)
    assert seen
    assert all(share >= auto.MIN_LAST_SLICE_ROLLOUTS for _, _, share in seen[:1])
    assert finding.best_val > finding.baseline_val
    assert lab.spent.rollouts <= rollouts


@pytest.mark.parametrize("rollouts", [30, 36, 40])
def test_a_first_slice_is_as_large_as_a_search_needs_if_there_is_as_much(
    make_store: MakeStore, seen: list[Any], rollouts: int
) -> None:
    store = make_store()
    hopeless = FakeRunner(store, lambda resources, given: 0.0)
    budget = Budget(rollouts=rollouts)
    learn(make_lab(hopeless, store, BASELINE, budget=budget, coach=StandIn(), train=17, val=4))
    assert seen[0][2] >= min(least(17, 4), rollouts - 4 - 2 * 4)


@pytest.mark.parametrize("dies_after", [5, 30, 45, 60, 90])
def test_killed_and_resumed_it_ends_as_if_never_killed(
    make_store: MakeStore, seen: list[Any], dies_after: int
) -> None:
    whole, lab = lab_of(make_store)
    expected = learn(lab)
    store = make_store()
    first, lab = lab_of(make_store, store=store, dies_after=dies_after)
    with pytest.raises(Killed):
        learn(lab)
    second, lab = lab_of(make_store, store=store)
    assert learn(lab) == expected
    executed = first.executed + second.executed
    assert executed == whole.executed
    assert set(executed.values()) == {1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algorithms": ["rule"]}, "no algorithm 'rule'"),
        ({"slices": 0}, "slices=0"),
        ({"surveyed": 1.5}, "surveyed=1.5"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    seen: Sequence[Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Auto(**options)


class Useless(Steps):
    """A search that finds out that its coach is of no use."""

    async def learn(self, lab: Lab) -> Finding:
        found = await super().learn(lab)
        return msgspec.structs.replace(
            found, best=lab.baseline, ended="coach", sentence="Five answers were unusable."
        )


def test_a_search_whose_coach_is_of_no_use_leaves_its_budget_to_the_others(
    make_store: MakeStore, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = msgspec.structs.replace(auto.ARMS[1], make=lambda: Useless("rules", 2, seen), prior=2.0)
    monkeypatch.setattr(auto, "ARMS", (rules, auto.ARMS[0], auto.ARMS[2]))
    said: list[str] = []
    _, lab = lab_of(make_store, on_note=said.append)
    learn(lab)
    names = [name for name, _, _ in seen]
    assert names.count("rules") == 1
    assert names[0] == "rules"
    assert {"knobs", "nothing"} <= {*names[1:]}
    assert any("lost its coach and continues with knobs, nothing" in note for note in said)
