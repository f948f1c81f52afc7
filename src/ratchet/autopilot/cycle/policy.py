"""The policy: whether the autopilot may do something now, and if not, why and until when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import msgspec

from ratchet.autopilot.cycle_sections import AutopilotSection
from ratchet.types import OperatorCommand, Spending

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Wait(msgspec.Struct, frozen=True):
    """Why nothing is done now."""

    why: str
    """A sentence."""
    until: float | None = None
    """When the reason passes by itself, in Unix seconds; None if something must happen first."""


class PolicyRefusal(msgspec.Struct, frozen=True):
    """Why something will never be done."""

    why: str
    """A sentence."""


def day_of(policy: AutopilotSection, now: float) -> str:
    """The policy's day, YYYY-MM-DD in its time zone."""
    return _local(policy, now).date().isoformat()


def may_change(policy: AutopilotSection, now: float) -> Wait | None:
    """Whether what users get may change now: not in a freeze, and only in the hours given."""
    if policy.freeze:
        return Wait("Changes are frozen: freeze = true under [autopilot].")
    opening = _next_opening(policy, now)
    if opening is None:
        return None
    when = _local(policy, opening)
    return Wait(
        f"Changes are made {_schedule(policy)}; the cycle continues at {when:%a %H:%M}.",
        until=opening,
    )


def may_learn(policy: AutopilotSection, spent: Spending, now: float) -> Wait | None:
    """Whether today's budget has anything left for learning."""
    midnight = _midnight(policy, now)
    if spent.rollouts >= policy.rollouts_per_day:
        return Wait("Today's rollouts are used up (rollouts_per_day).", midnight)
    if spent.dollars >= policy.dollars_per_day:
        return Wait(
            f"Today's ${policy.dollars_per_day:.2f} is used up (dollars_per_day).", midnight
        )
    return None


def may_propose(policy: AutopilotSection, spent: Spending, now: float) -> Wait | None:
    """Whether another pull request may be opened today."""
    if spent.requests >= policy.requests_per_day:
        why = "No more pull requests may be opened today (requests_per_day)."
        return Wait(why, _midnight(policy, now))
    return None


def may_touch(
    policy: AutopilotSection, names: Collection[str], files: Collection[str]
) -> PolicyRefusal | None:
    """Whether a candidate changes only what the policy allows.

    Args:
        policy: The policy.
        names: Names of the resources that it changes.
        files: Paths of the files that a patch would change, from the repository's root.
    """
    for what, touched, allowed, key in (
        ("resource", names, policy.resources, "resources"),
        ("file", files, policy.paths, "paths"),
    ):
        outside = [
            name
            for name in sorted(touched)
            if allowed and not any(fnmatchcase(name, pattern) for pattern in allowed)
        ]
        if outside:
            return PolicyRefusal(
                f"The candidate changes the {what} {outside[0]!r}, which {key} under [autopilot]"
                " does not allow."
            )
    return None


def approved(
    policy: AutopilotSection, commands: Sequence[OperatorCommand], candidate_id: str
) -> OperatorCommand | PolicyRefusal | Wait:
    """What people said about a candidate that needs their approval.

    Args:
        policy: The policy.
        commands: Those about the cycle, oldest first.
        candidate_id: The candidate; what was said about another one does not count.
    """
    for command in commands:
        if command.candidate_id != candidate_id or not is_approver(policy, command.by):
            continue
        if command.verb == "approve":
            return command
        if command.verb == "deny":
            why = f" {command.reason}" if command.reason else ""
            return PolicyRefusal(f"{command.by} denied it.{why}")
    who = " or ".join(policy.approvers) or "anybody"
    return Wait(f"It waits for the approval of {who}: ratchet autopilot approve.")


def is_approver(policy: AutopilotSection, name: str) -> bool:
    """Whether a person may approve."""
    return not policy.approvers or name in policy.approvers


def _local(policy: AutopilotSection, now: float) -> datetime:
    return datetime.fromtimestamp(now, ZoneInfo(policy.time_zone))


def _midnight(policy: AutopilotSection, now: float) -> float:
    tomorrow = _local(policy, now).date() + timedelta(days=1)
    return datetime.combine(tomorrow, time(), ZoneInfo(policy.time_zone)).timestamp()


def _schedule(policy: AutopilotSection) -> str:
    hours = f"from {policy.hours.replace('-', ' to ')}" if policy.hours else ""
    days = f"on {', '.join(policy.weekdays)}" if policy.weekdays else ""
    return " ".join(filter(None, (hours, days, f"({policy.time_zone})")))


def _next_opening(policy: AutopilotSection, now: float) -> float | None:
    """When the hours begin again; None when they are now. Hours may pass midnight."""
    zone = ZoneInfo(policy.time_zone)
    start, end = (_minutes(part) for part in (policy.hours or "00:00-24:00").split("-"))
    length = end - start if end > start else end - start + 1440
    today = _local(policy, now).date()
    for offset in range(-1, 8):
        day = today + timedelta(days=offset)
        if policy.weekdays and WEEKDAYS[day.weekday()] not in policy.weekdays:
            continue
        midnight = datetime.combine(day, time(), zone)
        # Of the wall clock, also on days on which that is changed.
        begin = (midnight + timedelta(minutes=start)).timestamp()
        finish = (midnight + timedelta(minutes=start + length)).timestamp()
        if begin <= now < finish:
            return None
        if begin > now:
            return begin
    raise AssertionError("A week has every weekday.")


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])
