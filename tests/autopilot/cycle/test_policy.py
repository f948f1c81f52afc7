"""The policy says what may be done now, and if not, why and until when."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from ratchet.autopilot.cycle.policy import (
    PolicyRefusal,
    Wait,
    approved,
    day_of,
    may_change,
    may_learn,
    may_propose,
    may_touch,
)
from ratchet.autopilot.cycle_sections import AutopilotSection, CanarySection
from ratchet.types import OperatorCommand, Spending

BERLIN = ZoneInfo("Europe/Berlin")


def policy(**settings: Any) -> AutopilotSection:
    return AutopilotSection(**{"time_zone": "Europe/Berlin", **settings})


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("settings", "now", "opens"),
    [
        ({}, "2026-11-23T03:00", None),
        ({"hours": "09:00-18:00"}, "2026-11-23T09:00", None),
        ({"hours": "09:00-18:00"}, "2026-11-23T08:59", "2026-11-23T09:00"),
        ({"hours": "09:00-18:00"}, "2026-11-23T18:00", "2026-11-24T09:00"),
        # Past midnight.
        ({"hours": "22:00-06:00"}, "2026-11-23T23:00", None),
        ({"hours": "22:00-06:00"}, "2026-11-24T05:59", None),
        ({"hours": "22:00-06:00"}, "2026-11-24T06:00", "2026-11-24T22:00"),
        # A Friday's night belongs to the Friday.
        ({"hours": "22:00-06:00", "weekdays": ("fri",)}, "2026-11-28T01:00", None),
        ({"weekdays": ("tue",)}, "2026-11-23T12:00", "2026-11-24T00:00"),
        ({"hours": "09:00-18:00", "weekdays": ("mon",)}, "2026-11-23T19:00", "2026-11-30T09:00"),
        # The clock goes back at 03:00 on that Sunday; hours are those of the wall.
        ({"hours": "09:00-18:00"}, "2026-10-24T20:00", "2026-10-25T09:00"),
    ],
)
def test_changes_are_made_in_the_hours_of_the_wall_clock(
    settings: dict[str, Any], now: str, opens: str | None
) -> None:
    found = may_change(policy(**settings), at(now))
    if opens is None:
        assert found is None
    else:
        assert found is not None
        assert found.until == at(opens)
        assert "Changes are made" in found.why


def test_nothing_is_changed_in_a_freeze() -> None:
    found = may_change(policy(freeze=True), at("2026-11-23T12:00"))
    assert found == Wait("Changes are frozen: freeze = true under [autopilot].")


def test_the_days_budget_ends_at_the_policys_midnight() -> None:
    now = at("2026-11-23T23:30")
    rules = policy(rollouts_per_day=100, dollars_per_day=2.0, requests_per_day=1)
    assert day_of(rules, now) == "2026-11-23"
    assert day_of(rules, now + 1800) == "2026-11-24"
    assert may_learn(rules, Spending(rollouts=99, dollars=1.99), now) is None
    for spent in (Spending(rollouts=100), Spending(dollars=2.0)):
        found = may_learn(rules, spent, now)
        assert found is not None
        assert found.until == at("2026-11-24T00:00")
    assert may_propose(rules, Spending(), now) is None
    assert may_propose(rules, Spending(requests=1), now) is not None


def test_only_listed_resources_and_files_may_be_touched() -> None:
    rules = policy(resources=("retrieval", "prompt.*"), paths=("src/*",))
    assert may_touch(rules, ["retrieval", "prompt.system"], ["src/a.py"]) is None
    assert may_touch(policy(), ["anything"], ["anywhere"]) is None
    refused = may_touch(rules, ["other"], [])
    assert isinstance(refused, PolicyRefusal)
    assert "'other'" in refused.why
    refused = may_touch(rules, ["retrieval"], ["src/a.py", "setup.py"])
    assert isinstance(refused, PolicyRefusal)
    assert "'setup.py'" in refused.why


def test_an_approval_counts_for_its_candidate_and_from_an_approver() -> None:
    def said(verb: Any, by: str, candidate: str = "c") -> OperatorCommand:
        return OperatorCommand(verb=verb, agent="a", candidate_id=candidate, by=by, at=1.0)

    rules = policy(approvers=("ann",))
    assert isinstance(approved(rules, [], "c"), Wait)
    assert isinstance(approved(rules, [said("approve", "bob")], "c"), Wait)
    assert isinstance(approved(rules, [said("approve", "ann", "other")], "c"), Wait)
    assert approved(rules, [said("approve", "ann")], "c") == said("approve", "ann")
    denied = approved(rules, [said("deny", "ann"), said("approve", "ann")], "c")
    assert isinstance(denied, PolicyRefusal)
    assert approved(policy(), [said("approve", "bob")], "c") == said("approve", "bob")


@pytest.mark.parametrize(
    "settings",
    [
        {"hours": "9-18"},
        {"hours": "09:00-09:00"},
        {"hours": "09:00-24:30"},
        {"time_zone": "Nowhere/Else"},
        {"mode": "yolo"},
        {"weekdays": ("monday",)},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        policy(**settings)


@pytest.mark.parametrize("steps", [(), (0.5, 0.1), (0.0, 1.0), (0.5, 0.5)])
def test_the_shares_of_a_canary_rise(steps: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        CanarySection(steps=steps)
