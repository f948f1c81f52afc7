"""The request to the coach: a single message with all that it needs to write the next version."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count as counting
from textwrap import shorten

import msgspec

from ratchet.bind.recognise import PromptPlace
from ratchet.learn.attempts import TriedChange
from ratchet.learn.attribution import sent_prompt
from ratchet.learn.coach_prompts import CoachPrompts
from ratchet.learn.evidence import LowRollout, kinds_of_failure, least_alike, token_limit
from ratchet.learn.length import longest
from ratchet.learn.search import numbers
from ratchet.learn.search.placeholders import written
from ratchet.observe.step_text import steps_of, text_of
from ratchet.types import Candidate, Code, PromptTemplate, Resource, Span, Task
from ratchet.types.wording import counted

PROMPTS = CoachPrompts("ratchet.learn.search")

MIN_FENCE = 4
"""Backticks of a fence, unless the text contains as many."""

MAX_KINDS = 6
"""Maximum number of kinds of failure that are listed with their number."""

MAX_VERSIONS = 4
"""Maximum number of versions whose scores are listed for each task."""


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a request."""

    name: str
    """The resource to improve."""
    candidate: Candidate
    """What ran."""
    baseline: Candidate
    scores: Mapping[str, float]
    """Scores of the candidate by task."""
    shown: Sequence[LowRollout]
    """The candidate's low rollouts to show."""
    low: Sequence[LowRollout]
    """All its low rollouts."""
    train: Sequence[Task]
    attempts: Sequence[TriedChange] = ()
    values: Mapping[str, Mapping[str, float]] = {}
    """Scores by task of earlier versions, by candidate id."""
    guidelines: str = ""
    max_growth: float = 4.0
    redact: Callable[[str], str] = str
    """Redacts everything but the agent's own text. Called before the text is cut, since a rule does
    not recognise half a telephone number, and so that marks in the answer stand for what the prompt
    itself says."""

    def short(self, text: str, limit: int) -> str:
        """A text from a rollout or task, redacted, with its middle cut out if it is too long."""
        return shortened(self.redact(text), limit)


def fence_for(*texts: str) -> str:
    """A fence of backticks longer than any in the texts."""
    longest_run = max((len(run) for text in texts for run in re.findall("`+", text)), default=0)
    return "`" * max(MIN_FENCE, longest_run + 1)


def request_text(facts: RequestFacts) -> str:
    """The whole request."""
    common = _common(facts)
    resource = facts.candidate.resources[facts.name]
    own = facts.baseline.resources[facts.name]
    is_code = isinstance(resource, Code)
    text = source_of(resource)
    fence = fence_for(text)
    kind = "code" if is_code else "prompt"
    limit = str(longest(source_of(own), facts.max_growth))
    placeholders = placeholder_rule(resource) if isinstance(resource, PromptTemplate) else ""
    fixed = [
        repr(name)
        for name, resource in facts.candidate.resources.items()
        if name != facts.name and isinstance(resource, PromptTemplate | Code)
    ]
    noun = "function" if is_code else "prompt"
    what = f"the {noun} {facts.name!r}"
    stay = "stay as they are" if len(fixed) > 1 else "stays as it is"
    beside = f" It also has {', '.join(fixed)}, which {stay}." if fixed else ""
    versions = _versions(facts)
    told_versions = _told_versions(facts, versions)
    return PROMPTS.fill(
        "request",
        what=f"{what} of an LLM agent" if not is_code else f"{what} of a program",
        model=_model(facts.low or facts.shown) + beside,
        noun=noun,
        fence=fence,
        language="python" if is_code else "text",
        text=text,
        values=_values(facts, common) + _place(facts),
        overview=_overview(facts, told_versions),
        rollouts=_rollouts(facts, told_versions, common),
        tasks=_tasks(facts, told_versions),
        history=_history(facts, versions),
        guidelines=_section("What the owner wants", facts.guidelines),
        rules=PROMPTS.fill(f"{kind}_rules", placeholders=placeholders, limit=limit).strip(),
        form=PROMPTS.fill(f"{kind}_form", fence=fence).strip(),
    )


