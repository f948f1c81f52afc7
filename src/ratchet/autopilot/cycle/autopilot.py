"""The autopilot of an agent: it leads, performs due actions, and steps, repeatedly."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.day_account import DayAccount
from ratchet.autopilot.cycle.leader import Leader
from ratchet.autopilot.cycle.machine import CycleMachine
from ratchet.autopilot.cycle.parts import Parts
from ratchet.autopilot.cycle.performing import Performer
from ratchet.autopilot.cycle.rules import MEASURES
from ratchet.llm import paid_from
from ratchet.store import Store
from ratchet.types import Cycle, RatchetError

STANDBY_S = 5.0
"""Seconds between attempts to lead while another process does."""


class Autopilot:
    """Runs the cycles of one agent until it is stopped.

    Args:
        agent: The agent's name.
        config: The project's configuration.
        store: Its store.
        parts: What measures and acts.
        say: Receives a sentence for each change.
        is_stale: Whether this process has an old version of the project's files.
        clock: Unix seconds.
        rng: Spreads retries.
    """

    def __init__(
        self,
        agent: str,
        config: Config,
        store: Store,
        parts: Parts,
        *,
        say: Callable[[str], None],
        is_stale: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        self.machine = CycleMachine(agent, config, store, parts, clock)
        self.performer = Performer(agent, store, parts, clock, rng or random.Random())  # noqa: S311
        self.leader = Leader(store, agent)
        self.poll_s = config.autopilot.poll_s
        self._day = DayAccount(store, agent, config.autopilot, clock)
        self.say = say
        self._is_stale = is_stale
        self._said = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Lead whenever no other process does, until `stop` is set.

        Returns early when the project's files changed: the caller starts a new process.
        """
        while not stop.is_set() and not self._is_stale():
            with self.leader.leading() as leads:
                if leads:
                    await self._lead(stop)
                else:
                    self._tell("Another process is running the autopilot; this process stands by.")
            if not self._is_stale():
                await _pause(stop, STANDBY_S)

    async def _lead(self, stop: asyncio.Event) -> None:
        self._tell("The autopilot runs.")
        while not stop.is_set() and self.leader.leads and not self._is_stale():
            # Awaited beside `stop` and the lease: learning may take hours.
            tick = asyncio.ensure_future(self.tick())
            await self._until(tick, stop)
            moved = False
            if not tick.cancelled():
                try:
                    moved = tick.result()
                except RatchetError as error:
                    if self.leader.leads:
                        self._tell(str(error))
            if not moved:
                await _pause(stop, self.poll_s)

    async def _until(self, tick: asyncio.Future[bool], stop: asyncio.Event) -> None:
        while not tick.done():
            await asyncio.wait([tick], timeout=1.0)
            if stop.is_set() or not self.leader.leads or self._is_stopped():
                tick.cancel()
                await asyncio.wait([tick])

    def _is_stopped(self) -> bool:
        """Whether a person stopped or paused the running work."""
        store, agent = self.machine.store, self.machine.agent
        cycle = store.cycles.underway(agent)
        if cycle is None or cycle.state != "learn":
            return False
        stopped = any(c.verb == "stop" for c in store.operator_commands.about(cycle.id))
        return stopped or store.operator_commands.pause(agent) is not None

    async def tick(self) -> bool:
        """Perform due actions, and step once; return whether anything moved.

        Raises:
            Conflict: Another process leads.
            RatchetError: Something failed; the next tick tries it again.
        """
        performed = await self.performer.perform_due()
        before = self.machine.store.cycles.underway(self.machine.agent)
        with paid_from(self._day.account()):
            after = await self.machine.step()
        moved = after is not None and (before is None or before.state != after.state)
        if after is not None and moved:
            self._tell(self._move(after))
        elif after is not None and not after.waits.startswith(MEASURES):
            self._tell(f"{_named(after)}: {after.waits or after.message or after.trigger}")
        return moved or performed > 0

    def _move(self, cycle: Cycle) -> str:
        """What the cycle is doing, and the rule that moved it there."""
        moves = self.machine.store.cycles.transitions(cycle.id)
        first = f" {cycle.trigger}" if len(moves) == 1 else ""
        return f"{_named(cycle)}:{first} {moves[-1].rule}"

    def _tell(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self.say(sentence)


def _named(cycle: Cycle) -> str:
    return f"Cycle {cycle.id[:8]}, {cycle.state.replace('_', ' ')}"


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
