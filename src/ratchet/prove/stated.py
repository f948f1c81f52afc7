"""What an evidence file states, compared with what was recomputed."""

from __future__ import annotations

from typing import Any

from ratchet.types import VerificationError
from ratchet.types.wording import counted


def part(name: str, content: dict[str, Any], key: str, kind: type) -> Any:
    """The value of a key, which must be of this kind.

    Raises:
        VerificationError: It is of another kind, or missing.
    """
    value = content.get(key)
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise VerificationError(f"{name}: {key!r} is {short(value)}, not {expected}.")
    return value


def budget_of(name: str, alpha: dict[str, Any]) -> tuple[float | None, list[bool]]:
    """Budget and history of the stream.

    Raises:
        VerificationError: They are malformed.
    """
    budget, history = alpha.get("budget"), alpha.get("history")
    if not isinstance(history, list) or not all(isinstance(item, bool) for item in history):
        raise VerificationError(f"{name}: alpha.history is not a list of true and false.")
    if budget is None:
        return None, history
    if not isinstance(budget, float) or not 0.0 < budget < 1.0:
        raise VerificationError(f"{name}: alpha.budget {short(budget)} is not between 0 and 1.")
    return budget, history


ABSENT_VALUE = object()
"""Marks a value that one side lacks."""


def compare(stated: Any, recomputed: Any, where: str) -> list[str]:
    """All differences between two values, bit for bit; `where` names them."""
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        findings = []
        for key in recomputed | stated:
            findings += compare(
                stated.get(key, ABSENT_VALUE), recomputed.get(key, ABSENT_VALUE), f"{where}.{key}"
            )
        return findings
    if isinstance(stated, (list, tuple)) and isinstance(recomputed, (list, tuple)):
        if len(stated) != len(recomputed):
            return [f"{where}: {counted(len(stated), 'item')} stated, {len(recomputed)} recomputed"]
        findings = []
        for place, (mine, theirs) in enumerate(zip(stated, recomputed, strict=True)):
            findings += compare(mine, theirs, f"{where}[{place}]")
        return findings
    # repr distinguishes 1 from 1.0 and 0.0 from -0.0, and is exact for floats.
    if type(stated) is type(recomputed) and repr(stated) == repr(recomputed):
        return []
    name = where.replace("e_values.", "e-value of ")
    return [f"{name}: {short(stated)} stated, {short(recomputed)} recomputed"]


def short(value: Any) -> str:
    """The value as text of at most 80 characters."""
    if value is ABSENT_VALUE:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
