"""The worker executor: attempts run in worker processes, one at a time in each or many at once.

A worker's capacity is the number of attempts it runs at once. It decides what follows:

=====================  ==============================  ===========================================
what                   capacity 1                      capacity of many
=====================  ==============================  ===========================================
how an attempt runs    the process is its own; a sync  task of the worker's event loop; a sync
                       agent is called in the main     agent is called in a thread of its own
                       thread
late attempt           its worker is killed            cancelled in its worker, which is killed
                       `KILL_AFTER_S` after the        when it is silent `GRACE_S + SILENCE_S`
                       time-out                        after the time-out
cancelled attempt      its worker is killed            cancelled in its worker, which goes on
environment            seed and gateway variables are  never changes: no seed, no gateway; child
                       set for each attempt; child     processes cannot call tools with side
                       processes get its candidate     effects, but run the source's resources
cached resources       of the last candidate           of the last `KNOWN_CANDIDATES` candidates
worker dies, is        the attempt is `crashed` or     all its attempts run again, alone; an
silent or has no       `timed_out`; one that ran out   attempt that ends a worker alone is to
memory left            of memory keeps its outcome     blame, and its task runs alone from then on
=====================  ==============================  ===========================================
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.bind import Binding
from ratchet.client import is_server
from ratchet.run.attempt_relay import AttemptRelays
from ratchet.run.denials import with_denials
from ratchet.run.left_outcomes import OUTBOX
from ratchet.run.worker_pool import WorkerLost, WorkerPool, WorkerSlot
from ratchet.sandbox.containment import AgentContainment
from ratchet.source.prompt_files import with_texts
from ratchet.types import AgentError, Claim, Outcome, RatchetError, Resource
from ratchet.worker.agent import AgentSpec
from ratchet.worker.attempt import cut_off
from ratchet.worker.messages import WorkerSetup

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules


SOURCE_BINDING = Binding(resources={})
"""Serves the agent's own source, and every candidate that equals it."""