def plain_request_text(facts: RequestFacts) -> str:
    """A short request, for a coach that cannot answer the whole one: its answer is the prompt."""
    template = facts.candidate.resources[facts.name]
    assert isinstance(template, PromptTemplate)
    own = facts.baseline.resources[facts.name]
    room = numbers.PLAIN_FIELD_ROOM
    blocks = []
    for rollout in facts.shown[: numbers.PLAIN_ROLLOUTS_SHOWN]:
        task, output = rollout.evaluation.task, rollout.evaluation.rollout.output
        lines = [f"Input: {facts.short(text_of(task.input), room)}"]
        if output is not None:
            lines.append(f"Answer of the model: {facts.short(text_of(output), room // 2)}")
        if task.expected is not None:
            lines.append(f"Right answer: {facts.short(text_of(task.expected), room // 2)}")
        if rollout.said and (output is None or task.expected is None):
            lines.append(f"What is wrong: {facts.short(rollout.said, room)}")
        blocks.append("\n".join(lines))
    return PROMPTS.fill(
        "plain_request",
        fence=fence_for(template.text),
        text=template.text,
        rollouts="\n\n".join(blocks),
        guidelines=_section("What the owner wants", facts.guidelines),
        placeholders=placeholder_rule(template),
        limit=str(longest(source_of(own), facts.max_growth)),
    )


def source_of(resource: Resource) -> str:
    """The text of a prompt or function, to the byte."""
    if isinstance(resource, Code):
        return resource.source
    return resource.text if isinstance(resource, PromptTemplate) else str(resource)


def placeholder_rule(template: PromptTemplate) -> str:
    """The rules for a template's placeholders and braces."""
    names = sorted(template.placeholders)
    if not names:
        return "The prompt has no placeholders; add none."
    forms = ", ".join(f"`{written(name, template.engine)}`" for name in names)
    rule = f"Keep these placeholders as they are, and add none: {forms}."
    return f"{rule} Any other brace is doubled." if template.engine == "f-string" else rule


def _section(title: str, body: str) -> str:
    return f"\n# {title}\n\n{body.strip()}\n" if body.strip() else ""


def _model(low: Sequence[LowRollout]) -> str:
    """Which model answered, whatever name was asked for, and how long its answers may be."""
    for rollout in low:
        for span in reversed(rollout.spans):
            asked = span.attributes.get("gen_ai.request.model")
            model = span.attributes.get("gen_ai.response.model") or asked
            if model:
                limit = token_limit(rollout.spans)
                tokens = f"; its answers end at {counted(limit, 'token')}" if limit else ""
                return f" The agent's model is {model}{tokens}."
    return ""


def _sent(facts: RequestFacts, spans: Sequence[Span]) -> PromptPlace:
    """The prompt as a rollout sent it; without values if its trace does not show them."""
    ran = facts.candidate.resources[facts.name]
    sent = sent_prompt(ran, spans) if isinstance(ran, PromptTemplate) else None
    return sent or PromptPlace({}, "", "")


def _common(facts: RequestFacts) -> dict[str, str]:
    """Values of placeholders that are the same in all rollouts, such as a database's schema."""
    by_rollout = [values for rollout in facts.low if (values := _sent(facts, rollout.spans).slots)]
    if len(by_rollout) < 2:
        return {}
    return dict(sorted(set.intersection(*(set(values.items()) for values in by_rollout))))


def _values(facts: RequestFacts, common: Mapping[str, str]) -> str:
    room = numbers.VALUES_ROOM // max(1, len(common))
    blocks = "\n\n".join(f"{name}:\n{facts.short(value, room)}" for name, value in common.items())
    return _section("What its placeholders hold, in every rollout", blocks)


def _place(facts: RequestFacts) -> str:
    """The text that one rollout sent around the prompt."""
    for rollout in facts.shown:
        sent = _sent(facts, rollout.spans)
        if sent.before.strip() or sent.after.strip():
            room = numbers.FIELD_ROOM
            parts = facts.short(sent.before, room), "[the prompt]", facts.short(sent.after, room)
            lines = "\n\n".join(part for part in parts if part)
            return _section("The text that it is sent in, in one rollout", lines)
    return ""


