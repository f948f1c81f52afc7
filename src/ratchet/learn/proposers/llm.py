"""The `llm` proposer: a coach reviews a candidate's rollouts and rewrites a resource.

Reflective mutation as in GEPA (Agrawal et al. 2025): critique and rewrite are one call, grounded in
rollouts with their steps and the evaluators' feedback. Code may also be edited by SEARCH/REPLACE
blocks (as in AlphaEvolve: Novikov et al. 2025). The prompt templates are the files in `prompts/`;
their version is recorded in each candidate.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files

from ratchet.learn.coach_prompts import declines
from ratchet.learn.evidence import (
    Example,
    changes_text,
    cut,
    examples_text,
    history_text,
    parameters_text,
)
from ratchet.learn.lab import Lab
from ratchet.learn.length import longest
from ratchet.learn.proposers.edits import apply_edits, edits_in, whole_text
from ratchet.learn.proposers.proposer import Draft, ProposalRequest
from ratchet.learn.proposers.templates import UnusableAnswer, rewritten_code, rewritten_prompt
from ratchet.llm import Message, Reply
from ratchet.types import Code, PromptTemplate, Resource

PART = re.compile(r"<<([a-z]+)>>")

LANGUAGES = {
    "prompt": ("text", "markdown", "md", "prompt", "jinja", "jinja2"),
    "code": ("python", "py"),
}


STEPS = {
    "reflect": 1,
    "reflect twice": 2,
    "reflect thrice": 3,
    "reflect four times": 4,
    "reflect six times": 6,
}
"""Number of coach calls per draft, by operator."""

PRIOR = {
    "prompt": {
        "reflect": 0.05,
        "reflect twice": 0.1,
        "reflect thrice": 0.2,
        "reflect four times": 0.5,
    },
    "code": {
        "reflect twice": 0.5,
        "reflect thrice": 0.2,
        "reflect four times": 0.1,
        "reflect six times": 0.0,
    },
}
"""Prior weights of operators; 1 for those not listed. Rules of a prompt are additive; of several
changes to code, a single bad one breaks it."""

SHOWN = 8
"""Maximum number of examples shown in one call."""

MAX_CHANGES = 2_000
"""Maximum characters of what has changed since examples were run."""

KEPT = 0.4
"""Minimum share of the text that a step must preserve for another step to build on it."""


class LlmProposer:
    """Rewrites one resource with the coach.

    A draft may take several steps, each shown other examples, before it costs a rollout, since
    rollouts are the scarce resource. These are of the parent, so a step after a change says what
    has changed since. The number of steps is weighted by survival rates; a draft ends sooner when
    there is nothing new to show, or when the coach would change nothing more.
    """

    name = "llm"
    coach_calls = max(STEPS.values())

    def suits(self, resource: Resource) -> bool:
        """Whether the resource is a prompt or a function."""
        return isinstance(resource, PromptTemplate | Code)

    async def propose(self, case: ProposalRequest, lab: Lab) -> Sequence[Draft]:
        """Change the first target."""
        name = case.targets[0]
        rng = random.Random(case.seed)  # noqa: S311 - reproducible, not secret
        operator = "combine"
        if case.inspiration is None:
            prior = PRIOR["code" if isinstance(case.parent.resources[name], Code) else "prompt"]
            able = [one for one, steps in STEPS.items() if steps <= case.calls]
            odds = [prior.get(one, 1.0) * case.weights.get(one, 1.0) for one in able]
            operator = rng.choices(able, odds)[0]
        before = resource = case.parent.resources[name]
        replies, summaries = list[Reply](), list[str]()
        problem, declined, is_done = "", "", False
        asked = set[tuple[str, frozenset[int]]]()
        selections = _selections(case, rng)
        for step, chosen in zip(range(STEPS.get(operator, 1)), selections, strict=False):
            request = (_text(resource), frozenset(chosen))
            if request in asked:
                break  # there is nothing new to show
            asked.add(request)
            file = f"{operator.split()[0]}_{'code' if isinstance(resource, Code) else 'prompt'}.md"
            examples = [case.examples[number] for number in chosen]
            text = _asked(file, case, name, resource, examples)
            reply = await lab.coach([Message("user", text)], step=f"{case.step}/{step}", once=True)
            replies.append(reply)
            if declines(reply.text):
                lab.usable()
                declined, is_done = " ".join(reply.text.split()), True
                break
            try:
                made = _read(reply, resource, case.baseline.resources[name], case.max_growth)
                if made == resource:
                    is_done = bool(summaries)
                    if is_done:
                        break
                    raise UnusableAnswer("The coach changed nothing.")
            except UnusableAnswer as error:
                problem = str(error)
                lab.unusable(f"{case.step}/{step}", problem)
                continue
            lab.usable()
            alone = _kept(resource, made) < KEPT
            if alone and summaries:
                continue  # it would discard the result of earlier steps
            resource = made
            summaries.append(_words(reply.text))
            if alone:
                break
        if resource == before:
            problem = problem or "The coach changed nothing."
            return [
                Draft(
                    operator=operator,
                    replies=tuple(replies),
                    problem="" if declined else problem,
                    declined=cut(declined, 300),
                )
            ]
        words = " ".join(dict.fromkeys(part for part in summaries if part))
        by = f"The coach rewrote {name!r} (asked by {file} {version(file)})"
        return [
            Draft(
                resources={name: resource},
                operator=operator,
                reason=f"{by}: {cut(words, 300)}" if words else f"{by}.",
                replies=tuple(replies),
                asked_in_vain=is_done and len(summaries) == 1,
            )
        ]


def _selections(case: ProposalRequest, rng: random.Random) -> Iterator[Sequence[int]]:
    """Numbers of the examples of each step: those chosen for the first, then those shown least.

    A step that shows the few examples left over would hardly change anything, so it is filled with
    earlier ones, drawn at random.
    """
    every = range(len(case.examples))
    chosen: Sequence[int] = every[: case.first or SHOWN]
    times = Counter[int]()
    while True:
        yield chosen
        times.update(chosen)
        chosen = sorted(every, key=lambda number: (times[number], rng.random()))[:SHOWN]


@cache
def version(file: str) -> str:
    """Content hash of a prompt file, as recorded in candidates."""
    return hashlib.sha256(_file(file).encode()).hexdigest()[:8]


@cache
def _file(name: str) -> str:
    return (files("ratchet.learn.proposers") / "prompts" / name).read_text(encoding="utf-8")


def _asked(
    file: str,
    case: ProposalRequest,
    name: str,
    current: Resource,
    examples: Sequence[Example],
) -> str:
    """The coach's prompt; substituted in one pass, so that no value can inject another field."""
    before = case.parent.resources[name]
    shown = examples_text(examples)
    if current != before:
        changes = cut(changes_text(before, current), MAX_CHANGES)
        shown = f"{_file('stale.md').replace('<<changes>>', changes).strip()}\n\n{shown}"
    elif case.overview:
        shown = f"{case.overview}\n\n{shown}"
    settings = parameters_text(case.parent)
    if settings:
        settings = f"\n# Parameters that it runs with, tuned separately\n{settings}\n"
    fields = {
        "name": name,
        "current": _text(current),
        "settings": settings,
        "other": _text(case.inspiration.resources[name]) if case.inspiration else "",
        "comparison": case.comparison,
        "examples": shown or "(none)",
        "placeholders": _placeholders(case.baseline.resources[name]),
        "limit": str(longest(_text(case.baseline.resources[name]), case.max_growth)),
        "tried": history_text(case.tried) or "- nothing yet",
    }
    return PART.sub(lambda match: fields[match.group(1)], _file(file))


