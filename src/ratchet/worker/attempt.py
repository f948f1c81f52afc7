"""Runs one attempt of a rollout: binds the candidate, calls the agent, and makes the outcome."""

from __future__ import annotations

import asyncio
import math
import numbers
import time
import traceback
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.bind import Binding, bind_process, bound
from ratchet.observe import (
    Collector,
    SideEffectBlocked,
    collect_process,
    collecting,
    plain,
    readable,
)
from ratchet.observe.replay import REPLAY, Replay
from ratchet.types import AttemptStatus, Cause, Claim, Outcome, Resource, Score
from ratchet.worker.agent import Agent
from ratchet.worker.results import collected, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_OUTPUT_BYTES = 8 * 1024 * 1024
"""A larger output fails its attempt, to protect evaluators and the store."""

MAX_ERROR_CHARACTERS = 4_000

CAUSES: dict[AttemptStatus, Cause] = {"timed_out": "timeout", "crashed": "crash"}
"""The causes that follow from the status alone."""


class Recorder:
    """Collects what an attempt produces, and makes its outcome."""

    def __init__(self, agent: Agent, claim: Claim, resources: Mapping[str, Resource]) -> None:
        self.agent = agent
        self.claim = claim
        self.resources = resources
        recorded = claim.rollout.metadata.get(REPLAY)
        self.collector = Collector(Replay(recorded) if recorded else None)
        self.started_at = time.time()
        rollout = claim.rollout
        self.binding = Binding(
            resources=dict(resources), candidate_id=rollout.candidate_id, seed=rollout.seed
        )
        self._clock = time.perf_counter()

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Bind the candidate and the collector in the current context."""
        token = collecting.set(self.collector)
        try:
            with bound(self.binding):
                self._clock = time.perf_counter()
                yield
        finally:
            with suppress(ValueError):  # closed in another context, as with bindings
                collecting.reset(token)
            self.collector.over = True

    def succeeded(self, result: Any) -> Outcome:
        """The outcome of a call that returned."""
        duration = time.perf_counter() - self._clock
        if self.collector.blocked:
            return self._outcome("inconclusive", duration, error=blocked(self.collector.blocked))
        output = plain(result)
        size = len(msgspec.json.encode(output))
        if size > MAX_OUTPUT_BYTES:
            error = f"The output has {size} bytes; at most {MAX_OUTPUT_BYTES} are allowed."
            return self._outcome("failed", duration, error=error)
        reward: tuple[Score, ...] = ()
        if self.agent.kind == "rollout" and isinstance(result, numbers.Real):
            if not math.isfinite(result):
                error = f"The agent returned the reward {result}, which is not finite."
                return self._outcome("failed", duration, error=error)
            reward = (Score(evaluator="reward", version="agent", value=float(result)),)
        return self._outcome("succeeded", duration, output=output, scores=reward)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome of a call that raised."""
        duration = time.perf_counter() - self._clock
        if self.collector.blocked or isinstance(error, SideEffectBlocked):
            tool = self.collector.blocked or str(error)
            return self._outcome("inconclusive", duration, error=blocked(tool))
        return self._outcome("failed", duration, error=describe_error(error), cause=cause_of(error))

    def stopped(self, status: AttemptStatus, error: str) -> Outcome:
        """The outcome of a call that was stopped from outside."""
        duration = time.perf_counter() - self._clock
        return self._outcome(status, duration, error=error, cause=CAUSES.get(status, ""))

    def _outcome(
        self,
        status: AttemptStatus,
        duration: float,
        *,
        output: Any = None,
        error: str = "",
        cause: Cause = "",
        scores: tuple[Score, ...] = (),
    ) -> Outcome:
        spans = self.collector.spans
        own = {score.evaluator: score for score in (*self.collector.scores, *scores)}
        return Outcome(
            rollout_id=self.claim.rollout.id,
            fence=self.claim.fence,
            status=status,
            started_at=self.started_at,
            ended_at=time.time(),
            duration_s=duration,
            output=output,
            error=readable(error[:MAX_ERROR_CHARACTERS]),
            cause=cause,
            spans=spans,
            scores=tuple(own.values()),
        )


