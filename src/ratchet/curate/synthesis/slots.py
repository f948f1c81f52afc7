"""Recombines the varying parts of real inputs: the slots of templates, the fields of objects."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any

import msgspec

from ratchet.curate.synthesis.sample import Sample
from ratchet.types import Task, canonical_json

BY_SLOTS = "recombined slots"

MIN_INPUTS_PER_TEMPLATE = 3

MIN_COMMON_WORDS = 0.5
"""Minimum share of words common to the inputs of a template."""

MAX_TEXTS = 400
"""Maximum number of texts searched for templates."""

DRAWS_PER_SAMPLE = 20
"""Draws for each sample before a template counts as exhausted."""

MIN_TASKS_SHARING_A_VALUE = 4
"""Minimum number of tasks that share a slot's value, to conclude that it decides the answer."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Answer = Callable[[Sequence[Any]], Any]


class Template(msgspec.Struct, frozen=True):
    """A form that several inputs share."""

    parts: tuple[str, ...]
    """Fixed texts around the slots, one more than there are slots; or the names of an object's
    fields."""
    values: tuple[tuple[Any, ...], ...]
    """The values of the slots, for each task."""
    tasks: tuple[Task, ...]
    is_object: bool = False

    def fill(self, values: Sequence[Any]) -> Any:
        """The input with these values in the slots."""
        if self.is_object:
            return dict(zip(self.parts, values, strict=True))
        pairs = zip(self.parts[1:], values, strict=True)
        return self.parts[0] + "".join(f"{value}{part}" for part, value in pairs)


class RecombinedSlots:
    """Draws inputs with a new combination of values that were seen.

    Args:
        tasks: Sources of the templates.
        rng: Source of randomness.
    """

    def __init__(self, tasks: Sequence[Task], rng: random.Random) -> None:
        self._rng = rng
        self._templates = [t for t in find_templates(tasks) if _combinations(t) > len(t.tasks)]
        self._answers = [_answer_of(template) for template in self._templates]
        self._made = {canonical_json(task.input) for task in tasks}

    async def draw(self, count: int) -> list[Sample]:
        """See `Method.draw`."""
        samples: list[Sample] = []
        for _ in range(count * DRAWS_PER_SAMPLE if self._templates else 0):
            if len(samples) == count:
                break
            at = self._rng.randrange(len(self._templates))
            template, answer = self._templates[at], self._answers[at]
            rows = [self._rng.randrange(len(template.tasks)) for _ in template.values[0]]
            values = [template.values[row][slot] for slot, row in enumerate(rows)]
            input = template.fill(values)
            key = canonical_json(input)
            if key in self._made:
                continue
            self._made.add(key)
            samples.append(
                Sample(
                    input=input,
                    by=BY_SLOTS,
                    sources=tuple(dict.fromkeys(template.tasks[row].id for row in rows)),
                    expected=None if answer is None else answer(values),
                    metadata=template.tasks[rows[0]].metadata,
                )
            )
        return samples


def find_templates(tasks: Sequence[Task]) -> list[Template]:
    """Find the forms that inputs share: texts with equal fixed parts, objects with equal fields."""
    objects: dict[tuple[str, ...], list[Task]] = defaultdict(list)
    texts: list[Task] = []
    for task in tasks:
        if isinstance(task.input, dict) and task.input:
            objects[tuple(sorted(task.input))].append(task)
        elif isinstance(task.input, str):
            texts.append(task)
    templates = [
        Template(names, tuple(tuple(t.input[n] for n in names) for t in some), tuple(some), True)
        for names, some in objects.items()
        if len(some) >= MIN_INPUTS_PER_TEMPLATE
    ]
    return templates + _text_templates(texts[:MAX_TEXTS])


