"""Titles of problems: what goes wrong, in a few words."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.curate.problems.resemblance import Profile, Weight, cosine, terms_of
from ratchet.types import Occurrence, ProblemKind

DETAIL = 90
"""Characters of an error or a comment in a title."""


def title_of(
    kind: ProblemKind,
    place: str,
    occurrences: Sequence[Occurrence],
    profile: Profile,
    weight: Weight,
) -> str:
    """The title of a problem.

    Args:
        kind: Its kind.
        place: Where it fails.
        occurrences: At least one.
        profile: Theirs.
        weight: Weights of their terms.
    """
    typical = max(
        occurrences,
        key=lambda o: (
            cosine(terms_of(o.text, is_message=o.is_message), profile, weight),
            -o.at,
            o.id,
        ),
    )
    said = _short(typical.detail)
    about = f" about {', '.join(words)}" if (words := profile.topic(weight)) else ""
    match kind:
        case "error":
            return f"{place or 'The agent'} fails: {said}"
        case "guardrail":
            return f"A guardrail stops the answer: {said}"
        case "loop":
            return f"{place} is called again and again with the same arguments"
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
            if typical.detail:
                return f"Users complain: {said}"
            return f"Users dislike answers{about}"
        case "low_score":
            if typical.detail and not typical.detail.startswith(f"{place} "):
                return f"{place} is low: {said}"
            return f"{place} is low on questions{about}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL else line[: DETAIL - 1].rstrip() + "…"