def call_sync(recorder: Recorder) -> Outcome:
    """Run an attempt of a sync agent in the current thread."""
    with recorder.bound():
        try:
            args, kwargs = recorder.agent.arguments(
                recorder.claim.rollout.input, recorder.resources
            )
            # A streaming agent runs only when it is consumed.
            result = collected(recorder.agent.function(*args, **kwargs))
        except BaseException as error:  # SystemExit, too, ends the rollout and not its runner
            return recorder.raised(error)
    return recorder.succeeded(result)


async def call_async(recorder: Recorder, timeout_s: float) -> Outcome:
    """Run an attempt of an async agent in the current task, for at most `timeout_s` seconds.

    Raises:
        asyncio.CancelledError: The task was cancelled from outside.
    """
    limit: asyncio.Timeout | None = None
    with recorder.bound():
        try:
            args, kwargs = recorder.agent.arguments(
                recorder.claim.rollout.input, recorder.resources
            )
            async with asyncio.timeout(timeout_s) as limit:
                result = await settled(recorder.agent.function(*args, **kwargs))
            late = limit.expired()  # the agent swallowed its cancellation
        except TimeoutError as error:
            if limit is not None and limit.expired():
                return recorder.stopped("timed_out", timed_out(timeout_s))
            return recorder.raised(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return recorder.raised(error)  # the agent cancelled a task of its own
        except BaseException as error:
            if limit is not None and limit.expired():  # raised while it was being cancelled
                return recorder.stopped("timed_out", timed_out(timeout_s))
            return recorder.raised(error)
    if late:
        return recorder.stopped("timed_out", timed_out(timeout_s))
    return recorder.succeeded(result)


def call_alone(recorder: Recorder, loop: asyncio.Runner, timeout_s: float) -> Outcome:
    """Run an attempt in a process that runs no other: threads and child processes inherit it."""
    bind_process(recorder.binding)
    collect_process(recorder.collector)
    try:
        if recorder.agent.is_async:
            return loop.run(call_async(recorder, timeout_s))
        return call_sync(recorder)
    finally:
        bind_process(None)
        collect_process(None)


def timed_out(timeout_s: float) -> str:
    """Error message of a time-out."""
    return f"No answer within {timeout_s:g} s."


def cause_of(error: BaseException) -> Cause:
    """The cause of an exception: `memory` (also in an exception group) or `exception`."""
    if isinstance(error, BaseExceptionGroup):
        return "memory" if error.subgroup(MemoryError) else "exception"
    return "memory" if isinstance(error, MemoryError) else "exception"


def describe_error(error: BaseException) -> str:
    """Describe an exception and where it was raised, in a few lines at most."""
    what = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        what += f" ({last.filename}:{last.lineno} in {last.name})"
    return what


def blocked(tool: str) -> str:
    """The error message for a rollout whose agent called a tool with side effects."""
    return f"The tool {tool!r} has side effects, but no recorded result, so it was not run."


class AttemptClock:
    """Start time and elapsed time of an attempt."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self._clock = time.perf_counter()

    def elapsed_s(self) -> float:
        """Seconds since the attempt began."""
        return time.perf_counter() - self._clock


def cut_off(
    claim: Claim,
    status: AttemptStatus,
    error: str,
    clock: AttemptClock | None = None,
    cause: Cause | None = None,
) -> Outcome:
    """The outcome of an attempt that was ended by an executor, or that never began.

    Args:
        claim: The attempt.
        status: Final status of the attempt.
        error: Message for the user.
        clock: Started with the attempt; None for an attempt that never began.
        cause: Defaults to the cause that the status implies.
    """
    begun = clock or AttemptClock()
    return Outcome(
        rollout_id=claim.rollout.id,
        fence=claim.fence,
        status=status,
        started_at=begun.started_at,
        ended_at=time.time(),
        duration_s=begun.elapsed_s() if clock else None,
        error=readable(error[:MAX_ERROR_CHARACTERS]),
        cause=CAUSES.get(status, "") if cause is None else cause,
    )
