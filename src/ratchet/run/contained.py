"""The contained executor: runs attempts of candidates with their own code in a sandbox.

Evolved code is untrusted. It gets the task's input; the expected answer, the task's metadata and
name, and the evaluators stay outside. Its reply may be forged: another rollout's outcome, invented
scores, a short duration. Only the status, output, error, cause and spans are accepted, within
limits. Durations are measured outside, and scores that the agent gives itself are dropped unless
the project allows them.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

import msgspec

from ratchet.bind import same_behaviour
from ratchet.observe import readable
from ratchet.observe.collector import MAX_SPANS
from ratchet.run.executor import Executor
from ratchet.sandbox.interpreter import Interpreter
from ratchet.source.prompt_files import with_texts
from ratchet.types import (
    AgentError,
    AttemptStatus,
    Claim,
    Code,
    InputError,
    Outcome,
    Resource,
    Score,
    Span,
)
from ratchet.worker.agent import AgentSpec
from ratchet.worker.attempt import (
    MAX_ERROR_CHARACTERS,
    MAX_OUTPUT_BYTES,
    AttemptClock,
    cut_off,
    timed_out,
)
from ratchet.worker.sandboxed_attempt import AttemptRequest, SandboxedAgent

OVERTIME_S = 0.5
"""How long an attempt may take after its time-out to end by itself, before it is killed."""

RESULT_BYTES = 2 * MAX_OUTPUT_BYTES
"""Maximum size of a reply: the output, and the spans beside it."""

PINGS = 5
"""Number of empty requests at the start, which measure the overhead of the sandbox."""

PING_EVERY = 8
"""Number of attempts between later measurements: the overhead depends on the machine's load."""

ReplyStatus = Literal["succeeded", "failed", "timed_out", "inconclusive"]
"""Statuses that a reply may claim; a crash is detected from outside."""

_PREFIX = "The handler cannot be loaded in the sandbox: AgentError: "
_REPLY_STATUSES: frozenset[str] = frozenset(get_args(ReplyStatus))
_TRACE = re.compile(r"[0-9a-f]{32}")
_SPAN = re.compile(r"[0-9a-f]{16}")

_DRY = msgspec.json.encode(
    AttemptRequest(
        rollout_id="",
        fence=0,
        candidate_id="",
        seed=0,
        input=None,
        resources={},
        timeout_s=1.0,
        dry=True,
    )
)

SELF_GRADED = (
    "The agent grades itself in the process that runs the candidate's code, which could thus "
    "give itself any reward, so candidates with code are not evaluated this way. Name an "
    "evaluator under [[evaluators]] and let the agent return its answer; or accept the risk with "
    "unsafe_self_graded = true under [sandbox]."
)
"""Error for a candidate's code in an agent that returns its own reward."""


EVADED = (
    "With a candidate's code this counts as a failure, since the code could evade tasks in "
    "this way."
)


