"""Evidence of stages: what is written verifies, and nothing altered does."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.prove.replaying import replay_canary, replay_shadow, replay_watch

from ratchet.prove import (
    CanaryPlan,
    FeedbackRule,
    LiveGuardrail,
    ShadowPair,
    ShadowPlan,
    Verification,
    WatchedMetric,
    WatchPlan,
    level,
    verify,
    write_stage_evidence,
)
from ratchet.prove.evidence import digest_of, render
from ratchet.prove.stage_evidence import StagePlan
from ratchet.types import (
    InputError,
    LiveOutcome,
    RatchetError,
    StageDecision,
    VerificationError,
)

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

HISTORY = [True, False]
ALPHA = level(0.2, HISTORY)


def shadow() -> tuple[StagePlan, list[Any], StageDecision]:
    rng = random.Random(1)
    made = [
        ShadowPair(
            trace_id=f"t{number}",
            baseline=rng.uniform(0.3, 0.6),
            candidate=None if number % 30 in (7, 8) else rng.uniform(0.4, 0.8),
            blocked="send" if number % 30 == 7 else "",
            group=rng.choice("ab"),
        )
        for number in range(400)
    ]
    plan = ShadowPlan(metric="quality", alpha=ALPHA)
    test = replay_shadow(plan, made)
    return plan, made[: test.pairs], test.decision()


def traffic() -> list[LiveOutcome]:
    rng = random.Random(2)
    return [
        LiveOutcome(
            trace_id=f"t{number}",
            unit=f"anna-{number}@example.org",
            at=float(number),
            experiment_id="e",
            arm="candidate" if rng.random() < 0.5 else "baseline",
            score=None if number % 50 == 9 else float(rng.random() < 0.8),
            latency_s=rng.uniform(0.5, 1.5),
            group=rng.choice("ab"),
            predicted=rng.random(),
            reason="The answer 'Dear Anna' has no date.",
        )
        for number in range(600)
    ]


def canary() -> tuple[StagePlan, list[Any], StageDecision]:
    plan = CanaryPlan(
        alpha=ALPHA,
        min_effect=-0.3,
        guardrails=(LiveGuardrail(metric="latency", margin=1.0, ceiling=5.0),),
    )
    test = replay_canary(plan, traffic())
    return plan, traffic()[: test.ratio.units], test.decision()


def feedback() -> tuple[StagePlan, list[Any], StageDecision]:
    rule = FeedbackRule(negative_margin=0.3, coverage_margin=0.3, coverage=0.5, units_per_day=9.0)
    plan = CanaryPlan(alpha=ALPHA, min_effect=-0.4, feedback=rule, max_units=600)
    heard = [
        outcome if number % 2 else msgspec.structs.replace(outcome, score=None)
        for number, outcome in enumerate(traffic())
    ]
    test = replay_canary(plan, heard)
    return plan, heard[: test.ratio.units], test.decision()


def watch() -> tuple[StagePlan, list[Any], StageDecision]:
    plan = WatchPlan(metrics=(WatchedMetric(expected=0.95),), outcomes=5000)
    test = replay_watch(plan, traffic())
    return plan, traffic()[: test.release.outcomes + test.control.outcomes], test.decision()


STAGES = pytest.mark.parametrize("made", [shadow, canary, feedback, watch])
Made = Callable[[], tuple[StagePlan, list[Any], StageDecision]]


def written(path: Path, made: Made) -> dict[str, Any]:
    plan, observations, _ = made()
    budget = {} if made is watch else {"budget": 0.2, "history": HISTORY}
    write_stage_evidence(
        path,
        plan,
        observations,
        baseline={"id": "b"},
        candidate={"id": "c"},
        created_at=1.0,
        context={"agent": "helper"},
        **budget,
    )
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


def verified(path: Path, content: dict[str, Any], sign: bool = True) -> Verification:
    if sign:
        content = {**content, "digest": digest_of(content)}
    path.write_text(render(content))
    return verify(path)


@STAGES
def test_what_is_written_verifies(tmp_path: Path, made: Made) -> None:
    path = tmp_path / "stage.json"
    content = written(path, made)
    found = verify(path).require()
    expected = made()[2]
    assert expected.verdict in ("pass", "drift")
    assert found.decision == expected
    assert found.pairs == len(content["observations"]) == len(made()[1])
    assert found.digest == content["digest"]


@pytest.mark.parametrize(
    ("stage", "missing", "said"),
    [("shadow", 4, "4 pairs have no score."), ("canary", 10, "10 units have no score.")],
)
def test_evidence_of_the_layout_before_verifies_by_the_rule_that_it_was_made_by(
    tmp_path: Path, stage: str, missing: int, said: str
) -> None:
    path = Path(__file__).with_name(f"stage_1_{stage}.json")
    found = verify(path).require()
    assert isinstance(found.decision, StageDecision)
    assert (found.decision.verdict, found.decision.missing) == ("pass", missing)
    assert said in found.decision.sentence
    content = json.loads(path.read_text())
    content["plan"]["max_missing"] = 0.001
    assert not verified(tmp_path / "stricter.json", content).ok
    content = json.loads(path.read_text())
    content["plan"]["missing"] = "skip"
    assert any(
        "plan.missing" in each for each in verified(tmp_path / "said.json", content).findings
    )


@pytest.mark.parametrize("made", [shadow, canary])
def test_evidence_that_does_not_say_what_a_missing_value_counts_as_is_refused(
    tmp_path: Path, made: Made
) -> None:
    content = written(tmp_path / "stage.json", made)
    del content["plan"]["missing"]
    with pytest.raises(VerificationError, match="does not say what a missing value counts as"):
        verified(tmp_path / "silent.json", content)


def test_names_of_units_and_texts_of_answers_are_not_in_the_file(tmp_path: Path) -> None:
    written(tmp_path / "canary.json", canary)
    text = (tmp_path / "canary.json").read_text()
    assert "example.org" not in text
    assert "Dear Anna" not in text
    assert '"trace_id": "t5"' in text


@STAGES
def test_every_altered_number_is_found_though_the_digest_is_made_anew(
    tmp_path: Path, made: Made
) -> None:
    path = tmp_path / "stage.json"
    content = written(path, made)
    changes: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
        ("decision.e_value", lambda c: c["decision"].update(e_value=1e9)),
        ("decision.sentence", lambda c: c["decision"].update(sentence="Fine.")),
        ("decision.verdict", lambda c: c["decision"].update(verdict="hold")),
        ("alpha.level", lambda c: c["alpha"].update(level=0.5)),
        ("observation 4", lambda c: c["observations"][3]["e_values"].update(more=1.0)),
        ("nothing", lambda c: c["observations"][4].pop("e_values")),
        ("unknown", lambda c: c.update(unknown=1)),
    ]
    for said, change in changes:
        altered = json.loads(json.dumps(content))
        change(altered)
        found = verified(path, altered)
        assert not found.ok, said
        assert any(said in finding for finding in found.findings), (said, found.findings)


def test_a_changed_score_is_found_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "stage.json"
    content = written(path, shadow)
    content["observations"][9]["candidate"] = 0.123
    found = verified(path, content)
    assert found.findings[0].startswith("observation 10 (trace t9): e-value of pass:")


def test_a_digest_that_was_not_made_anew_is_found(tmp_path: Path) -> None:
    path = tmp_path / "stage.json"
    content = written(path, shadow)
    content["context"] = {"agent": "other"}
    found = verified(path, content, sign=False)
    assert [finding.split(":")[0] for finding in found.findings] == ["digest"]


def test_a_level_that_the_budget_does_not_give_is_found(tmp_path: Path) -> None:
    path = tmp_path / "stage.json"
    content = written(path, shadow)
    content["alpha"]["history"] = [True, True, True]
    found = verified(path, content)
    assert any(finding.startswith("plan.alpha:") for finding in found.findings)


def test_a_level_that_the_budget_does_not_give_is_not_written(tmp_path: Path) -> None:
    plan, observations, _ = shadow()
    with pytest.raises(InputError, match="after 0 candidates gives"):
        write_stage_evidence(
            tmp_path / "e.json", plan, observations, baseline={}, candidate={}, budget=0.2
        )


def test_observations_after_the_verdict_are_no_evidence(tmp_path: Path) -> None:
    plan, observations, _ = shadow()
    more = [*observations, observations[0]]
    with pytest.raises(InputError, match="The stage had already ended after"):
        write_stage_evidence(tmp_path / "e.json", plan, more, baseline={}, candidate={})
    assert not (tmp_path / "e.json").exists()


def test_an_observation_added_after_the_verdict_is_found(tmp_path: Path) -> None:
    path = tmp_path / "stage.json"
    content = written(path, shadow)
    content["observations"].append(content["observations"][-1])
    assert any(
        "yet the verdict is reached after" in each for each in verified(path, content).findings
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(stage="dream"), "the stage is 'dream', not one of"),
        (lambda c: c.update(observations={}), "'observations' is {}, not a list"),
        (lambda c: c.update(observations=[1]), "an observation is 1, not an object"),
        (lambda c: c["observations"][0].update(candidate="high"), "is malformed"),
        (lambda c: c["observations"][0].update(candidate=3.0), "is not between 0 and 1"),
        (lambda c: c["plan"].update(alpha=7.0), "alpha = 7.0"),
        (lambda c: c.update(plan=None), "'plan' is None"),
        (lambda c: c["alpha"].update(history=3), "alpha.history"),
    ],
)
def test_what_is_no_evidence_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    path = tmp_path / "stage.json"
    content = written(path, shadow)
    change(content)
    with pytest.raises(VerificationError) as error:
        verified(path, content)
    assert said in error.value.message


def test_a_decision_survives_json() -> None:
    for made in (shadow, canary, feedback, watch):
        decided = made()[2]
        assert msgspec.json.decode(msgspec.json.encode(decided), type=StageDecision) == decided


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places within a document."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(each, (*at, key))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], list[Any]]]:
    """Each stage's evidence with few observations, and the places within it."""
    folder = tmp_path_factory.mktemp("evidence")
    found = []
    for number, made in enumerate((shadow, canary, feedback, watch)):
        plan, observations, _ = made()
        path = folder / f"{number}.json"
        write_stage_evidence(path, plan, observations[:6], baseline={}, candidate={})
        content = json.loads(path.read_text())
        found.append((content, list(_places(content))))
    return found


@settings(max_examples=300 if LONG else 10)
@given(data=st.data())
def test_a_part_replaced_by_anything_is_found_or_refused_in_a_sentence(
    documents: list[tuple[dict[str, Any], list[Any]]], tmp_path: Path, data: st.DataObject
) -> None:
    document, places = data.draw(st.sampled_from(documents))
    *outer, last = data.draw(st.sampled_from(places))
    altered = json.loads(json.dumps(document))
    part = altered
    for key in outer:
        part = part[key]
    new = data.draw(ANYTHING)
    assume(repr(new) != repr(part[last]))
    part[last] = new
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(altered))
    with contextlib.suppress(RatchetError):
        assert not verify(path).ok