def _overview(facts: RequestFacts, versions: Mapping[str, str]) -> str:
    scores = facts.scores
    mean = sum(scores.values()) / max(1, len(scores))
    kinds = kinds_of_failure(facts.low)
    parts = f"{len(scores)} of {len(facts.train)} train tasks were run; mean score {mean:.2f};"
    parts += f" {len(facts.low)} below the best. What is wrong most often:"
    often = {kind: rollouts for kind, rollouts in kinds.items() if len(rollouts) > 1} or kinds
    frequent = list(often.items())[:MAX_KINDS]
    parts += "".join(f"\n- {counted(len(r), 'time')}: {kind}" for kind, r in frequent) + "\n"
    if len(facts.shown) < len(facts.low):
        parts += f"\n{len(facts.shown)} of them follow."
    if len(versions) > 1:
        parts += f" Scores in brackets are of {', '.join(versions.values())}."
    return parts


def _versions(facts: RequestFacts) -> dict[str, str]:
    """Short names of the versions that ran, by candidate id, oldest first: v0 is the source."""
    ran = [attempt.candidate_id for attempt in facts.attempts if attempt.outcome == "ran"]
    ids = dict.fromkeys([facts.baseline.id, *ran])
    return dict(zip(ids, (f"v{number}" for number in counting()), strict=False))


def _told_versions(facts: RequestFacts, versions: Mapping[str, str]) -> dict[str, str]:
    """The versions whose scores are listed: the source, the latest, and the current one."""
    ran = [id for id in versions if id != facts.candidate.id and facts.values.get(id)]
    ids = [*ran[:1], *ran[1:][1 - MAX_VERSIONS :]]
    return {**{id: versions[id] for id in ids}, facts.candidate.id: "now"}


def _scores_of(facts: RequestFacts, versions: Mapping[str, str], task: Task) -> str:
    """A task's score under each listed version; `-` where it was not run."""
    rows = [facts.scores if id == facts.candidate.id else facts.values[id] for id in versions]
    return " ".join(f"{row[task.id]:.3g}" if task.id in row else "-" for row in rows)


def _rollouts(facts: RequestFacts, versions: Mapping[str, str], common: Mapping[str, str]) -> str:
    numbered = {task.id: number for number, task in enumerate(facts.train, 1)}
    room, left = numbers.FIELD_ROOM, numbers.STEPS_ROOM
    resource = facts.candidate.resources[facts.name]
    lines = []
    for rollout in facts.shown:
        task = rollout.evaluation.task
        output = rollout.evaluation.rollout.output
        question, answered = text_of(task.input), text_of(output) if output is not None else ""
        parts = [f"Task {numbered.get(task.id, '?')} ({_scores_of(facts, versions, task)}): "]
        parts[0] += facts.short(question, room)
        for name, value in _sent(facts, rollout.spans).slots.items():
            if name not in common and value.strip() not in question:
                parts.append(f"  {name}: {facts.short(value, room)}")
        repeated = {question.strip(), answered.strip()}
        constant = _longest_line(source_of(resource))
        steps = "\n  ".join(s for s in steps_of(rollout.spans, repeated) if constant not in s)
        if steps and len(steps) <= left:  # steps in part mislead; the first ones are whole
            left -= len(steps)
            parts.append(f"  {steps}")
        if answered and not _is_reward(rollout):
            parts.append(f"  answer: {facts.short(answered, room)}")
        if task.expected is not None and not _tells(rollout.said, task.expected):
            parts.append(f"  expected: {facts.short(text_of(task.expected), room)}")
        if rollout.said:
            parts.append(f"  {facts.short(rollout.said, room)}")
        if rollout.finish and rollout.finish != "stop":
            parts.append(f"  finish: {rollout.finish}")
        lines.append("\n".join(parts))
    return "\n".join(lines)


def _tells(remarks: str, expected: object) -> bool:
    """Whether an answer's differences already give the expected answer in full."""
    if isinstance(expected, dict):
        return ": expected " in remarks and "…" not in remarks
    return f"expected {expected!r}".replace("'", '"') in remarks


