"""Dates and times of a recording that look constant in a prompt, but change from day to day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

from ratchet.types import PromptTemplate

_FORMATS = (
    "%A, %B {day}, %Y",
    "%A, {day} %B %Y",
    "%A {day} %B %Y",
    "%a, {day} %b %Y",
    "%B {day}, %Y",
    "{day} %B %Y",
    "%b {day}, %Y",
    "{day} %b %Y",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "{day}.{month}.%Y",
    "{day}/{month}/%Y",
    "{month}/{day}/%Y",
    "%Y%m%d",
)
"""Ways to write a day; longer ones before the ones that they contain."""

_TIME = re.compile(
    r"(?<![\d:.])(\d{1,2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?![\d:])"
)
_AFTER_DATE = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"

MARGIN = timedelta(minutes=2)
"""Tolerance of a time; a prompt may be made some time before it is sent."""

_OFFSETS = tuple(timezone(timedelta(hours=hours)) for hours in range(-12, 15))


def free_times(template: PromptTemplate, began: float, ended: float) -> PromptTemplate:
    """Turn dates and times of the recording in a template's constant text into slots.

    Recordings of one day have that day in common, in any zone; those of one minute have the time.
    Other dates stay constant.

    Args:
        template: A template in the format engine.
        began: Time of the first recording, in Unix seconds.
        ended: Time of the last one.
    """
    used_names = set(template.placeholders)
    parts: list[str] = []
    for constant, slot in _pieces(template.text):
        parts.append(_freed(constant, began, ended, used_names))
        parts.append(slot)
    text = "".join(parts)
    return template if text == template.text else PromptTemplate(text)


def without_times(text: str, began: float, ended: float) -> str:
    """A text with a mark in place of each date and time between two moments, in Unix seconds."""
    return _freed(text, began, ended, set())


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Constant text as written, and the slot after it; the last slot is empty."""
    start = 0
    for match in re.finditer(r"\{\{|\}\}|\{[^{}]*\}", text):
        if match[0] in ("{{", "}}"):
            continue
        yield text[start : match.start()], match[0]
        start = match.end()
    yield text[start:], ""


def _freed(constant: str, began: float, ended: float, used_names: set[str]) -> str:
    days = {_day(moment, zone) for moment in (began, ended) for zone in _OFFSETS}
    date_texts = {
        day.strftime(form.format(day=day.day, month=day.month)) for form in _FORMATS for day in days
    }
    dates = "|".join(sorted(map(re.escape, date_texts), key=len, reverse=True))
    weekdays = "|".join({day.strftime("%A") for day in days})
    constant = re.sub(
        # A weekday alone is today's only where something is said to be it.
        rf"(?<!\w)(?:{dates}){_AFTER_DATE}(?!\w)|(?<=\bis )(?:{weekdays})(?!\w)",
        lambda _: "{" + _name("date", used_names) + "}",
        constant,
    )

    def time(match: re.Match[str]) -> str:
        if not _is_then(int(match[1]), int(match[2]), began, ended):
            return match[0]
        return "{" + _name("time", used_names) + "}"

    return _TIME.sub(time, constant)


def _day(moment: float, zone: timezone) -> datetime:
    return datetime.fromtimestamp(moment, zone).replace(hour=0, minute=0, second=0, microsecond=0)


def _is_then(hour: int, minute: int, began: float, ended: float) -> bool:
    """Whether a time of day lies within the recording, in any whole-hour time zone."""
    if hour > 23 or minute > 59:
        return False
    first = datetime.fromtimestamp(began, UTC) - MARGIN
    length = int((ended - began) // 60) + 2 * int(MARGIN.total_seconds() // 60)
    if length >= 60:
        return False  # each time of day lies within it: it cannot be told from the prompt's own
    return any((first + timedelta(minutes=n)).minute == minute for n in range(length + 1))


def _name(base: str, used_names: set[str]) -> str:
    names = (
        base if number == 1 else f"{base}_{number}" for number in range(1, len(used_names) + 2)
    )
    name = next(name for name in names if name not in used_names)
    used_names.add(name)
    return name
