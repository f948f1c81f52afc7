"""Asks the coach once for a merged version of a prompt, and checks the answer."""

from __future__ import annotations

from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.coach_prompts import CoachPrompts
from ratchet.learn.lab import Lab
from ratchet.learn.search.answers import language_changed, parts_of
from ratchet.learn.search.placeholders import mended, written
from ratchet.learn.search.request import fence_for
from ratchet.llm import CoachUnavailable, Message
from ratchet.types import PromptTemplate

PROMPTS = CoachPrompts("ratchet.learn.shorten")


async def merged(lab: Lab, template: PromptTemplate, step: str) -> PromptTemplate | None:
    """A shorter version of a prompt with the same placeholders; None if there is none.

    Why an answer could not be used is journaled and told.

    Args:
        lab: The lab, whose coach is asked.
        template: The prompt.
        step: Name of the request, unique in the run.
    """
    fence = fence_for(template.text)
    slots = ", ".join(written(name, template.engine) for name in sorted(template.placeholders))
    said = lab.coach.guidelines
    text = PROMPTS.fill(
        "merge",
        text=template.text.strip("\n"),
        fence=fence,
        limit=str(len(template.text)),
        placeholders=f" Keep each of these placeholders once: {slots}." if slots else "",
        guidelines=f"\n\nWhat its owner says of it: {said}" if said else "",
    )
    try:
        reply = await lab.coach.ask([Message("user", text)], step=f"{step}/{PROMPTS.version}")
    except (BudgetExhausted, CoachUnavailable) as error:
        lab.note(f"The coach was not asked for a merged version: {error.message}")
        return None
    parts = parts_of(reply.text, fence)
    if parts.declined:
        lab.coach.usable()
        return None
    problem = reply.problem or parts.problem
    shorter = None
    if not problem and parts.text is not None:
        shorter, problem = mended(parts.text, template)
    if shorter is not None and len(shorter.text) >= len(template.text):
        problem = "It is no shorter."
    if shorter is not None and (language := language_changed(template.text, shorter.text)):
        problem = f"It changed the language of the prompt to {language}; keep the language."
    if problem:
        lab.coach.credit(reply, False)
        lab.coach.unusable(step, problem)
        lab.note(f"The coach's merged version cannot be used: {problem}")
        return None
    lab.coach.usable()
    return shorter
