"""The prompt check: a rewrite changes what the prompt says, and keeps its placeholders and a
reasonable length."""

from __future__ import annotations

import re

from ratchet.learn.checks.check import CandidateChange, Check
from ratchet.learn.length import ALWAYS_ALLOWED_TEXT, MAX_TEXT_GROWTH, longest
from ratchet.types import PromptTemplate
from ratchet.types.wording import counted


def keeps_prompt(growth: float = MAX_TEXT_GROWTH) -> Check:
    """Make the check for all prompts.

    Args:
        growth: Maximum length, as a multiple of the baseline's; 4,000 characters are always
            allowed. The reference is the baseline, not the parent, so that repeated edits cannot
            grow without limit.
    """

    async def check(change: CandidateChange) -> str:
        if change.resources and all(
            isinstance(old, PromptTemplate)
            and isinstance(new, PromptTemplate)
            and says_the_same(old.text, new.text)
            for old, new in change.resources.values()
        ):
            return f"The prompt {next(iter(change.resources))!r} {UNCHANGED_FAULT}"
        for name, (old, new) in change.resources.items():
            if isinstance(old, PromptTemplate) and isinstance(new, PromptTemplate):
                fault = prompt_fault(old, new, growth)
                if fault:
                    return f"The prompt {name!r} {fault}"
        return ""

    return check


UNCHANGED_FAULT = (
    "says the same as the source's: only white space, punctuation or a fence around it is another."
    " Change what it says."
)

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})[\w-]*\s*$", re.MULTILINE)
_PUNCTUATION = re.compile(r"(?<!\d)[.,;:!?]+|[.,;:!?]+(?!\d)")


def says_the_same(first: str, second: str) -> bool:
    """Whether two prompts differ in nothing but white space, punctuation or fences.

    Operators, quotes and brackets are no punctuation: `x < 5` is not `x > 5`.
    """
    return said(first) == said(second)


def said(text: str) -> list[str]:
    """What a prompt says, without the form that makes no difference."""
    return _PUNCTUATION.sub(" ", _FENCE.sub("", text)).split()


def prompt_fault(old: PromptTemplate, new: PromptTemplate, growth: float = MAX_TEXT_GROWTH) -> str:
    """The fault in a rewritten prompt, as a predicate; empty if none."""
    if not new.text.strip():
        return "is empty."
    if new.engine != old.engine:
        return f"is written for {new.engine}; the source's is for {old.engine}."
    dropped = sorted(old.placeholders - new.placeholders)
    if dropped:
        return f"drops the placeholder {_shown(dropped[0], old)}. Keep every placeholder."
    added = sorted(new.placeholders - old.placeholders)
    if added:
        braces = " Double braces that are meant literally." if old.engine == "f-string" else ""
        return f"has a placeholder {_shown(added[0], old)} that nothing fills.{braces}"
    limit = longest(old.text, growth)
    if len(new.text) > limit:
        why = "" if limit == ALWAYS_ALLOWED_TEXT else f", {growth:g} times the source's"
        return (
            f"has {counted(len(new.text), 'character')}; at most {limit} are allowed{why}."
            " Shorten it."
        )
    return ""


def _shown(name: str, template: PromptTemplate) -> str:
    return f"{{{{ {name} }}}}" if template.engine == "jinja2" else f"{{{name}}}"
