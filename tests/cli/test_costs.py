"""Costs as they are shown: a number, at least a number, or not measured."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ratchet.autopilot.run_outcome import RunCosts
from ratchet.cli import run_outcome as shown
from ratchet.cli.run_outcome import costs_text, other_margins, print_decision
from ratchet.types import Cost, Decision, GuardrailResult


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), "$0.0000"),
        (Cost(known_usd=0.26), "$0.2600"),
        (Cost(known_usd=12.345), "$12.35"),
        (Cost(unpriced={"own": 2}), "cost not measured"),
        (Cost(known_usd=0.5, unpriced={"own": 1}), "at least $0.5000, 1 call unpriced"),
        (Cost(known_usd=0.5, unpriced={"a": 1, "b": 2}), "at least $0.5000, 3 calls unpriced"),
    ],
)
def test_a_cost_is_a_number_or_at_least_one_or_not_measured(cost: Cost, text: str) -> None:
    assert str(cost) == text


def test_a_run_of_unknown_cost_is_null_for_machines_and_said_to_people() -> None:
    costs = RunCosts(rollouts=2, cost=Cost(known_usd=0.5, unpriced={"own": 3}))
    assert costs_text(costs) == (
        "2 rollouts of the agent; total cost at least $0.5000, 3 calls unpriced"
    )
    unpriced = Cost(unpriced={"own": 61})
    costs_without_price = RunCosts(rollouts=2, coach_calls=61, of_coach=unpriced, cost=unpriced)
    assert costs_text(costs_without_price) == (
        "2 rollouts of the agent; 61 coach calls; cost unknown: the price of 'own' is unknown; "
        "set it under [prices] in ratchet.toml"
    )
    told = costs.for_machines()
    assert (told["dollars"], told["known_dollars"], told["unpriced"]) == (None, 0.5, {"own": 3})
    assert RunCosts(cost=Cost(known_usd=0.5)).for_machines()["dollars"] == 0.5


def test_a_guardrail_that_was_not_measured_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    guardrail = GuardrailResult(
        metric="cost",
        margin=0.25,
        unit="USD",
        baseline=None,
        candidate=None,
        e_value=1.0,
        passed=False,
    )
    decided = Decision(
        verdict="guardrail",
        metric="score",
        alpha=0.05,
        pairs=20,
        baseline=0.5,
        candidate=0.75,
        e_value=30.0,
        interval=(0.1, 0.4),
        guardrails=(guardrail,),
    )
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(shown, "out", console)
    print_decision(decided)
    (line,) = [row for row in console.file.getvalue().splitlines() if "cost" in row]
    assert line.count("not measured") == 3
    assert "0.0000" not in line
    assert other_margins(decided, 0) == ""
