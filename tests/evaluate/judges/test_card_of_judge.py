"""Report cards of judges: position, hardening and self-preference, and what a score costs."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.judges import JudgeEvaluator
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.store import Store
from ratchet.types import BudgetExhausted, CardCheck, Label, ReportCard, Rollout, Span
from tests.evaluate.conftest import ended
from tests.evaluate.judges.conftest import simulated
from tests.llm.endpoint import Endpoint, Reaction, Request, answer
from tests.simulator import SimulatorThread

ELM = "Does the answer name 'Elm'?"
OWN = "simulated-judge-vain"


def rooms(count: int = 24) -> list[Rollout]:
    """Rollouts that name a room, every other one rightly."""
    return [
        ended(
            f"{'Elm' if n % 2 else 'Oak'} is free at {n}.",
            "Elm is free.",
            id=f"r{n:02d}",
            input=f"Which room is free at {n}?",
        )
        for n in range(count)
    ]


def made_by(model: str, rollout_id: str) -> Span:
    return Span(
        trace_id="t",
        span_id="1",
        parent_id=None,
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes={"gen_ai.request.model": model},
    )


def card_of(
    judge: JudgeEvaluator,
    rollouts: Sequence[Rollout] | None = None,
    given: Sequence[Label] = (),
    **options: Any,
) -> ReportCard:
    """A card of real outputs alone; copies of them take many calls."""
    cases = make_cases(rooms() if rollouts is None else rollouts, given)
    options = {
        "copies": 2,
        "spans_of": lambda _: [],
        "limit_s": 0.0,
        **options,
    }
    return asyncio.run(make_card(judge, cases, **options))


def check(card: ReportCard, name: str) -> CardCheck:
    return next(each for each in card.checks if each.name == name)


@pytest.mark.parametrize("swap", [True, False])
def test_a_pairwise_judge_that_prefers_what_is_first_is_rejected(
    simulator: SimulatorThread, swap: bool
) -> None:
    fair = card_of(simulated(simulator, form="pairwise", swap=swap))
    assert check(fair, "order").value == 0.0
    biased = simulated(simulator, form="pairwise", model="simulated-judge-first", swap=swap)
    card = card_of(biased)
    assert (check(card, "order").value, check(card, "order").verdict) == (1.0, "rejected")
    assert card.verdict == "rejected"


def test_a_judge_that_the_defence_makes_stricter_is_rejected(simulator: SimulatorThread) -> None:
    sound = card_of(simulated(simulator, criteria=[ELM]))
    assert (check(sound, "hardening").value, check(sound, "hardening").verdict) == (0.0, "decides")
    wary = card_of(simulated(simulator, criteria=[ELM], model="simulated-judge-wary"))
    assert check(wary, "hardening").value == 0.5
    assert check(wary, "hardening").verdict == "rejected"


def test_a_judge_that_favours_its_own_model_is_rejected(simulator: SimulatorThread) -> None:
    rollouts = [
        ended(
            f"{'Certainly. ' if n % 2 else ''}{'Elm' if n % 4 < 2 else 'Oak'} is free at {n}.",
            id=f"r{n:02d}",
            input=f"Which room is free at {n}?",
        )
        for n in range(60)
    ]
    labels = [
        Label(id=f"l{r.id}", rollout_id=r.id, value=float("Elm" in str(r.output))) for r in rollouts
    ]
    models = {r.id: OWN if "Certainly" in str(r.output) else "another" for r in rollouts}

    def spans_of(rollout_id: str) -> list[Span]:
        return [made_by(f"openai/{models[rollout_id]}", rollout_id)]

    vain = simulated(simulator, criteria=[ELM], model=OWN)
    found = check(card_of(vain, rollouts, labels, spans_of=spans_of), "self-preference")
    assert (found.value, found.verdict, found.n) == (0.5, "rejected", 60)
    models.update(dict.fromkeys(models, "another"))
    unknown = card_of(vain, rollouts, labels, spans_of=spans_of)
    assert "self-preference" not in {each.name for each in unknown.checks}


def test_a_score_costs_what_its_answers_cost_kept_ones_included(
    simulator: SimulatorThread, sqlite_store: Store
) -> None:
    def card() -> tuple[ReportCard, JudgeEvaluator]:
        judge = simulated(simulator, criteria=[ELM])
        judge.attach(sqlite_store)
        return card_of(judge), judge

    first, _ = card()
    again, judge = card()
    assert first.cost_usd is not None
    assert 0 < first.cost_usd < 0.01
    assert judge.judge.spending.calls == 0
    assert again.cost_usd == pytest.approx(first.cost_usd)
    assert check(first, "dollars per score").value == first.cost_usd
    assert first.seconds > 0


def test_the_cost_bound_holds_for_all_variants_of_a_judge(simulator: SimulatorThread) -> None:
    judge = simulated(simulator, criteria=[ELM], max_dollars=1e-6)
    rollout = ended("Elm")
    assert asyncio.run(judge.score(rollout, lambda _: [])).value == 1.0
    _, plain = judge.variants()["hardening"]
    with pytest.raises(BudgetExhausted, match="The judge's max_dollars of"):
        asyncio.run(plain.score(rollout, lambda _: []))


def test_repeats_ask_a_judge_anew_and_find_one_that_guesses() -> None:
    luck = random.Random(4)

    def react(request: Request) -> Reaction:
        return answer(json.dumps({"c1": {"reason": "So.", "verdict": luck.choice(["yes", "no"])}}))

    with Endpoint(react) as endpoint:
        options = {"model": "m", "base_url": endpoint.url, "key_env": "", "criteria": [ELM]}
        judge = make_evaluator("judge", options)
        assert isinstance(judge, JudgeEvaluator)
        card = card_of(judge, copies=8, limit_s=math.inf)
    found = check(card, "repeats")
    assert found.value is not None
    assert found.value >= 0.5
    assert found.verdict == "rejected"
