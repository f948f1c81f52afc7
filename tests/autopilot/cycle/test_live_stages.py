"""Live stages see each observation once, whenever they are killed, and leave evidence."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.autopilot.live_traces import START_S, record

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.live_stages import LiveStages, canary_plan
from ratchet.autopilot.cycle.live_traffic import ProjectTraffic
from ratchet.autopilot.cycle.old_model import old_model
from ratchet.autopilot.cycle.parts import StageMeasurement
from ratchet.autopilot.cycle.stage_calls import stage_calls
from ratchet.autopilot.project import Project
from ratchet.bind.recognise import Recogniser
from ratchet.prove import ShadowPair, level, verify
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Cycle,
    CycleState,
    CycleTransition,
    Experiment,
    LiveOutcome,
    Model,
    PromptTemplate,
    Release,
    ReleaseState,
    Rollout,
    short_version,
)

BEGAN = 1_000.0


class Recorded:
    """Traffic that was recorded before, in pages."""

    def __init__(
        self, outcomes: Sequence[LiveOutcome] = (), pairs: Sequence[ShadowPair] = ()
    ) -> None:
        self.all, self.pairs = list(outcomes), list(pairs)
        self.mirrored_to: set[str] = set()
        self.refusal = ""
        self.page = 20

    def _from(self, items: list[Any], cursor: str | None) -> tuple[list[Any], str]:
        start = int(cursor or 0)
        found = items[start : start + self.page]
        return found, str(start + len(found))

    async def outcomes(
        self,
        cursor: str | None,
        *,
        since: float,
        timeout_s: float,
        experiment_id: str = "",
        prompts: Recogniser | None = None,
    ) -> tuple[Sequence[LiveOutcome], str | None]:
        found, after = self._from([o for o in self.all if o.at >= since], cursor)
        return [o for o in found if not experiment_id or o.experiment_id == experiment_id], after

    async def newest(self, limit: int) -> list[LiveOutcome]:
        return self.all[-limit:]

    async def before(
        self, until: float, limit: int, *, without: str, prompts: Recogniser | None = None
    ) -> list[LiveOutcome]:
        mine = [o for o in self.all if not without or o.candidate_id != without]
        return [o for o in mine if o.at < until][-limit:]

    def why_no_mirroring(self) -> str:
        return self.refusal

    async def mirror(
        self, stage_id: str, candidate_id: str, cursor: str | None, *, since: float
    ) -> tuple[Sequence[ShadowPair], str | None]:
        self.mirrored_to.add(candidate_id)
        return self._from(self.pairs, cursor)


@pytest.fixture
def store(sqlite_url: str) -> Any:
    with Store.open(sqlite_url) as opened:
        opened.experiments.put(
            Experiment(
                id="e",
                run_id="r",
                baseline_id="b",
                candidate_id="better",
                dataset_version="d",
                stream="s",
                history=(),
                alpha=level(0.05, ()),
                created_at=1.0,
            )
        )
        yield opened


def begun(store: Store, state: CycleState, **fields: Any) -> Cycle:
    cycle = Cycle(
        id="cycle",
        agent="helper",
        state="capture",
        trigger="",
        started_at=BEGAN,
        entered_at=BEGAN,
        updated_at=BEGAN,
        experiment_id="e",
        baseline_id="b",
        candidate_id="better",
        **fields,
    )
    path: dict[str, list[CycleState]] = {
        "canary": ["capture", "learn", "canary"],
        "shadow": ["capture", "learn", "shadow"],
        "watch": ["watch"],
    }
    source: CycleState = "idle"
    for number, target in enumerate(path[state], 1):
        cycle = msgspec.structs.replace(cycle, state=target, version=number)
        move = CycleTransition(
            cycle_id="cycle",
            number=number,
            source=source,
            target=target,
            rule="",
            inputs="",
            actor="autopilot",
            at=BEGAN,
        )
        store.cycles.put(cycle, move)
        source = target
    return cycle


def stages(store: Store, folder: Path, traffic: Recorded, **config: Any) -> LiveStages:
    made = Config.model_validate({"agent": {"entry": "agent:answer"}, **config})
    return LiveStages(Project(folder, made), store, traffic, lambda: BEGAN + 1.0)


def measure(found: LiveStages, cycle: Cycle) -> StageMeasurement:
    return asyncio.run(getattr(found, cycle.state)(cycle))


def to_the_end(found: LiveStages, cycle: Cycle) -> tuple[StageMeasurement, list[dict[str, Any]]]:
    """Measure until there is a verdict; also what was stored on the way."""
    stored = []
    for _ in range(1000):
        measured = measure(found, cycle)
        stored.append(measured.progress)
        if measured.decision.verdict is not None:
            return measured, stored
        cycle = msgspec.structs.replace(cycle, progress=measured.progress)
    raise AssertionError("There is no verdict.")


def pairs(gain: float, count: int = 400) -> list[ShadowPair]:
    return [
        ShadowPair(trace_id=str(n), baseline=0.5, candidate=0.5 + gain, rollout_id=str(n))
        for n in range(count)
    ]


def outcomes(count: int, score: Any, *, at: float = BEGAN, **fields: Any) -> list[LiveOutcome]:
    return [
        LiveOutcome(trace_id=f"{at}-{n}", unit=f"{at}-{n}", at=at + n / 1000, score=score, **fields)
        for n in range(count)
    ]


@pytest.mark.parametrize(("gain", "verdict"), [(0.2, "pass"), (-0.2, "harm"), (-0.015, None)])
def test_a_shadow_stage_decides_and_its_evidence_recomputes(
    store: Store, tmp_path: Path, gain: float, verdict: str | None
) -> None:
    found = stages(store, tmp_path, Recorded(pairs=pairs(gain)), shadow={"max_pairs": 100})
    measured, _ = to_the_end(found, begun(store, "shadow"))
    assert measured.decision.verdict == (verdict or "inconclusive")
    path = tmp_path / ".ratchet" / "evidence" / "cycle-shadow.json"
    verified = verify(path)
    verified.require()
    assert verified.pairs == measured.units
    assert verified.decision == measured.decision
    calls = stage_calls(store, "cycle")
    assert [call.trace_id for call in calls] == [str(n) for n in range(measured.units)]
    assert {(call.baseline, call.candidate, call.part) for call in calls} == {
        (0.5, 0.5 + gain, "pair")
    }


def test_a_stage_that_was_killed_after_reading_sees_what_it_had_read(
    store: Store, tmp_path: Path
) -> None:
    cycle = begun(store, "shadow")
    plain, way = to_the_end(stages(store, tmp_path, Recorded(pairs=pairs(0.1))), cycle)
    # Each measurement again, from what was stored before it; by now, traffic says other things.
    other = Recorded(pairs=pairs(-0.4))
    again = stages(store, tmp_path, other)
    for before, after in zip([{}, *way], way, strict=False):
        killed = msgspec.structs.replace(cycle, progress=before)
        assert measure(again, killed).progress == after
    assert plain.decision.verdict == "pass"


def test_a_canary_compares_the_arms_of_its_own_units(store: Store, tmp_path: Path) -> None:
    arms = [
        outcome
        for n in range(3000)
        for outcome in outcomes(
            1,
            0.9 if n % 2 else 0.5,
            at=BEGAN + n,
            experiment_id="cycle",
            arm="candidate" if n % 2 else "baseline",
        )
    ]
    others = outcomes(500, 0.0, at=BEGAN + 0.5)
    traffic = Recorded(sorted([*arms, *others], key=lambda o: o.at))
    measured, way = to_the_end(stages(store, tmp_path, traffic), begun(store, "canary"))
    assert measured.decision.verdict == "pass"
    assert measured.decision.candidate == pytest.approx(0.9)
    assert measured.units == way[-1]["taken"] < 3000
    verify(tmp_path / ".ratchet" / "evidence" / "cycle-canary.json").require()


@pytest.mark.parametrize(
    ("fails", "seconds", "verdict", "said"),
    [(0.0, 1.0, "pass", ""), (0.3, 1.0, "harm", "errors"), (0.0, 3.0, "harm", "latency")],
    ids=["as before", "fails more often", "takes longer"],
)
def test_a_canary_that_scores_better_has_to_keep_its_guardrails(
    store: Store, tmp_path: Path, fails: float, seconds: float, verdict: str, said: str
) -> None:
    before = outcomes(200, 0.5, at=BEGAN - 10, latency_s=1.0)
    arms = [
        outcome
        for n in range(4000)
        for outcome in outcomes(
            1,
            0.95 if n % 2 else 0.5,
            at=BEGAN + n,
            experiment_id="cycle",
            arm="candidate" if n % 2 else "baseline",
            error=n % 2 == 1 and n % 20 < 20 * fails,
            latency_s=seconds if n % 2 else 1.0,
        )
    ]
    guarded = {"guardrails": ["errors", "latency"]}
    found = stages(store, tmp_path, Recorded([*before, *arms]), canary=guarded)
    measured, _ = to_the_end(found, begun(store, "canary"))
    assert measured.decision.verdict == verdict
    assert said in measured.decision.sentence
    metrics = [each.metric for each in measured.decision.guardrails]
    assert metrics == ["errors", "latency", "negative feedback or errors", "share with feedback"]


def test_without_an_evaluator_a_better_candidate_passes_though_most_people_say_nothing(
    store: Store, tmp_path: Path
) -> None:
    rng = random.Random(8)
    heard = []
    for n in range(5000):
        better = rng.random() < 0.5
        content, speaks = rng.random() < (0.8 if better else 0.6), rng.random() < 0.2
        heard += outcomes(
            1,
            float(content) if speaks else None,
            at=BEGAN + n,
            experiment_id="cycle",
            arm="candidate" if better else "baseline",
        )
    traffic = Recorded(heard)
    traffic.page = 200
    measured, _ = to_the_end(stages(store, tmp_path, traffic), begun(store, "canary"))
    assert measured.decision.verdict == "pass"
    assert "people fall silent alike in both arms" in measured.decision.sentence
    verify(tmp_path / ".ratchet" / "evidence" / "cycle-canary.json").require()


def test_a_canary_on_feedback_says_how_many_units_it_takes_before_its_first(
    store: Store, tmp_path: Path
) -> None:
    before = outcomes(500, None, at=BEGAN - 3600)
    told = [
        msgspec.structs.replace(outcome, score=1.0) if number % 10 == 0 else outcome
        for number, outcome in enumerate(before)
    ]
    found = stages(store, tmp_path, Recorded(told))
    measured = measure(found, begun(store, "canary"))
    assert measured.decision.verdict is None
    said = "With feedback on 10 % of units, as before, a canary takes about 8,500 units"
    assert said in measured.decision.sentence
    assert "raises" not in measured.decision.sentence
    limited = stages(store, tmp_path, Recorded(told), canary={"max_units": 1000})
    plan = canary_plan(limited.project.config, 0.0146, told)
    assert plan.max_units == 1000
    scored = Config.model_validate(
        {"agent": {"entry": "a:b"}, "autopilot": {"evaluator": "contains"}}
    )
    plan = canary_plan(scored, 0.0146, told)
    assert (plan.feedback, plan.missing, plan.max_units) == (None, "worst", 5000)


def test_a_watch_expects_what_came_before_the_release(store: Store, tmp_path: Path) -> None:
    before = outcomes(400, 0.9, at=BEGAN - 10)
    worse = outcomes(400, 0.4, at=BEGAN, candidate_id="better")
    elsewhere = outcomes(400, 0.0, at=BEGAN)  # conversations that keep what they began with
    traffic = Recorded(sorted([*before, *worse, *elsewhere], key=lambda o: o.at))
    cycle = msgspec.structs.replace(begun(store, "watch"), baseline_id="")  # of other hands
    measured, _ = to_the_end(stages(store, tmp_path, traffic), cycle)
    assert measured.decision.verdict == "alarm"
    assert measured.decision.metric == "score"
    assert measured.decision.candidate == pytest.approx(0.4)
    assert measured.units < 100
    verify(tmp_path / ".ratchet" / "evidence" / "cycle-watch.json").require()
    calls = stage_calls(store, "cycle")
    seen = [call.candidate for call in calls if call.part == "candidate"]
    assert seen == [0.4] * measured.decision.candidate_count
    assert [call.trace_id for call in calls if call.part == "before"] == [
        outcome.trace_id for outcome in before
    ]


LARGE = Candidate.of({"answers": Model("large", in_calls="large")})
SMALL = LARGE.derive({"answers": Model("small", in_calls="large")}, algorithm="migrate")


def moved(store: Store, **fields: Any) -> Cycle:
    """A watch of a release that moved the agent to a small model."""
    for candidate in (LARGE, SMALL):
        store.candidates.put(candidate)
    cycle = begun(store, "watch", **fields)
    return msgspec.structs.replace(cycle, baseline_id=LARGE.id, candidate_id=SMALL.id)


def test_after_a_move_the_old_model_gets_the_same_inputs_and_an_alarm_says_it_is_better(
    store: Store, tmp_path: Path
) -> None:
    mine = outcomes(400, 0.5, at=BEGAN, candidate_id=SMALL.id)
    traffic = Recorded([*outcomes(400, 0.5, at=BEGAN - 10), *mine], pairs(0.3))
    found = stages(store, tmp_path, traffic)
    measured, _ = to_the_end(found, moved(store))
    assert measured.decision.verdict == "alarm"
    assert "the old model scores 0.800 and the new one 0.500" in measured.decision.sentence
    assert traffic.mirrored_to == {LARGE.id}
    verify(tmp_path / ".ratchet" / "evidence" / "cycle-old_model.json").require()


def test_a_move_that_is_proved_no_worse_is_asked_of_the_old_model_no_more(
    store: Store, tmp_path: Path
) -> None:
    traffic = Recorded(outcomes(400, 0.5, at=BEGAN - 10), pairs(-0.3))
    found, cycle = stages(store, tmp_path, traffic), moved(store)
    sentences = []
    for _ in range(5):
        measured = measure(found, cycle)
        assert measured.decision.verdict is None
        sentences.append(measured.decision.sentence)
        cycle = msgspec.structs.replace(cycle, progress=measured.progress)
    assert "whether the new one is worse is not decided yet" in sentences[0]
    assert "the new one is proved no worse by the margin" in sentences[-1]
    traffic.mirrored_to.clear()
    assert measure(found, cycle).decision.sentence == sentences[-1]
    assert traffic.mirrored_to == set()


def test_where_mirroring_is_not_allowed_the_watch_of_a_move_says_so(
    store: Store, tmp_path: Path
) -> None:
    traffic = Recorded(outcomes(400, 0.5, at=BEGAN - 10), pairs(-0.3))
    traffic.refusal = "the agent does not allow it."
    measured = measure(stages(store, tmp_path, traffic), moved(store))
    assert measured.decision.sentence.endswith(
        "The old model is not asked: the agent does not allow it."
    )
    assert traffic.mirrored_to == set()


def test_an_old_model_that_was_retired_is_asked_no_more_and_says_nothing_about_the_new_one(
    store: Store, tmp_path: Path
) -> None:
    ended = [
        Rollout(
            id=str(n), queue="q", candidate_id=LARGE.id, task_id=str(n), input=n, purpose="shadow",
            status="failed", error="404: model large was not found",
        )
        for n in range(100)
    ]  # fmt: skip
    store.rollouts.create(ended, BEGAN)
    traffic = Recorded(outcomes(400, 0.5, at=BEGAN - 10), pairs(-0.5, 100))
    found, cycle = stages(store, tmp_path, traffic), moved(store)
    measured = measure(found, cycle)
    assert "The old model no longer answers" in measured.decision.sentence
    assert "404: model large was not found" in measured.decision.sentence
    # Killed after the batch was journaled, it reaches the same numbers without asking again.
    traffic.mirrored_to.clear()
    assert measure(found, cycle).progress["old_model"] == measured.progress["old_model"]
    again = measure(found, msgspec.structs.replace(cycle, progress=measured.progress))
    assert again.decision.sentence == measured.decision.sentence
    assert traffic.mirrored_to == set()


def test_after_the_merge_of_a_move_the_old_model_takes_the_place_of_the_new_one_in_the_calls(
    store: Store, tmp_path: Path
) -> None:
    old = old_model(LARGE, SMALL, merged=True)
    assert old is not None
    assert old.resources == {"answers": Model("large", in_calls="small")}
    assert old_model(OLD, NEW, merged=True) is None


OLD = Candidate.of({"system": PromptTemplate("Answer."), "tone": PromptTemplate("Be kind.")})
NEW = OLD.derive({"system": PromptTemplate("Answer briefly.")}, algorithm="gepa")
EDITED = OLD.derive({"system": PromptTemplate("Answer briefly, please.")}, algorithm="person")


def ran(version: Candidate) -> dict[str, Any]:
    return {"versions": {name: short_version(each) for name, each in version.resources.items()}}


def merged(store: Store) -> Cycle:
    for candidate in (OLD, NEW):
        store.candidates.put(candidate)
    cycle = begun(store, "watch", request="https://forge/1")
    return msgspec.structs.replace(cycle, baseline_id=OLD.id, candidate_id=NEW.id)


@pytest.mark.parametrize("deployed", [NEW, EDITED], ids=["as proposed", "edited in review"])
def test_a_watch_of_a_merged_request_counts_calls_of_the_merged_version_only(
    store: Store, tmp_path: Path, deployed: Candidate
) -> None:
    before = outcomes(400, 0.5, at=BEGAN - 10, **ran(OLD))
    old = outcomes(1_000, 0.5, at=BEGAN, **ran(OLD))
    cycle, traffic = merged(store), Recorded([*before, *old])
    traffic.page = 2_000
    found = stages(store, tmp_path, traffic, watch={"outcomes": 300})
    waits = measure(found, cycle)
    assert (waits.decision.verdict, waits.units) == (None, 0)
    assert waits.decision.sentence == (
        "Waiting for the merged version to be deployed: 1,000 calls so far are all of the previous"
        " version."
    )
    cycle = msgspec.structs.replace(cycle, progress=waits.progress)
    mixed = [
        outcome
        for n in range(100)
        for version, score in ((OLD, 0.0), (deployed, 0.9))
        for outcome in outcomes(1, score, at=BEGAN + 50 + n, **ran(version))
    ]
    traffic.all += mixed
    measured = measure(found, cycle)
    assert (measured.decision.verdict, measured.units) == (None, 100)
    assert measured.decision.sentence.endswith("1,100 calls of the previous version left out.")
    assert measured.progress["seen_at"] == BEGAN + 50
    traffic.all += outcomes(400, 0.9, at=BEGAN + 500, **ran(deployed))
    cycle = msgspec.structs.replace(cycle, progress=measured.progress)
    passed = measure(found, cycle)
    assert (passed.decision.verdict, passed.units) == ("pass", 300)
    verify(tmp_path / ".ratchet" / "evidence" / "cycle-watch.json").require()


def says(version: Candidate) -> dict[str, Any]:
    """What an agent's own process records of the version that it runs."""
    versions = version.resources.items()
    return {"ratchet.resources": [f"{name}@{short_version(each)}" for name, each in versions]}