def _text(resource: Resource) -> str:
    return resource.source.rstrip() if isinstance(resource, Code) else str(resource)


def _placeholders(resource: Resource) -> str:
    if not isinstance(resource, PromptTemplate) or not resource.placeholders:
        return "It has no placeholders."
    form = "{{ %s }}" if resource.engine == "jinja2" else "{%s}"
    names = ", ".join(form % name for name in sorted(resource.placeholders))
    return f"Keep these placeholders exactly as they are: {names}."


def _read(reply: Reply, resource: Resource, baseline: Resource, max_growth: float) -> Resource:
    """The resource in a reply.

    Raises:
        UnusableAnswer: The reply contains no usable resource.
    """
    if not reply.text.strip():
        raise UnusableAnswer(f"The coach gave no answer: {reply.problem or 'it was empty'}.")
    current = _text(resource)
    kind = "code" if isinstance(resource, Code) else "prompt"
    edits = edits_in(reply.text)
    if edits:
        text = apply_edits(current, edits)
        if text is None:
            raise UnusableAnswer(
                "The coach's SEARCH blocks are not found in what they are to change."
            )
    elif reply.problem:  # truncated edits are refused, even where the first ones match
        raise UnusableAnswer(f"The coach gave no whole answer: {reply.problem}")
    else:
        text = whole_text(reply.text, LANGUAGES[kind])
        if text is None and kind == "code" and "def " in reply.text:
            text = reply.text
        if text is None:
            raise UnusableAnswer("The coach answered in another format: there is no fenced text.")
    if isinstance(baseline, Code):
        return rewritten_code(text, baseline, max_growth)
    assert isinstance(baseline, PromptTemplate)
    assert isinstance(resource, PromptTemplate)
    return rewritten_prompt(text, baseline, max_growth, resource)


def _kept(before: Resource, after: Resource) -> float:
    """Share of a text's words that a rewrite preserves, in order."""
    old, new = _text(before).split(), _text(after).split()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(1, len(old))


def _words(answer: str) -> str:
    """The coach's summary of its change: the first sentence outside fences."""
    outside = answer.split("```", 1)[0].split("<<<<<<<", 1)[0]
    lines = [line.strip(" #*-\t") for line in outside.splitlines()]
    return cut(next((line for line in lines if len(line.split()) >= 4), ""), 240)
