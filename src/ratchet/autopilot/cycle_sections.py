"""Sections of `ratchet.toml` for the autopilot: its policy, the live stages, and notifications."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from ratchet.autopilot.sections import (
    EnvironmentVariable,
    Level,
    Name,
    Positive,
    Section,
    Several,
    Share,
)

Weekday: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Count = Annotated[int, Field(ge=1)]


def _hours(value: str) -> str:
    if not value:
        return value
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)", value)
    if match is None or value[:5] == value[6:] or value[6:] > "24:00":
        raise ValueError('should be like "09:00-18:00"')
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            'is not a time zone on this machine; an example is "Europe/Berlin"'
        ) from None
    return value


def _rising(value: tuple[float, ...]) -> tuple[float, ...]:
    if not value or any(a >= b for a, b in pairwise(value)) or value[0] <= 0:
        raise ValueError("should rise, from above 0")
    return value


class AutopilotSection(Section):
    """[autopilot]: what it looks for, what it may do, and when."""

    mode: Literal["propose", "canary", "auto"] = "propose"
    agent: Annotated[str, Field(max_length=100)] = ""
    poll_s: Positive = 5.0
    evaluator: Annotated[str, Field(max_length=200)] = ""
    wait_s: Positive = 60.0
    window: Count = 500
    min_traces: Count = 50
    max_bad: Share = 0.2
    low_score: Share = 0.5
    dataset: Name = "live"
    min_tasks: Count = 60
    max_tasks: Count = 500
    cooldown_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 24.0
    dollars_per_day: Positive = 10.0
    rollouts_per_day: Count = 10_000
    requests_per_day: Count = 2
    resources: Several[str] = ()
    paths: Several[str] = ()
    hours: Annotated[str, AfterValidator(_hours)] = ""
    weekdays: Several[Weekday] = ()
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    freeze: bool = False
    approval: bool = False
    approvers: Several[str] = ()


class ShadowSection(Section):
    """[shadow]: the candidate beside live traffic."""

    enabled: bool = True
    margin: Share = 0.02
    harm_alpha: Level = 0.05
    min_pairs: Count = 30
    max_pairs: Count = 2000

    @model_validator(mode="after")
    def _in_order(self) -> ShadowSection:
        if self.min_pairs > self.max_pairs:
            raise ValueError("min_pairs exceeds max_pairs")
        return self


class CanarySection(Section):
    """[canary]: a share of live traffic gets the candidate."""

    steps: Annotated[tuple[Share, ...], Field(strict=False), AfterValidator(_rising)] = (
        0.02,
        0.1,
        0.2,
        0.5,
        1.0,
    )
    step_units: Count = 50
    step_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    margin: Share = 0.03
    harm_alpha: Level = 0.05
    min_units: Count = 100
    max_units: Count | None = None
    guardrails: Several[Literal["errors", "latency", "cost"]] = ("errors",)
    error_margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    relative_margin: Annotated[float, Field(gt=0, lt=3)] = 0.5
    timeout_s: Positive = 600.0


class WatchSection(Section):
    """[watch]: live outcomes after a release."""

    metrics: Several[Literal["score", "errors", "latency", "cost"]] = ("score", "errors")
    alpha: Level = 0.05
    outcomes: Count = 10_000
    days: Positive = 7.0
    tolerance: Share = 0.02
    reference: Count = 500
    timeout_s: Positive = 600.0


class NotifySection(Section):
    """[notify]: where notifications are sent."""

    url_env: EnvironmentVariable | None = None
    format: Literal["json", "slack"] = "json"
    timeout_s: Positive = 10.0


class LiveSection(Section):
    """[live]: which live calls are repeated for a candidate, and at what cost."""

    mirror: bool | Share = False
    per_minute: Positive = 60.0
    dollars: Positive = 5.0
    rerun: bool = False
