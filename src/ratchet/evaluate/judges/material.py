"""The parts of a rollout that a judge reads: input, output, reference and trace, each limited."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from ratchet.observe.step_text import cut, steps_by_span, text_of
from ratchet.types import Rollout, Span

Part: TypeAlias = Literal["input", "output", "expected", "trace"]
MATERIAL_PARTS: tuple[Part, ...] = ("input", "output", "expected", "trace")

TITLES: dict[Part, str] = {
    "input": "Task",
    "output": "Answer",
    "expected": "Reference answer",
    "trace": "Steps",
}

MAX_FIELD = 12_000
"""Maximum length of the input, the output and the reference, in characters each."""

MAX_TRACE = 16_000
"""Maximum length of the trace, in characters."""

AROUND = 2
"""Steps before and after a failing one that are kept with it."""


class Passage(msgspec.Struct, frozen=True):
    """A titled part of the material, not quoted yet."""

    title: str
    text: str


def material(
    rollout: Rollout, spans: Sequence[Span], reads: Sequence[Part], chosen: Sequence[str] = ()
) -> list[Passage]:
    """The parts that the judge reads, in order, without missing ones.

    Args:
        rollout: The rollout.
        spans: Its spans, in start order; needed only if the judge reads the trace.
        reads: The parts.
        chosen: Patterns of names of spans, as in file names; all spans when empty.
    """
    texts = {
        "input": text_of(rollout.input),
        "output": text_of(rollout.output),
        "expected": "" if rollout.expected is None else text_of(rollout.expected),
    }
    sections: list[Passage] = []
    for part in reads:
        if part == "trace":
            text = condensed(selected(spans, chosen), {texts["input"], texts["output"]})
        elif part == "expected" and rollout.expected is None:
            continue
        else:
            text = cut(texts[part], MAX_FIELD)
        if text or part == "output":
            sections.append(Passage(TITLES[part], text))
    return sections


def selected(spans: Sequence[Span], chosen: Sequence[str]) -> list[Span]:
    """The spans whose name matches a pattern; all if there are no patterns."""
    if not chosen:
        return list(spans)
    return [s for s in spans if any(fnmatch.fnmatchcase(s.name, pattern) for pattern in chosen)]


def condensed(spans: Sequence[Span], shown_elsewhere: set[str], limit: int = MAX_TRACE) -> str:
    """The trace as text within a limit: failing steps whole, others as space allows.

    Steps are kept in this order: those that failed, their neighbours, the last, the first. A line
    says how many steps are missing at its place.

    Args:
        spans: Spans in start order.
        shown_elsewhere: Texts shown elsewhere.
        limit: Maximum number of characters, besides the note on how many are missing.
    """
    steps = [(s, "\n".join(lines)) for s, lines in steps_by_span(spans, shown_elsewhere)]
    if sum(len(text) + 1 for _, text in steps) <= limit:
        return "\n".join(text for _, text in steps)
    texts: dict[int, str] = {}
    room = limit
    for number in _by_importance([span.status == "error" for span, _ in steps]):
        text = steps[number][1]
        if len(text) + 1 > room:
            if steps[number][0].status != "error" or room < 200:
                continue
            text = cut(text, room - 100)
        texts[number] = text
        room -= len(text) + 1
    lines: list[str] = []
    missing = 0
    for number in range(len(steps) + 1):
        if number in texts or number == len(steps):
            if missing:
                lines.append(f"[... {missing} step{'' if missing == 1 else 's'} left out ...]")
            missing = 0
            lines += [texts[number]] if number in texts else []
        else:
            missing += 1
    return "\n".join(lines)


def _by_importance(failed: Sequence[bool]) -> list[int]:
    failing = [number for number, is_failed in enumerate(failed) if is_failed]
    near = [
        at
        for number in failing
        for at in range(number - AROUND, number + AROUND + 1)
        if 0 <= at < len(failed)
    ]
    ends: list[int] = []
    for number in range((len(failed) + 1) // 2):
        ends += [len(failed) - 1 - number, number]
    return list(dict.fromkeys([*failing, *near, *ends]))