def sends(version: Candidate) -> dict[str, Any]:
    """What the gateway records of an agent that says nothing: the prompt that it sends."""
    prompt = version.resources["system"]
    assert isinstance(prompt, PromptTemplate)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": prompt.text}]),
    }


def says_in_part(version: Candidate) -> dict[str, Any]:
    """As `sends`, from a process that declares another prompt."""
    tone = f"tone@{short_version(version.resources['tone'])}"
    return {**sends(version), "ratchet.resources": [tone]}


@pytest.mark.parametrize(
    "told",
    [says, sends, says_in_part],
    ids=["by the process", "by the prompt", "by a prompt that the process does not declare"],
)
def test_a_watch_of_recorded_calls_waits_for_the_merged_version(
    store: Store, tmp_path: Path, told: Callable[[Candidate], dict[str, Any]]
) -> None:
    config = Config.model_validate(
        {"agent": {"entry": "agent:answer"}, "watch": {"metrics": ["errors"], "outcomes": 30}}
    )
    project, now = Project(tmp_path, config), START_S + 10_000.0
    traffic = ProjectTraffic(project, store, "bot", lambda: now, print)
    found = LiveStages(project, store, traffic, lambda: now)
    cycle = msgspec.structs.replace(merged(store), entered_at=START_S + 100.0)
    for number in range(50):
        record(store, number, **told(OLD))
    for number in range(101, 161):
        record(store, number, **told(OLD))
    waits = measure(found, cycle)
    assert (waits.decision.verdict, waits.units) == (None, 0)
    assert "60 calls so far are all of the previous version" in waits.decision.sentence
    for number in range(161, 261):
        record(store, number, **told(NEW if number % 2 else OLD))
    cycle = msgspec.structs.replace(cycle, progress=waits.progress)
    passed = measure(found, cycle)
    assert (passed.decision.verdict, passed.units) == ("pass", 30)
    calls = [call.trace_id for call in stage_calls(store, "cycle") if call.part == "candidate"]
    assert calls == [f"{number:032x}" for number in range(161, 221, 2)]


