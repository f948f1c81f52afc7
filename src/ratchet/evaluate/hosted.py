"""The user's own evaluators that run in the agent's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ratchet.run.agent_host import AgentHost
from ratchet.types import Rollout, Score
from ratchet.worker.evaluator import (
    FunctionEvaluator,
    ImpossibleScore,
    SpansOf,
    UnfitTask,
    Unscored,
)
from ratchet.worker.host_messages import (
    DescribeEvaluator,
    EvaluatorDescription,
    Judged,
    JudgeRollout,
    NotJudged,
)

GRACE_S = 10.0
"""Seconds that a verdict may take beyond the evaluator's own time limit."""


class HostedEvaluator(FunctionEvaluator):
    """An evaluator that a host creates and calls.

    Args:
        host: The process in the agent's interpreter.
        use: MODULE:FUNCTION.
        options: Keyword arguments of a function that returns an evaluator.

    Raises:
        ConfigError: It does not exist, or its options are invalid.
        AgentError: The process ended or does not answer.
    """

    def __init__(self, host: AgentHost, use: str, options: Mapping[str, Any]) -> None:
        self._host = host
        self._use = use
        self._options = dict(options)
        description = host.ask(DescribeEvaluator(use, self._options), EvaluatorDescription)
        super().__init__(
            lambda: None,
            name=description.name,
            unit=description.unit,
            timeout_s=description.timeout_s,
            basis=description.basis,
        )
        self.version = description.version
        self.on_error = description.on_error
        self.asks_for = description.asks_for
        self.needs_expected = description.needs_expected

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Always raises: the evaluator runs in the agent's interpreter."""
        raise TypeError(f"The evaluator {self.name!r} runs in the agent's interpreter.")

    async def verdict(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The score of a rollout; see `FunctionEvaluator.verdict`."""
        if self.needs_expected and rollout.expected is None:
            raise UnfitTask("has no expected answer", rollout.task_id)
        spans = spans_of(rollout.id) if "spans" in self.asks_for else []
        reply = await self._host.ask_async(
            JudgeRollout(self._use, self._options, rollout, spans), self.timeout_s + GRACE_S
        )
        if isinstance(reply, Judged):
            return replace(reply.score, evaluator=self.name, version=self.version)
        assert isinstance(reply, NotJudged)
        raise _exception(reply)


def _exception(reply: NotJudged) -> Exception:
    """An exception described and counted as the user code's own."""
    if reply.kind == ImpossibleScore.__name__:
        return ImpossibleScore(reply.said)
    if reply.kind in (Unscored.__name__, UnfitTask.__name__):
        return Unscored(reply.said)
    if reply.outage:
        return Unscored(f"{reply.kind}: {reply.said}" if reply.said else reply.kind)
    error: Exception = type(reply.kind, (Exception,), {})(reply.said)
    return error
