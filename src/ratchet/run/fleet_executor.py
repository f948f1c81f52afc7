"""The fleet executor: rollouts run on a server's runners, and end here.

The id of a rollout at the server is a hash of its id here, so one that has ended there before is
not run again. Runners retry what fails; here a rollout ends at its first outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import msgspec

from ratchet.client import AsyncClient
from ratchet.run.contained import differs
from ratchet.run.fleet_queue import AgentBuild, Place, read_queue
from ratchet.run.retries import CallRetries
from ratchet.store.turns import QUEUE_WILDCARD
from ratchet.store.usage import usage_of
from ratchet.types import (
    AttemptStatus,
    Candidate,
    Claim,
    Code,
    EndedRollout,
    FleetRunner,
    Outcome,
    Resource,
    Rollout,
    Span,
    StoreError,
    content_hash,
)

Say = Callable[[str], None]

ROLLOUTS_PER_REQUEST = 256

GATHER_S = 0.005
"""Longest time that a rollout waits for others to share its request, in seconds."""

LONG_POLL_S = 20.0
"""Seconds for which the server holds open a request that waits for rollouts to end."""

REJOIN_S = 0.05
"""Seconds for which that request stays open once there are more rollouts to wait for."""

NOTICE_S = 5.0
"""Seconds without an ended rollout after which it checks whether any runner can run them."""

GIVE_UP_S = 3600.0
"""Longest outage of the server that is waited out, in seconds."""

RETRY_S = 2.0
"""An outage is reported after this many seconds."""


class _Pending:
    """A rollout that runs elsewhere."""

    def __init__(self, rollout: Rollout, resources: Mapping[str, Resource]) -> None:
        self.rollout = rollout
        self.resources = resources
        self.end: asyncio.Future[EndedRollout] = asyncio.get_running_loop().create_future()


class FleetExecutor:
    """Runs attempts on the runners of a server.

    Args:
        url: The server's address.
        build: The agent that runners must hold.
        source: The source's own code, by resource name; candidates with other code need a sandbox.
        slots: Rollouts at the server at once.
        attempts: Failed attempts after which a rollout ends.
        say: Called with a sentence when the server is away, or nobody runs the rollouts.
        key: The server's key; None for that of RATCHET_KEY.
        baseline: The agent's discovered prompts, which the server's gateway replaces; None for an
            agent that resolves its resources itself.
    """

    def __init__(
        self,
        url: str,
        *,
        build: AgentBuild,
        source: Mapping[str, Code],
        slots: int,
        attempts: int,
        say: Say,
        key: str | None = None,
        baseline: Candidate | None = None,
    ) -> None:
        self._client = AsyncClient(url, key, patience_s=RETRY_S)
        self._build = build
        self._baseline = baseline
        self._source = source
        self._slots = slots
        self._attempts = attempts
        self._say = say
        self._retries = CallRetries(self._away, self._back, give_up_s=GIVE_UP_S)
        self._pending: dict[str, _Pending] = {}
        self._unsent: deque[_Pending] = deque()
        self._awaited: set[str] = set()
        """Ids of pending rollouts that are queued at the server."""
        self._published: set[str] = set()
        """Ids of candidates that are at the server."""
        self._more = asyncio.Event()
        self._joined = asyncio.Event()
        self._ended_at = 0.0
        self._said = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None

    @property
    def slots(self) -> int:
        """Maximum number of rollouts at the server."""
        return self._slots

    async def start(self) -> None:
        """Reach the server and report who runs the rollouts.

        Raises:
            StoreError: It is away for too long.
            ConfigError: It refuses the key.
        """
        runners = await self._retries.call(self._client.fleet.runners)
        absent = self._absent(runners, "plain")
        self._said = absent
        able = sum(_serves(runner, self._build.queue("x", "plain")) for runner in runners)
        self._say(absent or f"Rollouts run at {self._client.url}, by {_count(able, 'runner')}.")
        self._ended_at = time.monotonic()
        loops = (self._send(), self._collect(), self._notice())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Have a rollout run elsewhere, and wait for its end.

        A cancellation leaves it there: its result is found when it is asked for again.

        Raises:
            StoreError: The server is away for too long.
            InputError: The server refuses a rollout.
        """
        if self._failure is not None:
            raise self._failure
        place: Place = "sandbox" if differs(resources, self._source) else "plain"
        mine = claim.rollout
        queue = self._build.queue(mine.queue, place)
        rollout = Rollout(
            # Its own there, since the server's store may be this project's too.
            id=content_hash([mine.id, queue]),
            queue=queue,
            candidate_id=mine.candidate_id,
            task_id=mine.task_id,
            # The expected answer stays here, where the evaluators are.
            input=mine.input,
            metadata=mine.metadata,
            seed=mine.seed,
            purpose=f"fleet/{mine.purpose}",
            max_attempts=self._attempts,
        )
        pending = self._pending[rollout.id] = _Pending(rollout, resources)
        self._unsent.append(pending)
        self._more.set()
        try:
            ended = await pending.end
        finally:
            if self._pending.get(rollout.id) is pending:
                del self._pending[rollout.id]
                self._awaited.discard(rollout.id)
        return _outcome(claim, ended)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: the server holds the rollouts."""

    async def close(self) -> None:
        """Stop waiting, and disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def _send(self) -> None:
        """Queue rollouts at the server, in batches."""
        while True:
            await self._more.wait()
            self._more.clear()
            await asyncio.sleep(GATHER_S)
            while self._unsent:
                unsent = [
                    self._unsent.popleft()
                    for _ in range(min(ROLLOUTS_PER_REQUEST, len(self._unsent)))
                ]
                batch = [pending for pending in unsent if not pending.end.done()]
                await self._retries.call(partial(self._queue_up, batch))
                self._awaited.update(
                    pending.rollout.id for pending in batch if not pending.end.done()
                )
                self._joined.set()

    async def _queue_up(self, batch: Sequence[_Pending]) -> None:
        for pending in batch:
            if pending.rollout.candidate_id:
                resources = dict(pending.resources)
                await self._publish(Candidate(id=pending.rollout.candidate_id, resources=resources))
        await self._client.rollouts.create([pending.rollout for pending in batch])

    async def _publish(self, candidate: Candidate) -> None:
        """Store a candidate at the server, as a child of discovered prompts if there are any.

        The server's gateway looks for the prompts of a candidate's ancestors in the agent's calls.
        """
        baseline = self._baseline
        if baseline is not None and candidate.id != baseline.id:
            await self._publish(baseline)
            candidate = msgspec.structs.replace(candidate, parents=(baseline.id,))
        elif baseline is not None:
            candidate = baseline
        if candidate.id not in self._published:
            await self._client.candidates.put(candidate)
            self._published.add(candidate.id)

    async def _collect(self) -> None:
        """Wait for the ends of all pending rollouts, with one request at a time."""
        while True:
            self._joined.clear()
            ids = list(self._awaited)
            if not ids:
                await self._joined.wait()
                continue
            wait = partial(self._client.fleet.wait, ids, wait_s=LONG_POLL_S)
            waiting = asyncio.create_task(self._retries.call(wait))
            joined = asyncio.create_task(self._joined.wait())
            try:
                await asyncio.wait({waiting, joined}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    await asyncio.wait({waiting}, timeout=REJOIN_S)
            finally:
                joined.cancel()
                if not waiting.done():
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
            if waiting.cancelled():
                continue  # with the further rollouts
            answer = waiting.result()
            for ended in answer.ended:
                self._ended_at = time.monotonic()
                self._said = ""
                self._awaited.discard(ended.rollout.id)
                pending = self._pending.get(ended.rollout.id)
                if pending is not None and not pending.end.done():
                    pending.end.set_result(ended)
            for id in answer.unknown:
                self._send_again(id)

    def _send_again(self, id: str) -> None:
        """Queue a rollout that the server has lost, with its candidate."""
        self._awaited.discard(id)
        pending = self._pending.get(id)
        if pending is not None:
            self._published.clear()
            self._unsent.append(pending)
            self._more.set()

    async def _notice(self) -> None:
        """Report once that no runner at the server runs the pending rollouts."""
        while True:
            await asyncio.sleep(NOTICE_S)
            if not self._awaited or time.monotonic() - self._ended_at < NOTICE_S:
                continue
            with suppress(StoreError):  # an outage is reported by the other requests
                runners = await self._client.fleet.runners()
                waiting = [self._pending[id].rollout for id in self._awaited if id in self._pending]
                queues = {read_queue(rollout.queue) for rollout in waiting}
                sentences = {self._absent(runners, queue.place) for queue in queues if queue}
                text = " ".join(sorted(sentences - {""}))
                if text and text != self._said:
                    self._say(text)
                self._said = text

    def _absent(self, runners: Sequence[FleetRunner], place: Place) -> str:
        """Why no runner runs this agent's rollouts, in sentences; empty if one does."""
        queue = self._build.queue("x", place)
        if any(_serves(runner, queue) for runner in runners):
            return ""
        entry, url = self._build.entry, self._client.url
        places_by_difference: dict[str, set[str]] = {}
        contained = 0
        for runner in runners:
            builds = [q.build for pattern in runner.queues if (q := read_queue(pattern))]
            mine = [build for build in builds if build.entry == entry]
            contained += self._build in mine
            for what in {build.differs(self._build) for build in mine} - {""}:
                places_by_difference.setdefault(what, set()).add(_place_of(runner.name))
        if contained:
            return (
                f"No runner at {url} has a sandbox, which candidates with code need "
                f"({_count(contained, 'runner')} without one): start one on Linux, with "
                "bubblewrap or Landlock."
            )
        start = f"Start one there from this source: ratchet runner --server {url}"
        wanted = self._build
        if not places_by_difference:
            return f"No runner at {url} has {entry}, {wanted}. {start}"
        number = sum(map(len, places_by_difference.values()))
        differences = "; ".join(
            f"{what} on {', '.join(sorted(on))}" for what, on in places_by_difference.items()
        )
        return (
            f"{_count(number, 'runner')} at {url} {'has' if number == 1 else 'have'} another "
            f"version of {entry}: {differences}. Wanted: {wanted}. {start}"
        )

    def _away(self, error: StoreError) -> None:
        minutes = GIVE_UP_S / 60
        self._say(f"{error.message} Trying again for up to {minutes:.0f} minutes; nothing is lost.")

    def _back(self, after_s: float) -> None:
        self._say(f"The server is back, after {after_s:.0f} s.")

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if isinstance(error, StoreError):
            error = StoreError(
                error.message,
                hint="When it is back, run the same command: ended rollouts are not run again.",
            )
        self._failure = error
        for pending in self._pending.values():
            if not pending.end.done():
                pending.end.set_exception(error)


def _serves(runner: FleetRunner, queue: str) -> bool:
    return any(
        queue.startswith(pattern[:-1]) if pattern.endswith(QUEUE_WILDCARD) else pattern == queue
        for pattern in runner.queues
    )


def _place_of(runner: str) -> str:
    """Machine and process of a runner's name, HOST/PID/START."""
    return "/".join(runner.split("/")[:2])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _outcome(claim: Claim, ended: EndedRollout) -> Outcome:
    rollout, now = ended.rollout, time.time()
    return Outcome(
        rollout_id=claim.rollout.id,
        fence=claim.fence,
        status=cast(AttemptStatus, rollout.status),  # a final one
        started_at=rollout.started_at or now,
        ended_at=rollout.ended_at or now,
        duration_s=rollout.duration_s,
        output=rollout.output,
        error=rollout.error,
        cost_usd=unrecorded_usd(rollout, ended.spans),
        spans=ended.spans,
        scores=ended.scores,
    )


def unrecorded_usd(rollout: Rollout, spans: Sequence[Span]) -> float | None:
    """Dollars of a rollout's calls that the spans of its final attempt do not record.

    None when the price of such a call is unknown.
    """
    recorded = usage_of(spans).cost
    cost = rollout.cost
    if rollout.cost_usd is None and cost.unpriced != recorded.unpriced:
        return None
    missing = cost.known_usd - recorded.known_usd
    return missing if missing > 1e-9 else 0.0