def test_a_watch_tells_deployments_by_their_names_where_calls_say_no_more(
    store: Store, tmp_path: Path
) -> None:
    before = outcomes(400, 0.5, at=BEGAN - 10, release="v1")
    after = [
        *outcomes(50, 0.9, at=BEGAN, release="v1"),
        *outcomes(70, 0.9, at=BEGAN + 1, release="v2"),
        *outcomes(5, 0.9, at=BEGAN + 2),
    ]
    traffic = Recorded([*before, *after])
    traffic.page = 1_000
    measured = measure(stages(store, tmp_path, traffic), merged(store))
    assert measured.units == 70
    assert measured.decision.sentence.endswith(
        "50 calls of the previous version and 5 calls of an unknown version left out."
    )


def test_a_watch_of_calls_that_do_not_say_what_they_ran_says_what_to_do(
    store: Store, tmp_path: Path
) -> None:
    traffic = Recorded([*outcomes(400, 0.5, at=BEGAN - 10), *outcomes(15, 0.9, at=BEGAN)])
    measured = measure(stages(store, tmp_path, traffic), merged(store))
    assert (measured.decision.verdict, measured.units) == (None, 0)
    assert "15 calls so far do not say which version they ran" in measured.decision.sentence
    assert "Set RATCHET_RELEASE" in measured.decision.sentence


