"""Mirroring of live model calls: sent again for a candidate, after the client has its response."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

from ratchet.server.gateway.pool import UpstreamPool
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.recording_queue import RecordingQueue
from ratchet.server.gateway.relay import CallRelay, UpstreamFailure, UpstreamRequest
from ratchet.server.gateway.substitution import Shadow
from ratchet.server.http_problems import HttpProblem
from ratchet.types.trace import MIRRORED

MIRROR_OF = "ratchet.mirror_of"
"""Attribute of a mirrored call: trace id of the live call."""

MIRROR_ID = "ratchet.mirror_id"
"""Attribute of both: what pairs them, since a trace may have several calls."""

MAX_NAME = 100

AT_ONCE = 16
"""Most mirrored calls in flight; more are not sent."""

PER_MINUTE = 60
"""Most mirrored calls of one experiment within a minute."""

DOLLARS = 5.0
"""Most dollars for the mirrored calls of one experiment, in one server process."""

MOST_EXPERIMENTS = 1_000

_random = random.Random()  # noqa: S311 - a sample, not secret
_log = logging.getLogger(__name__)


def shadow_name(agent: str) -> str:
    """The agent's name under which its mirrored calls are recorded."""
    return agent[: MAX_NAME - len(MIRRORED)] + MIRRORED


class _Spent:
    """What an experiment's mirrored calls have taken."""

    __slots__ = ("calls", "dollars", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.calls = 0
        self.dollars = 0.0


class CallMirror:
    """Sends calls again in the background, within bounds.

    Args:
        pool: Connections to the upstreams.
        recordings: Where the mirrored calls are recorded.
        clock: Monotonic clock in seconds.
        per_minute: Most calls of one experiment within a minute.
        dollars: Most dollars for the calls of one experiment.
    """

    def __init__(
        self,
        pool: UpstreamPool,
        recordings: RecordingQueue,
        *,
        clock: Callable[[], float] = time.monotonic,
        per_minute: int = PER_MINUTE,
        dollars: float = DOLLARS,
    ) -> None:
        self._pool = pool
        self._recordings = recordings
        self._clock = clock
        self._per_minute = per_minute
        self._dollars = dollars
        self._spent: dict[str, _Spent] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def admits(self, shadow: Shadow) -> bool:
        """Whether the next call is in the share and within the bounds; it is counted."""
        if _random.random() >= shadow.share or len(self._tasks) >= AT_ONCE:
            return False
        experiment_id = shadow.experiment_id
        now = self._clock()
        if experiment_id not in self._spent and len(self._spent) >= MOST_EXPERIMENTS:
            del self._spent[next(iter(self._spent))]
        spent = self._spent.setdefault(experiment_id, _Spent(now))
        if now - spent.since >= 60.0:
            spent.since, spent.calls = now, 0
        if spent.calls >= self._per_minute or spent.dollars >= self._dollars:
            return False
        spent.calls += 1
        return True

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what prepares and sends a call in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def send(
        self, outgoing: UpstreamRequest, recording: CallRecording, experiment_id: str
    ) -> None:
        """Send a call and record it; its failure is part of the recording."""
        task = asyncio.current_task()
        assert task is not None
        relay = CallRelay(self._pool, outgoing, recording)
        try:
            await relay.run(task, _never, _nowhere)
        except UpstreamFailure as failure:
            self._recordings.put(recording, failure.kind, failure.detail)
        except HttpProblem as problem:
            self._recordings.put(recording, "overloaded", problem.detail)
        else:
            self._recordings.put(recording)
        cost = recording.attributes.get("ratchet.cost_usd")
        if isinstance(cost, float) and experiment_id in self._spent:
            self._spent[experiment_id].dollars += cost

    async def close(self) -> None:
        """Cancel what is in flight: nobody waits for it."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("A call could not be mirrored.", exc_info=task.exception())


async def _never() -> NoReturn:
    """The client of a mirrored call never disconnects."""
    await asyncio.Future[None]()
    raise AssertionError


async def _nowhere(_: Mapping[str, Any]) -> None:
    """The response goes to nobody."""