def _longest_line(text: str) -> str:
    """A line that identifies a step which contains the prompt itself; no step contains an empty
    one."""
    plain = [line for line in re.split(r"[\n{}]", text) if line.strip()]
    return max(plain, key=len, default="\0")


def _is_reward(rollout: LowRollout) -> bool:
    """Whether the agent returned its own score, which is not an answer."""
    reward = rollout.evaluation.scores.get("reward")
    output = rollout.evaluation.rollout.output
    return reward is not None and type(output) in (int, float) and reward.value == output


def _tasks(facts: RequestFacts, versions: Mapping[str, str]) -> str:
    """Train tasks that are not shown above: input, expected answer and scores, a line each.

    Those least like what was shown come first, so that a rule that no rollout shows is seen.
    """
    shown_ids = {rollout.task_id for rollout in facts.shown}
    unshown = [task for task in facts.train if task.id not in shown_ids]
    if not unshown:
        return ""
    numbered = {task.id: number for number, task in enumerate(facts.train, 1)}
    keys, answers = _answers(unshown)
    expected = dict(zip((task.id for task in unshown), answers, strict=True))
    room, lines = numbers.TASKS_ROOM, list[str]()
    for task in least_alike(unshown, [rollout.evaluation.task for rollout in facts.shown]):
        told_answer = facts.short(expected[task.id], numbers.TASK_ROOM // 2)
        question = facts.short(text_of(task.input), numbers.TASK_ROOM - len(told_answer))
        scores = _scores_of(facts, versions, task)
        lines.append(f"{numbered[task.id]} ({scores}): {question} -> {told_answer}")
        room -= len(lines[-1])
        if room < 0:
            break
    title = "Other train tasks (scores): input -> expected answer"
    title += f" ({', '.join(keys)})" if keys else ""
    left = len(unshown) - len(lines)
    return _section(f"{title}; {left} more are left out" if left else title, "\n".join(lines))


def _answers(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """The expected answers: values alone, with the keys stated once, if all have the same keys."""
    answers = [task.expected for task in tasks]
    first = answers[0]
    if isinstance(first, dict) and all(
        isinstance(answer, dict) and list(answer) == list(first) for answer in answers
    ):
        return list(first), [" | ".join(map(text_of, answer.values())) for answer in answers]
    return [], ["" if answer is None else text_of(answer) for answer in answers]


def _history(facts: RequestFacts, versions: Mapping[str, str]) -> str:
    """Every earlier change of the run, with its lines and its result; newest last."""
    history: list[str] = []
    room = numbers.HISTORY_ROOM
    for attempt in reversed(facts.attempts):
        reason = shorten(facts.redact(attempt.reason), 220, placeholder=" …")
        if attempt.outcome == "declined":
            lines = f"- no change: {reason}"
        elif attempt.outcome == "refused":
            lines = f"- refused: {reason}"
        else:
            label = versions.get(attempt.candidate_id, "")
            suffix = ", the current version" if attempt.candidate_id == facts.candidate.id else ""
            result = (
                f"{attempt.before:.2f} -> {attempt.score:.2f} on {counted(attempt.tasks, 'task')}"
            )
            lines = f"- {label}{suffix} ({attempt.algorithm}; {result}): {reason}"
            change = "" if suffix else facts.short(attempt.change, 500)
            lines += "".join(f"\n    {line}" for line in change.splitlines())
            if attempt.worst:
                lines += f"\n    It lost where it answered: {facts.short(attempt.worst, 200)}"
        if len(lines) > room and history:
            history.append(f"- and {len(facts.attempts) - len(history)} earlier ones")
            break
        room -= len(lines)
        history.append(lines)
    return _section("Tried before, with the result", "\n".join(reversed(history)))


def shortened(text: str, limit: int) -> str:
    """A text with its middle cut out if it is too long."""
    text = text.strip()
    if len(text) <= limit:
        return text
    head = max(1, limit * 2 // 3)
    return f"{text[:head]} […] {text[len(text) - max(1, limit - head) :]}"