def test_the_level_of_a_stage_counts_what_users_got_and_not_what_was_proved_on_tasks(
    store: Store, tmp_path: Path
) -> None:
    earlier = store.experiments.get("e")
    assert earlier is not None
    for place, candidate in enumerate(("c1", "c2", "c3"), 1):
        store.experiments.put(
            msgspec.structs.replace(
                earlier, id=f"e{place}", candidate_id=candidate, history=(True,) * place
            )
        )
    store.releases.put(release("better", "active"))
    store.releases.put(release("c1", "branched"))
    store.releases.put(release("c2", "rolled_back"))
    cycle = msgspec.structs.replace(begun(store, "shadow"), experiment_id="e3", candidate_id="c3")

    def decided() -> float:
        return measure(stages(store, tmp_path, Recorded()), cycle).decision.alpha

    assert decided() == level(0.05, (True, False, False))
    store.releases.put(release("c1", "merged"))
    assert decided() == level(0.05, (True, False, False)), "fixed when the first stage began"


def release(candidate: str, state: ReleaseState) -> Release:
    return Release(
        id=candidate,
        experiment_id="",
        candidate_id=candidate,
        baseline_id="b",
        state=state,
        repo="",
        branch="",
        base="",
        commit="",
        pull_request="",
        evidence="",
        created_at=1.0,
    )