class Containment(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the sandbox for attempts."""

    level: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    unsafe: bool = False
    """Whether attempts may run without a sandbox if none is available."""
    memory_bytes: int = 512 * 1024 * 1024
    read: tuple[Path, ...] = ()
    """Files and folders outside the project that are readable in the sandbox."""
    hide: tuple[Path, ...] = ()
    """Files and folders that are hidden from the sandbox."""
    connect: tuple[tuple[str, int], ...] = ()
    """The only addresses (host, port) that are reachable from the sandbox."""
    environment: dict[str, str] = {}
    """Environment variables of the agent."""
    check_returns: bool = True
    """Whether return values of evolved functions are checked against the source's annotations."""
    python: Interpreter | None = None
    """The agent's interpreter; None for that of this process."""


class ContainedExecutor:
    """Runs each attempt in a sandboxed process, forked from one that has loaded the agent.

    Args:
        agent: The agent's location.
        containment: Settings of the sandbox.
        slots: Attempts at once.
        timeout_s: Seconds that one attempt may take.
        self_graded: Whether the agent returns its own reward, and no evaluator grades it.
        allow_self_graded: Whether that is accepted with a candidate's code.
        import_per_candidate: Whether each attempt imports the agent itself, with its candidate
            bound, instead of being forked from a process that has imported it.
    """

    def __init__(
        self,
        agent: AgentSpec,
        containment: Containment,
        *,
        slots: int,
        timeout_s: float,
        self_graded: bool = False,
        allow_self_graded: bool = False,
        import_per_candidate: bool = False,
    ) -> None:
        self._agent = agent
        self._containment = containment
        self._slots = slots
        self._timeout_s = timeout_s
        self._refuses = self_graded and not allow_self_graded
        self._takes_rewards = allow_self_graded
        self._import_per_candidate = import_per_candidate
        self._free = asyncio.Semaphore(slots)
        self._stack = AsyncExitStack()
        self._warm: Any = None
        self._pings: deque[float] = deque(maxlen=2 * PINGS - 1)
        self._requests = 0

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Load the agent in a sandbox.

        Raises:
            SandboxUnavailable: No sandbox is available on this machine.
            AgentError: The agent does not load in the sandbox.
        """
        if self._refuses:
            return
        # Imported late: most projects have no candidates with code.
        from ratchet.sandbox import SandboxFailed, SandboxLimits, SandboxPool

        settings = self._containment
        spec = self._agent
        setup = SandboxedAgent(
            agent=spec,
            check_returns=settings.check_returns,
            import_per_candidate=self._import_per_candidate,
        )
        root, folders = _folders(spec)
        warm = SandboxPool(
            handler="ratchet.worker.sandboxed_attempt:handle",
            setup=msgspec.json.encode(setup),
            path=[str(folder) for folder in folders],
            root=root,
            read=[
                *settings.read,
                *(folder for folder in folders if not folder.is_relative_to(root)),
            ],
            hide=list(settings.hide),
            limits=SandboxLimits(
                seconds=self._timeout_s + OVERTIME_S,
                memory_bytes=settings.memory_bytes,
                result_bytes=RESULT_BYTES,
            ),
            slots=self._slots,
            level=settings.level,
            unsafe=settings.unsafe,
            environment=settings.environment,
            connect=settings.connect,
            python=settings.python,
        )
        try:
            self._warm = await self._stack.enter_async_context(warm)
        except SandboxFailed as error:
            reason = error.message.partition("\n\n")[0].removeprefix(_PREFIX)
            raise AgentError(
                f"The agent {spec.entry!r} does not load in the sandbox. {reason}\n",
                hint=error.hint
                or "Under [sandbox], list the files that it reads outside its project as "
                "read = […], and the addresses that it calls as connect = […].",
            ) from None
        for _ in range(PINGS):
            await self._ping()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end."""
        if self._refuses:
            return cut_off(claim, "failed", SELF_GRADED)
        rollout = claim.rollout
        try:
            files = with_texts(self._agent.in_files, resources)
        except InputError as error:
            return cut_off(claim, "failed", str(error), cause="exception")
        request = AttemptRequest(
            rollout_id=rollout.id,
            fence=claim.fence,
            candidate_id=rollout.candidate_id,
            seed=rollout.seed,
            input=rollout.input,
            resources=dict(resources),
            timeout_s=self._timeout_s,
            files=files,
        )
        body = msgspec.json.encode(request)
        async with self._free:
            self._requests += 1
            if self._requests % PING_EVERY == 0:
                await self._ping()
            clock = AttemptClock()
            answer = await self._warm.request(body)
            seconds = clock.elapsed_s()
        match answer.status:
            case "ok":
                return self._outcome(claim, answer.body, clock, seconds)
            case "timed_out":
                return cut_off(claim, "timed_out", timed_out(self._timeout_s), clock)
            case "raised":
                return cut_off(claim, "failed", answer.error, clock, "exception")
            case "memory":
                return cut_off(claim, "crashed", _describe_end(answer), clock, "memory")
            case _:
                return cut_off(claim, "crashed", _describe_end(answer), clock)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: sandboxed processes hold no outcomes."""

    async def close(self) -> None:
        """End every process."""
        await self._stack.aclose()
        self._warm = None

    async def _ping(self) -> None:
        """Measure the overhead of the sandbox, which is subtracted from durations."""
        started = time.perf_counter()
        await self._warm.request(_DRY)
        self._pings.append(time.perf_counter() - started)

    def _outcome(self, claim: Claim, body: bytes, clock: AttemptClock, seconds: float) -> Outcome:
        try:
            reply = msgspec.json.decode(body, type=Outcome)
        except (msgspec.DecodeError, RecursionError) as error:
            return cut_off(
                claim, "failed", f"The reply from the sandbox is not an outcome: {error}"
            )
        fault = _fault(reply, claim)
        if fault:
            return cut_off(claim, "failed", f"The reply from the sandbox {fault}", clock)
        if reply.status == "inconclusive":
            # Inconclusive rollouts have no score: code could evade the tasks that it fails.
            return cut_off(claim, "failed", f"{reply.error} {EVADED}", clock)
        spans = tuple(span for span in reply.spans[:MAX_SPANS] if _is_whole(span))
        # At least a thousandth of the measured time: clocks and forks vary.
        duration = max(seconds - median(self._pings), seconds / 1000)
        return Outcome(
            rollout_id=claim.rollout.id,
            fence=claim.fence,
            status=reply.status,
            started_at=clock.started_at,
            ended_at=time.time(),
            duration_s=duration,
            output=reply.output if reply.status == "succeeded" else None,
            error=readable(reply.error[:MAX_ERROR_CHARACTERS]),
            cause="" if reply.status == "succeeded" else reply.cause,
            spans=spans,
            scores=self._rewards(reply.scores) if reply.status == "succeeded" else (),
        )

    def _rewards(self, scores: Sequence[Score]) -> tuple[Score, ...]:
        """The agent's own scores if they are allowed, with the version `agent`."""
        if not self._takes_rewards:
            return ()
        return tuple(
            Score(evaluator=score.evaluator, version="agent", value=float(score.value))
            for score in scores
            if score.value is not None and math.isfinite(score.value)
        )


def _folders(spec: AgentSpec) -> tuple[Path, list[Path]]:
    root = Path(spec.root).resolve()
    return root, [(root / folder).resolve() for folder in spec.path]


def _fault(reply: Outcome, claim: Claim) -> str:
    """Why a reply is rejected, as the end of a sentence; empty if it is accepted."""
    if (reply.rollout_id, reply.fence) != (claim.rollout.id, claim.fence):
        return "is the outcome of another attempt."
    status: AttemptStatus = reply.status
    if status not in _REPLY_STATUSES:
        return f"says that the attempt is {status!r}, which it cannot know."
    size = len(msgspec.json.encode(reply.output))
    if size > MAX_OUTPUT_BYTES:
        return f"holds an output of {size} bytes; at most {MAX_OUTPUT_BYTES} are allowed."
    return ""


def _is_whole(span: Span) -> bool:
    identified = _TRACE.fullmatch(span.trace_id) and _SPAN.fullmatch(span.span_id)
    parent = span.parent_id is None or _SPAN.fullmatch(span.parent_id)
    return bool(identified and parent and 0 <= span.start_ns <= span.end_ns < 2**63)


def _describe_end(answer: Any) -> str:
    """Describe the end of an attempt that sent no reply."""
    what = {
        "memory": "used more memory than allowed",
        "flooded": "printed or returned more than allowed",
        "crashed": "ended without an answer",
        "refused": "was refused",
    }.get(answer.status, f"ended ({answer.status})")
    detail = f" {answer.error}" if answer.error else ""
    tail = answer.output[-1500:].strip() if answer.output else ""
    output_text = f" Its last output:\n{tail}" if tail else ""
    return f"The sandboxed process running the agent {what}.{detail}{output_text}"


class RoutedExecutor:
    """Sends attempts whose candidate has its own code to one executor, and others to another.

    Args:
        usual: Runs attempts with the source's own code.
        contained: Runs attempts with other code. Started with the first of them: most projects,
            and most candidates, never need it.
        source: The source's own code, by resource name.
    """

    def __init__(self, usual: Executor, contained: Executor, source: Mapping[str, Code]) -> None:
        self._usual = usual
        self._contained = contained
        self._source = dict(source)
        self._starting: asyncio.Task[None] | None = None

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._usual.slots

    async def start(self) -> None:
        """Start the usual executor.

        Raises:
            AgentError: The agent does not load where it is to run.
        """
        await self._usual.start()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt in the executor for its candidate.

        Raises:
            SandboxUnavailable: The candidate has code, and no sandbox is available on this machine.
            AgentError: The agent does not load in the sandbox.
        """
        if not differs(resources, self._source):
            return await self._usual.execute(claim, resources)
        if self._starting is None:
            self._starting = asyncio.create_task(self._contained.start())
        await asyncio.shield(self._starting)
        return await self._contained.execute(claim, resources)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Forward to the usual executor."""
        self._usual.stored(outcomes)

    async def close(self) -> None:
        """Close both executors."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
            await self._contained.close()
        await self._usual.close()


def differs(resources: Mapping[str, Resource], source: Mapping[str, Code]) -> bool:
    """Whether any code among these resources behaves differently from the source's.

    A changed docstring alone is no difference: it does not run.
    """
    return any(
        isinstance(resource, Code)
        and (name not in source or not same_behaviour(resource, source[name]))
        for name, resource in resources.items()
    )
