"""Judges over HTTP: their verdicts become scores, and what is no verdict is unscored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ratchet.evaluate import Scorer, make_evaluator
from ratchet.evaluate.judges import Criterion, JudgeEvaluator
from ratchet.store import Store
from ratchet.types import BudgetExhausted, ConfigError, Rollout, Score, Span
from tests.evaluate.conftest import ended, verdict
from tests.evaluate.judges.conftest import simulated
from tests.llm.endpoint import Endpoint, Reaction, Request, answer
from tests.simulator import SimulatorThread

ELM = "Does the answer name 'Elm'?"
PRICE = {"question": "Does the answer name '20 dollars'?", "weight": 3.0}


def test_the_score_of_a_rubric_is_the_weighted_share_of_its_criteria(
    simulator: SimulatorThread,
) -> None:
    judge = simulated(simulator, criteria=[ELM, PRICE])
    assert verdict(judge, ended("Elm, for 20 dollars")).value == 1.0
    half = verdict(judge, ended("Elm is free."))
    assert half.value == 0.25
    assert "Does the answer name 'Elm'? yes: It has Elm." in half.rationale
    assert "no: It does not have 20 dollars." in half.rationale


def test_a_preference_that_depends_on_the_order_is_a_tie(simulator: SimulatorThread) -> None:
    fair = simulated(simulator, form="pairwise", criteria=["Which one names 'Elm'?"])
    biased = simulated(simulator, form="pairwise", model="simulated-judge-first")
    once = simulated(simulator, form="pairwise", model="simulated-judge-first", swap=False)
    rollout = ended("It is Elm.", "It is Oak.")
    assert verdict(fair, rollout).value == 1.0
    tied = verdict(biased, rollout)
    assert tied.value == 0.5
    assert tied.rationale.startswith("The preference depends on the order")
    assert verdict(once, rollout).value == 1.0
    compared = asyncio.run(fair.judge.compare("Which?", "Oak", "Elm"))
    assert compared.value == 0.0


def test_several_samples_show_how_sure_a_judge_is(simulator: SimulatorThread) -> None:
    judge = simulated(
        simulator, "samples", model="simulated-judge-flaky", criteria=[ELM], samples=8
    )
    value = verdict(judge, ended("Elm")).value
    assert value is not None
    assert 0 < value < 1
    assert simulator.counters("samples", "simulated-judge-flaky")["calls"] == 8


def test_what_is_no_verdict_is_unscored_and_never_zero(simulator: SimulatorThread) -> None:
    malformed = simulated(simulator, model="simulated-judge-malformed", criteria=[ELM])
    unclear = simulated(simulator, criteria=["Is the answer kind?"])
    for judge, reason in (
        (malformed, "does not fit its schema"),
        (unclear, "it is unclear: The question names nothing"),
    ):
        found = verdict(judge, ended("Elm"))
        assert found.value is None
        assert reason in found.error


def graded(grade: str) -> Any:
    def react(request: Request) -> Reaction:
        return answer('{"c1": {"reason": "Because.", "verdict": "%s"}}' % grade)  # noqa: UP031

    return react


def test_an_undecided_judge_is_asked_again_before_there_is_no_score(sqlite_store: Store) -> None:
    grades = iter(["unclear", "yes", "unclear", "unclear", "unclear"])

    def react(request: Request) -> Reaction:
        return graded(next(grades))(request)

    with Endpoint(react) as endpoint:
        judge = at(endpoint, criteria=[ELM])
        judge.attach(sqlite_store)
        assert verdict(judge, ended("Elm")).value == 1.0
        assert verdict(judge, ended("Elm")).value == 1.0  # what was said is kept
        assert len(endpoint.requests) == 2
        undecided = verdict(judge, ended("Oak"))
        assert undecided.value is None
        assert "after 3 requests: it is unclear" in undecided.error
        assert len(endpoint.requests) == 5
        assert judge.judge.spending.calls == 5  # each is paid for


def test_a_judge_asks_at_temperature_0_with_the_reason_before_the_verdict() -> None:
    with Endpoint(graded("yes")) as endpoint:
        verdict(at(endpoint, criteria=[ELM]), ended("Elm"))
    body = endpoint.requests[0].body
    assert body["temperature"] == 0.0
    shape = body["response_format"]["json_schema"]["schema"]["properties"]["c1"]
    assert list(shape["properties"]) == ["reason", "verdict"]


def test_an_endpoint_that_fails_leaves_the_rollout_unscored() -> None:
    with Endpoint(lambda _: Reaction(status=401, body=b"{}")) as endpoint:
        found = verdict(at(endpoint, criteria=[ELM]), ended("Elm"))
    assert found.value is None
    assert "401" in found.error


def at(endpoint: Endpoint, **options: Any) -> JudgeEvaluator:
    made = make_evaluator(
        "judge", {"model": "m", "base_url": endpoint.url, "key_env": "", **options}
    )
    assert isinstance(made, JudgeEvaluator)
    return made


def test_equal_answers_are_judged_once_and_a_kept_answer_costs_nothing(
    simulator: SimulatorThread, sqlite_store: Store
) -> None:
    rollouts = [ended("Elm", id=f"r{n}") for n in range(3)]
    sqlite_store.rollouts.create([*rollouts, ended("Oak", id="r3")], 1.0)

    def scored(*wanted: Rollout) -> tuple[JudgeEvaluator, dict[str, dict[str, Score]]]:
        judge = simulated(simulator, "cache", criteria=[ELM])
        return judge, asyncio.run(Scorer(sqlite_store, [judge]).score(wanted))

    first, scores = scored(*rollouts[:2])
    assert {id: s["judge"].value for id, s in scores.items()} == {"r0": 1.0, "r1": 1.0}
    assert first.judge.spending.calls == 1
    assert first.judge.spending.cost.known_usd > 0
    assert first.spending.startswith("The judge 'judge' made 1 call for $0.000")
    second, scores = scored(rollouts[2])
    assert scores["r2"]["judge"].value == 1.0
    assert (second.judge.spending.calls, second.judge.spending.cost.known_usd) == (0, 0)
    assert second.spending == ""
    assert simulator.counters("cache", "simulated-judge")["calls"] == 1
    assert sqlite_store.rollouts.get(["r0"])["r0"].cost_usd == 0.0


def test_what_a_judge_is_shown_is_redacted() -> None:
    with Endpoint(graded("yes")) as endpoint:
        judge = at(endpoint, criteria=[ELM])
        verdict(judge, ended("Write to ann@example.com.", input="Show ann@example.com"))
    assert "ann@example.com" not in str(endpoint.requests[0].body)
    assert endpoint.requests[0].said.count("[redacted:email]") == 2


def test_a_judge_stops_at_its_cost_bound(simulator: SimulatorThread) -> None:
    judge = simulated(simulator, criteria=[ELM], max_dollars=1e-6)
    assert verdict(judge, ended("Elm")).value == 1.0
    with pytest.raises(BudgetExhausted, match=r"max_dollars of \$1e-06 is spent"):
        verdict(judge, ended("Oak"))
    assert verdict(judge, ended("Elm")).value == 1.0  # what was paid for is kept


def test_a_judge_reads_chosen_spans_of_the_trace() -> None:
    def span(number: int, name: str, output: str) -> Span:
        return Span(
            trace_id="t",
            span_id=f"{number:016x}",
            parent_id="p",
            name=name,
            start_ns=number,
            end_ns=number + 1,
            attributes={"ratchet.output": output},
        )

    spans = [span(1, "search_rooms", "Elm is free"), span(2, "pay", "card 4")]
    with Endpoint(graded("yes")) as endpoint:
        judge = at(endpoint, criteria=[ELM], reads=["output", "trace"], spans=["search*"])
        asyncio.run(judge.score(ended("ok"), lambda _: spans))
    asked = endpoint.requests[0].said
    assert "> - step search_rooms:  -> Elm is free" in asked
    assert "card 4" not in asked


def test_the_version_depends_on_what_is_asked_and_not_on_where(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{material}\nGrade strictly.\n{questions}")
    judge = simulated(simulator, criteria=[ELM])
    same = simulated(simulator, "elsewhere", criteria=[ELM], retries=1, max_dollars=3.0)
    others = [
        simulated(simulator, criteria=["Is it 'Elm'?"]),
        simulated(simulator, criteria=[ELM], model="simulated-judge-lenient"),
        simulated(simulator, criteria=[Criterion(ELM, 2.0), "Is it 'Oak'?"]),
        simulated(simulator, criteria=[ELM], samples=3),
        simulated(simulator, criteria=[ELM], prompt="prompt.txt", folder=str(tmp_path)),
    ]
    assert same.version == judge.version
    assert len({judge.version, *(other.version for other in others)}) == 6
    assert verdict(others[-1], ended("Elm")).value == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "", "criteria": [ELM]}, "has no model"),
        ({}, "has no criteria"),
        ({"criteria": [ELM], "instructions": "Be fair."}, "either criteria or instructions"),
        ({"criteria": [{"question": ELM, "weight": -1}]}, "weight -1"),
        ({"criteria": [" "]}, "is empty"),
        ({"form": "essay"}, "Invalid enum value 'essay'"),
        ({"criteria": [ELM], "samples": 0}, "samples = 0"),
        ({"criteria": [ELM], "max_dollars": 0}, "max_dollars = 0"),
        ({"criteria": [ELM], "reads": ["input"]}, "add it to reads"),
        ({"criteria": [ELM], "models": ["a"], "model": "b"}, "either model or models"),
        ({"criteria": [ELM], "model": "", "models": ["a", "a"]}, "'a' twice"),
        ({"criteria": [ELM], "prompt": "missing.txt"}, "missing.txt cannot be read"),
        ({"criteria": [ELM], "prompt": "bad.txt"}, "no placeholder {questions}"),
        ({"criteria": [ELM], "alignment": "bad.txt"}, "is not an alignment of a judge"),
        ({"criteria": [ELM], "sample": 2}, "Did you mean 'samples'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("{material}")
    with pytest.raises(ConfigError) as refused:
        make_evaluator("judge", {"model": "m", "folder": str(tmp_path), **options})
    assert message in f"{refused.value.message} {refused.value.hint}"