class WorkerExecutor:
    """Runs attempts in worker processes: a hang, a crash or a memory hog fails one attempt only.

    Workers outlive a killed parent until they have stored what they were running.

    Args:
        agent: The agent's location; each worker loads it itself.
        store_url: URL of the server to which orphaned workers send their outcomes. With that of a
            store they leave them in the state folder, for `store_left_outcomes`.
        store_key: API key for the server; hidden from the agent.
        gateway: URL of the server whose gateway serves the agent's model calls. Needs a worker per
            slot: the variables that lead there change with each attempt. Clients that were made
            while the agent was imported are led there by a relay.
        model_hosts: Hosts that its model calls go to by themselves; they are led there too.
        state: Folder for logs and scratch files.
        slots: Attempts at once, in all workers together.
        workers: Number of worker processes; `slots` when left out. With as many workers as slots,
            each has a capacity of 1. With fewer, each may run all `slots` attempts: one event loop
            uses one core at most, so a few workers serve many attempts that wait.
        capacity: Attempts at once in one worker, if another number.
        source: The source's own resources, for an import per candidate: each worker then serves one
            candidate, binds it before it imports the agent, and is started when it is needed. A
            worker of another candidate that has nothing to do gives way, the one that was used
            longest ago first. With more workers than slots, candidates that take turns keep
            theirs. None for workers that serve all candidates.
        timeout_s: Seconds that one attempt may take.
        memory_bytes: Private memory that one worker may use.
        keep_open: File descriptor that workers hold open while they live, such as a lock's.
        redaction: Redaction rules of orphaned workers; the built-in rules when left out.
        niceness: How much lower the workers' priority is, as of nice(2).
        containment: What keeps the workers from acting outside; None to let them.
    """

    def __init__(
        self,
        agent: AgentSpec,
        *,
        store_url: str,
        store_key: str = "",
        gateway: str = "",
        model_hosts: Sequence[str] = (),
        state: Path,
        slots: int,
        workers: int | None = None,
        capacity: int | None = None,
        source: Mapping[str, Resource] | None = None,
        timeout_s: float,
        memory_bytes: int,
        keep_open: int | None = None,
        redaction: RedactionRules | None = None,
        niceness: int = 0,
        containment: AgentContainment | None = None,
    ) -> None:
        count = workers or slots
        if source is None:
            count = min(count, slots)
        self._capacity = capacity or (1 if count == slots else slots)
        self._source = source
        self._in_files = agent.in_files
        self._placing = asyncio.Lock()
        self._ended = asyncio.Event()
        self._turns = itertools.count(1)
        if gateway and self._capacity > 1:
            raise ValueError("A gateway needs as many workers as slots.")
        setup = WorkerSetup(
            agent=agent,
            server=store_url if is_server(store_url) else "",
            server_key=store_key,
            gateway=gateway,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            niceness=niceness,
            capacity=self._capacity,
            scratch=str(state / "tmp"),
            outbox=str(state / OUTBOX),
            redaction={} if redaction is None else msgspec.to_builtins(redaction),
        )
        self._relays = AttemptRelays(gateway, model_hosts) if gateway else None
        self._worker_pool = WorkerPool(setup, state / "logs", keep_open, self._relays, containment)
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self._worker_slots = [WorkerSlot(self._worker_pool, number) for number in range(count)]
        self._isolated = WorkerSlot(self._worker_pool, count)
        """For attempts that run alone; the first of them starts its worker."""
        self._isolating = asyncio.Lock()
        self._suspects: set[str] = set()
        """Tasks whose attempts brought down a shared worker; from then on they run alone."""
        self._opening: set[asyncio.Task[Any]] = set()

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Start the workers; return when the first has loaded the agent.

        Raises:
            AgentError: The agent does not load.
        """
        self._worker_pool.prepare()
        if self._relays is not None:
            self._relays.start()
        first, *later_slots = self._worker_slots
        if self._source is not None:
            first.bind(SOURCE_BINDING)
        else:
            for slot in later_slots:
                self._in_background(slot.open())
        try:
            await first.open()
        except BaseException:
            await self.close()
            raise

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end, in the least loaded worker.

        Raises:
            AgentError: No worker is left, and none starts.
            asyncio.CancelledError: The awaiting task was cancelled; the attempt is stopped.
        """
        async with self._free:
            binding: Binding | None = SOURCE_BINDING
            try:
                binding = self._binding(claim, resources)
                return await self._execute(claim, resources, binding)
            except RatchetError as error:
                if isinstance(error, AgentError) and (binding is None or binding is SOURCE_BINDING):
                    raise
                why = f"The agent does not load with this candidate. {error.message}"
                return cut_off(claim, "failed", why, cause="exception")
            finally:
                self._ended.set()

    async def _execute(
        self, claim: Claim, resources: Mapping[str, Resource], binding: Binding | None
    ) -> Outcome:
        if claim.rollout.task_id in self._suspects:
            return await self._run_alone(claim, resources, binding)
        slot = await self._place(binding)
        try:
            return await slot.run(claim, resources)
        except WorkerLost as lost:
            self._in_background(slot.open())
            if lost.shared:
                return await self._run_alone(claim, resources, binding)
            return self._blame(claim, lost)

    def _binding(self, claim: Claim, resources: Mapping[str, Resource]) -> Binding | None:
        """What a worker must have bound when it imported the agent; None for any worker.

        Raises:
            InputError: A file of prompts cannot hold the candidate's text.
        """
        if self._source is None:
            return None
        if all(self._source.get(name) == resource for name, resource in resources.items()):
            return SOURCE_BINDING
        files = with_texts(self._in_files, resources)
        candidate_id = claim.rollout.candidate_id
        return Binding(resources=dict(resources), candidate_id=candidate_id, files=files)

    async def _place(self, binding: Binding | None) -> WorkerSlot:
        """The slot for an attempt, whose `run` must be called at once."""
        if binding is None:
            free = [slot for slot in self._worker_slots if slot.load < self._capacity]
            # A worker that is still starting is the last choice.
            return min(free, key=lambda slot: (not slot.ready, slot.load, slot.number))
        # In the order of their arrival: a candidate that waits for a worker would otherwise wait
        # as long as others have attempts.
        async with self._placing:
            while True:
                self._ended.clear()
                own = [slot for slot in self._worker_slots if slot.serves(binding)]
                room = [slot for slot in own if slot.load < self._capacity]
                idle = [slot for slot in self._worker_slots if not slot.load]
                if room or idle:
                    break
                await self._ended.wait()
            if room:
                slot = min(room, key=lambda slot: (not slot.ready, slot.load, slot.number))
            else:
                slot = min(idle, key=lambda slot: (slot.turn, slot.number))
                slot.bind(binding)
            slot.turn = next(self._turns)
            return slot

    async def _run_alone(
        self, claim: Claim, resources: Mapping[str, Resource], binding: Binding | None
    ) -> Outcome:
        async with self._isolating:
            if binding is not None:
                self._isolated.bind(binding)
            try:
                outcome = await self._isolated.run(claim, resources)
            except WorkerLost as lost:
                return self._blame(claim, lost)
            if outcome.cause == "memory":
                self._suspects.add(claim.rollout.task_id)
            return outcome

    def _blame(self, claim: Claim, lost: WorkerLost) -> Outcome:
        if self._capacity > 1:
            self._suspects.add(claim.rollout.task_id)
        return with_denials(cut_off(claim, lost.status, lost.error, lost.clock), lost.denied)

    def _in_background(self, opening: Coroutine[Any, Any, object]) -> None:
        """Start a worker; if it does not start, an attempt that needs it raises the error."""
        task = asyncio.create_task(opening)
        self._opening.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._opening.discard(task)
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Let the workers forget these outcomes."""
        self._worker_pool.stored(outcomes)

    async def close(self) -> None:
        """End every worker."""
        for task in list(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        slots = (*self._worker_slots, self._isolated)
        await asyncio.gather(*(slot.close() for slot in slots))
        await self._worker_pool.close()
        if self._relays is not None:
            await asyncio.to_thread(self._relays.close)
