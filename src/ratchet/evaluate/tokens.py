"""Evaluator of the tokens of a rollout's model calls."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ratchet.observe.dialects import names
from ratchet.store.counting import Used
from ratchet.store.usage import usage_of, used_in, why_unmeasured
from ratchet.types import InputError, Span
from ratchet.types.trace import CALLS
from ratchet.worker.evaluator import FunctionEvaluator, Unscored

TokenCount: TypeAlias = Literal["all", "input", "output"]


def tokens(*, of: TokenCount = "all", within: int | None = None) -> FunctionEvaluator:
    """Tokens of the rollout's model calls, each call counted once.

    Args:
        of: Which tokens: those that were read, those that were written, or both.
        within: If set, score 1 if there were at most this many, else 0.

    Raises:
        InputError: `within` is negative.
    """
    if within is not None and within < 0:
        raise InputError(f"within is {within}; it must be 0 or more.")

    def judge(spans: list[Span]) -> float:
        if not spans:
            raise Unscored("The rollout has no spans to read tokens from.")
        for span in spans:
            of_span = used_in(span)
            if of_span is not None and _is_unmeasured(of_span, span):
                why = why_unmeasured(of_span.call, span.attributes)
                raise Unscored(f"The tokens of {span.name!r} are not measured: {why}.")
        summed = usage_of(spans)
        count = {
            "all": summed.input_tokens + summed.output_tokens,
            "input": summed.input_tokens,
            "output": summed.output_tokens,
        }[of]
        return count if within is None else float(count <= within)

    unit = "tokens" if within is None else ""
    return FunctionEvaluator(judge, name="tokens", unit=unit, options={"of": of, "within": within})


def _is_unmeasured(used: Used, span: Span) -> bool:
    attributes = span.attributes
    return used.call.broken_off or (
        attributes.get(names.OPERATION) in CALLS
        and names.INPUT_TOKENS not in attributes
        and names.OUTPUT_TOKENS not in attributes
    )
