"""Carries out the actions of cycles: in order, again after a failure, and never twice in effect."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from ratchet.autopilot.cycle.parts import Parts
from ratchet.store import Store
from ratchet.types import ActionKind, Cycle, CycleAction, CycleState, LeaseLost, RatchetError

MIN_RETRY_WAIT_S, MAX_RETRY_WAIT_S = 5.0, 3600.0

TOLD_AFTER = 3
"""Failed tries after which a person is notified, once."""

NOTIFY_TRIES = 12
"""Tries after which a notification is given up: hours later, it is no longer news."""

WANTED_IN: dict[ActionKind, frozenset[CycleState]] = {
    "propose": frozenset({"pull_request", "held"}),
    "activate": frozenset({"activate"}),
}
"""States in which a release is still wanted; elsewhere, an unfinished one is given up."""


class Performer:
    """Carries out the actions that are due.

    Args:
        agent: The agent's name.
        store: The store.
        parts: What acts.
        clock: Unix seconds.
        rng: Spreads retries.
    """

    def __init__(
        self,
        agent: str,
        store: Store,
        parts: Parts,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.agent = agent
        self.store = store
        self.parts = parts
        self.clock = clock
        self.rng = rng

    async def perform_due(self) -> int:
        """Carry out the actions that are due, and return how many ended.

        A cycle's actions are carried out in order: one that has to be tried again holds up those
        after it. Notifications wait for nothing, and hold up nothing.
        """
        ended, blocked = 0, set[str]()
        for action in self.store.outbox.unfinished(self.agent):
            is_message = action.kind == "notify"
            if action.cycle_id in blocked and not is_message:
                continue
            if action.next_at > self.clock() or not await self._perform(action):
                if not is_message:
                    blocked.add(action.cycle_id)
            else:
                ended += 1
        return ended

    async def _perform(self, action: CycleAction) -> bool:
        """Try one action; return whether it ended."""
        cycle = self.store.cycles.get(action.cycle_id)
        assert cycle is not None
        wanted_in = WANTED_IN.get(action.kind)
        if wanted_in is not None and cycle.state not in wanted_in:
            self._put(action, state="failed", error="The cycle went on without it.")
            return True
        if action.kind == "notify" and action.state == "started":
            # The process ended while it was sent: it may have arrived, and is not sent twice.
            self._put(action, state="done", result={"sent": "unknown"})
            return True
        if action.kind == "propose" and self.store.operator_commands.pause(self.agent):
            return False
        action = self._put(action, state="started", tries=action.tries + 1)
        try:
            result = await self.parts.perform(action, cycle)
        except LeaseLost:
            raise
        except RatchetError as error:
            return self._again(action, cycle, str(error), getattr(error, "retry_at", None))
        self._put(action, state="done", error="", result=result)
        return True

    def _again(self, action: CycleAction, cycle: Cycle, why: str, at: float | None) -> bool:
        if action.kind == "notify" and action.tries >= NOTIFY_TRIES:
            self._put(action, state="failed", error=why)
            return True
        wait_s = min(MAX_RETRY_WAIT_S, MIN_RETRY_WAIT_S * 2.0 ** min(action.tries - 1, 20))
        next_at = self.clock() + wait_s * self.rng.uniform(0.5, 1.0) if at is None else at
        notifications: list[CycleAction] = []
        if action.kind != "notify" and action.tries >= TOLD_AFTER:
            text = f"{_NAMES[action.kind]} keeps failing and will be tried again: {why}"
            body = {"event": "failing", "text": text}
            key = f"{action.key}/told"
            notifications.append(CycleAction(key=key, cycle_id=cycle.id, kind="notify", body=body))
        self._put(action, also=notifications, state="pending", error=why, next_at=next_at)
        return False

    def _put(
        self, action: CycleAction, also: Sequence[CycleAction] = (), **changes: object
    ) -> CycleAction:
        after = msgspec.structs.replace(action, **changes)
        self.store.outbox.put(after, also)
        return after


_NAMES: dict[ActionKind, str] = {
    "split": "Setting the canary's share",
    "propose": "Opening the pull request",
    "close_request": "Closing the pull request",
    "activate": "The release at run time",
    "deactivate": "The rollback at run time",
    "revert": "Opening the request that reverts the release",
    "notify": "A notification",
}
