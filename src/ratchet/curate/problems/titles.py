"""Titles of problems: what goes wrong, in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ratchet.curate.problems.resemblance import (
    ACT,
    Profile,
    Weight,
    cosine,
)
from ratchet.curate.problems.symptoms import CORRECTED, RATED
from ratchet.types import Occurrence, ProblemKind

DETAIL = 90
"""Characters of an error or a comment in a title."""


TYPICAL = 0.5
"""Minimum share of a problem's traces that call a tool, for the title to name it."""


def title_of(
    kind: ProblemKind,
    place: str,
    occurrences: Sequence[Occurrence],
    terms: Mapping[str, frozenset[str]],
    profile: Profile,
    weight: Weight,
) -> tuple[str, bool]:
    """The title of a problem, and whether a coach wrote it.

    Args:
        kind: Its kind.
        place: Where it fails.
        occurrences: At least one.
        terms: Their terms, which are compared, by id.
        profile: Their profile.
        weight: Weights of their terms.
    """
    typical = max(
        occurrences,
        key=lambda o: (
            cosine(terms[o.id], profile, weight),
            -o.at,
            o.id,
        ),
    )
    if typical.mistake:
        return typical.mistake, True
    return _made_of(kind, place, typical, profile, weight), False


def _made_of(
    kind: ProblemKind, place: str, typical: Occurrence, profile: Profile, weight: Weight
) -> str:
    said = _short(typical.detail)
    tools = [
        term.removeprefix(ACT)
        for term, share in profile.shares.items()
        if term.startswith(ACT) and weight(term) > 0.0 and share >= TYPICAL
    ]
    about = f" about {', '.join(words)}" if (words := profile.topic(weight)) else ""
    if tools and not typical.is_message:
        about += f" when it calls {' and '.join(sorted(tools))}"
    match kind:
        case "error":
            return f"{place or 'The agent'} fails: {said}"
        case "guardrail":
            return f"A guardrail stops the answer: {said}"
        case "loop":
            return f"{place} is called repeatedly with the same arguments"
        case "cut_off":
            return f"Answers{about} are cut off at the token limit"
        case "refusal":
            return f"The agent refuses questions{about}"
        case "retry":
            return f"Users ask again{about}"
        case "abandonment":
            return f"Users leave after asking{about}"
        case "negative_feedback":
            if place:
                return f"Users correct {place}"
            if typical.detail.startswith(CORRECTED):
                return f"Users correct answers{about}"
            if typical.detail.startswith(RATED):
                return f"Users dislike answers{about}"
            return f"Users complain: {said}"
        case "low_score":
            if typical.detail and not typical.detail.startswith(f"{place} "):
                return f"{place} is low: {said}"
            return f"{place} is low{about}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else line[: DETAIL - 1].rstrip() + "…"