def _text_templates(tasks: Sequence[Task]) -> list[Template]:
    left = [(task, _WORD.findall(task.input)) for task in tasks]
    templates: list[Template] = []
    while len(left) >= MIN_INPUTS_PER_TEMPLATE:
        _, fixed = left[0]
        members = []
        for task, words in left:
            common = _common(fixed, words)
            if len(common) >= MIN_COMMON_WORDS * max(len(words), len(left[0][1])):
                fixed = common
                members.append(task)
        template = _template(left[0][1], fixed, members)
        if template is not None:
            templates.append(template)
        member_ids = {task.id for task in members}
        left = [(task, words) for task, words in left if task.id not in member_ids]
    return templates


def _common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return [word for block in blocks for word in first[block.a : block.a + block.size]]


def _template(words: Sequence[str], fixed: Sequence[str], tasks: Sequence[Task]) -> Template | None:
    """The template of texts that share the fixed words; `words` is one of the texts."""
    parts, at = [""], 0
    for word in words:
        if at < len(fixed) and word == fixed[at]:
            parts[-1] += word
            at += 1
        elif not parts[-1] and len(parts) > 1:
            continue
        else:
            parts.append("")
    pattern = re.compile("(.+?)".join(map(re.escape, parts)), re.DOTALL)
    fitting = [(task, match) for task in tasks if (match := pattern.fullmatch(task.input))]
    if len(parts) == 1 or len(fitting) < MIN_INPUTS_PER_TEMPLATE:
        return None
    values = tuple(match.groups() for _, match in fitting)
    return Template(tuple(parts), values, tuple(task for task, _ in fitting))


def _combinations(template: Template) -> int:
    count = 1
    for column in zip(*template.values, strict=True):
        count *= len({canonical_json(value) for value in column})
    return count


def _answer_of(template: Template) -> Answer | None:
    """How the expected answer follows from the slots; None if it visibly does not."""
    return _repeated(template) or _decided(template)


def _repeated(template: Template) -> Answer | None:
    """The answer is a fixed text with values of slots in it."""
    frames = set()
    for values, task in zip(template.values, template.tasks, strict=True):
        if not isinstance(task.expected, str) or not all(isinstance(v, str) for v in values):
            return None
        frames.add(_frame(task.expected, values))
    frame = frames.pop() if len(frames) == 1 else ()
    if not any(isinstance(part, int) for part in frame):
        return None
    return lambda values: "".join(str(values[p]) if isinstance(p, int) else p for p in frame)


def _frame(text: str, values: Sequence[str]) -> tuple[str | int, ...]:
    """The text with the numbers of slots in place of their values."""
    frame: list[str | int] = [text]
    for slot in sorted(range(len(values)), key=lambda slot: -len(values[slot])):
        if not values[slot].strip():
            continue
        split: list[str | int] = []
        for part in frame:
            if isinstance(part, int):
                split.append(part)
                continue
            for number, piece in enumerate(part.split(values[slot])):
                split += [slot] if number else []
                split += [piece] if piece else []
        frame = split
    return tuple(frame)


def _decided(template: Template) -> Answer | None:
    """A slot that decides the answer: tasks that share its value share the answer."""
    for slot in range(len(template.values[0])):
        answers: dict[bytes, list[Any]] = defaultdict(list)
        for values, task in zip(template.values, template.tasks, strict=True):
            answers[canonical_json(values[slot])].append(task.expected)
        consistent = all(
            json.dumps(answer) == json.dumps(some[0])
            for some in answers.values()
            for answer in some
        )
        shared = sum(len(some) for some in answers.values() if len(some) > 1)
        different = {json.dumps(some[0]) for some in answers.values()}
        answered = all(task.expected is not None for task in template.tasks)
        if answered and consistent and shared >= MIN_TASKS_SHARING_A_VALUE and len(different) > 1:
            of = {value: some[0] for value, some in answers.items()}
            return partial(_looked_up, of, slot)
    return None


def _looked_up(answers: Mapping[bytes, Any], slot: int, values: Sequence[Any]) -> Any:
    return answers[canonical_json(values[slot])]
