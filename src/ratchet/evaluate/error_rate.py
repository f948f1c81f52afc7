"""Evaluator of the share of a rollout's steps that failed."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ratchet.observe.dialects import names
from ratchet.types import InputError, Span
from ratchet.types.trace import CALLS
from ratchet.types.wording import counted
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, Unscored

StepKind: TypeAlias = Literal["all", "tools", "calls"]


def error_rate(*, of: StepKind = "all", within: float | None = None) -> FunctionEvaluator:
    """Share of the rollout's steps that failed, from 0 to 1.

    Args:
        of: Which steps: all below the agent's own span, tool calls, or model calls.
        within: If set, score 1 if the share is at most this, else 0.

    Raises:
        InputError: `within` is not from 0 to 1.
    """
    if within is not None and not 0 <= within <= 1:
        raise InputError(f"within = {within} is not a share from 0 to 1.")

    def judge(spans: list[Span]) -> Judgement:
        if not spans:
            raise Unscored("The rollout has no spans to read errors from.")
        steps = [span for span in spans if _is_step(span, of)]
        failed = [span for span in steps if span.status == "error"]
        share = len(failed) / len(steps) if steps else 0.0
        note = f"{len(failed)} of {counted(len(steps), 'step')} failed"
        if failed:
            note += f", first {failed[0].name}: {failed[0].message}"
        return Judgement(share if within is None else float(share <= within), note)

    unit = "share" if within is None else ""
    return FunctionEvaluator(
        judge, name="error_rate", unit=unit, options={"of": of, "within": within}
    )


def _is_step(span: Span, of: StepKind) -> bool:
    operation = span.attributes.get(names.OPERATION)
    if of == "tools":
        return operation == "execute_tool"
    if of == "calls":
        return operation in CALLS
    return span.parent_id is not None or operation not in (None, "invoke_agent")
