"""`ratchet runner`: run the rollouts of a server's queue on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.console import Console

from ratchet.cli.console import Folder, Interrupted, Json, print_json
from ratchet.cli.errors import err
from ratchet.cli.runner_executor import RunnerOptions, RunnerSetup, runner_model, runner_setup
from ratchet.client import KEY_VARIABLE, AsyncClient, ClientKey
from ratchet.run import Kind, RetryingTransport, Runner, RunnerWatcher, ServerTransport
from ratchet.run.fleet_queue import entry_prefix, read_queue
from ratchet.store.turns import QUEUE_WILDCARD
from ratchet.types import (
    AgentError,
    ConfigError,
    Outcome,
    RatchetError,
    RolloutStatus,
    Span,
    SpanRecord,
    StoreError,
)

RETRY_S = 2.0
"""The runner reports an unreachable or busy server after this many seconds."""

JOIN_S = 30.0
"""How long a runner retries when it joins an unreachable server, in seconds."""

NOTICE_AFTER_S = 3.0
"""The runner prints that it is still waiting after this many seconds."""

DEFAULT_QUEUE = "default"

NOTICE_OTHERS_S = 10.0
"""Interval, in seconds, at which the runner looks for rollouts that it must leave to others."""


def runner(
    server: Annotated[
        str | None, typer.Option(help="Address of the server; by default RATCHET_URL.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="The agent; by default the one in ratchet.toml."
        ),
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="A program in any language, run for each attempt.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on Ray: local, auto, HOST:PORT or ray://…"),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            help="Queue to claim rollouts from; NAME/* for all queues that begin with NAME/. "
            "Repeatable: queues take turns. By default: the queue `default`, and those of `ratchet "
            "improve --server` for this agent."
        ),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Concurrent attempts.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Timeout of one attempt in seconds [120].")
    ] = None,
    path: Annotated[
        list[Path] | None, typer.Option(help="Folder to import --agent from. Repeatable.")
    ] = None,
    executor: Annotated[
        Kind,
        typer.Option(
            help="async: many attempts per worker. process: one at a time. inline: in this process."
        ),
    ] = "auto",
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway", help="Route the agent's model calls through the server's gateway."
        ),
    ] = False,
    key_env: Annotated[
        str, typer.Option(help="Environment variable that holds the server's key.")
    ] = KEY_VARIABLE,
    lease: Annotated[
        float,
        typer.Option(
            min=1,
            max=86_400,
            help="Lease in seconds, after which rollouts of a dead runner are retried.",
        ),
    ] = 60.0,
    drain: Annotated[
        float,
        typer.Option(min=0, help="Seconds that running attempts may take to finish on shutdown."),
    ] = 20.0,
    max_idle: Annotated[
        float | None, typer.Option(min=0, help="Exit after this many seconds without work.")
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Run rollouts of a server's queue, until Ctrl-C or SIGTERM.

    On the first signal it stops claiming, lets running attempts finish for --drain seconds, returns
    the rest to the queue, and exits with 0. A second Ctrl-C returns them at once. While the server
    is unreachable, running attempts continue and are reported when it is back.

    A --command gets its task as JSON on standard input and prints its result on standard output.
    OPENAI_BASE_URL and ANTHROPIC_BASE_URL route its model calls through the server's gateway.

    Examples:

      ratchet runner --server http://127.0.0.1:8765

      ratchet runner --server https://ratchet.example.com --agent my_agent.main:answer --gateway

      ratchet runner --server http://127.0.0.1:8765 --command "node agent.js" --concurrency 8

      ratchet runner --server http://10.0.0.5:8765 --agent my_agent:answer --ray auto
    """
    key = _take_key(key_env)
    options = RunnerOptions(
        folder=folder,
        agent=agent,
        path=tuple(path or ()),
        command=command,
        ray=ray,
        executor=executor,
        gateway=gateway,
        concurrency=concurrency,
        timeout_s=timeout,
    )
    progress = RunnerProgress(err)
    client = AsyncClient(server, key, patience_s=RETRY_S)
    session = _RunnerSession(
        client, key, queue or (), progress, lease_s=lease, drain_s=drain, max_idle_s=max_idle
    )
    setup: RunnerSetup | None = None
    try:
        with runner_model(options, progress.say) as model:
            setup = runner_setup(options, client.url, key.secret, model, progress.say)
            asyncio.run(session.do(setup))
    except AgentError as error:
        asyncio.run(_report_load_error(client.url, key, (queue or [DEFAULT_QUEUE])[0], error))
        raise
    finally:
        if setup is not None:
            setup.clean()
        if json:
            print_json({"server": client.url, "queues": session.queues, **progress.figures()})
    if session.was_cut:
        raise Interrupted("Stopped at once; unfinished attempts were returned to the queue.")


class _RunnerSession:
    """A runner, from joining a server to leaving it."""

    def __init__(
        self,
        client: AsyncClient,
        key: ClientKey,
        queues: Sequence[str],
        progress: RunnerProgress,
        *,
        lease_s: float,
        drain_s: float,
        max_idle_s: float | None,
    ) -> None:
        self._client = client
        self._key = key
        self.queues = list(queues)
        """The queues to serve; by default those of the agent."""
        self._progress = progress
        self._lease_s = lease_s
        self._drain_s = drain_s
        self._max_idle_s = max_idle_s
        self._runner: Runner | None = None
        self._stop = asyncio.Event()
        self.was_cut = False

    async def do(self, setup: RunnerSetup) -> None:
        """Join, serve until stopped, and leave."""
        if not self.queues:
            self.queues = [DEFAULT_QUEUE, *setup.queues]
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        say = self._progress.say
        transport = RetryingTransport(ServerTransport(self._client), self._progress)
        self._runner = runner = Runner(
            transport,
            self.queues,
            setup.executor,
            lease_s=self._lease_s,
            drain_s=self._drain_s,
            watcher=self._progress,
            redactor=setup.redactor,
        )
        async with self._client, runner:
            # Join only now: an agent that does not load must not appear at the server.
            await self._join(runner, setup)
            if not self._stop.is_set():
                noticing = asyncio.create_task(self._notice_others(setup))
                try:
                    await runner.serve(self._stop, max_idle_s=self._max_idle_s)
                finally:
                    noticing.cancel()
                if not self._stop.is_set():
                    say(f"No work for {self._max_idle_s:g} s.")
        say(f"Left: {self._progress.summary('returned to the queue')}.")

    async def _join(self, runner: Runner, setup: RunnerSetup) -> None:
        """Check that the server is reachable and accepts the key.

        Raises:
            StoreError: It is unreachable.
            ConfigError: It refuses the key.
        """
        async with AsyncClient(self._client.url, self._key, patience_s=JOIN_S) as patient:
            asking = asyncio.create_task(self._queued(patient))
            stopped = asyncio.create_task(self._stop.wait())
            either = {asking, stopped}
            first = asyncio.FIRST_COMPLETED
            finished, _ = await asyncio.wait(either, timeout=NOTICE_AFTER_S, return_when=first)
            if not finished:
                self._progress.say(f"No answer from {self._client.url} yet; retrying.", "yellow")
                finished, _ = await asyncio.wait(either, return_when=first)
            stopped.cancel()
            if asking not in finished:
                asking.cancel()
                return
            queued = asking.result()
        queues = ", ".join(queue for queue in self.queues if queue not in setup.queues)
        own = " and its agent's own" if set(setup.queues) & set(self.queues) else ""
        self._progress.say(
            f"Joined {self._client.url}, queue {queues}{own} ({queued} queued): {setup.what},"
            f" {setup.executor.slots} at a time, as {runner.name}."
        )
        if own and setup.build is not None:
            self._progress.say(
                f"It has version {setup.build.source[:12]} of the source, with Python"
                f" {setup.build.python}.{setup.no_sandbox}"
            )

    async def _queued(self, client: AsyncClient) -> int:
        """Number of rollouts that are queued for this runner."""
        names = [queue for queue in self.queues if not queue.endswith(QUEUE_WILDCARD)]
        for pattern in set(self.queues) - set(names):
            names += await client.fleet.queues(pattern[:-1])
        counts = [await client.rollouts.counts(name) for name in names]
        return sum(count.get("queued", 0) for count in counts)

    async def _notice_others(self, setup: RunnerSetup) -> None:
        """Print once per reason which of the agent's rollouts this runner leaves to others."""
        reasons: set[str] = set()
        while setup.build is not None:
            with suppress(StoreError):  # an outage is reported by the other requests
                for name in await self._client.fleet.queues(entry_prefix(setup.build.entry)):
                    queue = read_queue(name)
                    why = "" if queue is None else setup.refusal(queue)
                    if why and why not in reasons:
                        reasons.add(why)
                        self._progress.say(why, "yellow")
            await asyncio.sleep(NOTICE_OTHERS_S)

    def _on_signal(self) -> None:
        """Handle SIGINT or SIGTERM."""
        if not self._stop.is_set():
            self._stop.set()
            self._progress.say(
                f"Stopping: no more claims; running attempts have {self._drain_s:g} s to finish."
                " A second signal stops at once."
            )
        elif not self.was_cut and self._runner is not None:
            self.was_cut = True
            self._runner.cut()


def _take_key(variable: str) -> ClientKey:
    """Read the server's key and remove it from the environment, which the agent inherits.

    Raises:
        ConfigError: The named variable is empty.
    """
    key = os.environ.pop(variable, "")
    os.environ.pop(KEY_VARIABLE, None)
    if not key and variable != KEY_VARIABLE:
        raise ConfigError(f"The environment variable {variable} has no key.")
    return ClientKey(key, variable)


async def _report_load_error(url: str, key: ClientKey, queue: str, error: RatchetError) -> None:
    """Record a failed load of the agent where people look for its rollouts."""
    now = time.time_ns()
    span = Span(
        trace_id=uuid4().hex,
        span_id=uuid4().hex[:16],
        name="ratchet runner",
        start_ns=now,
        end_ns=now,
        status="error",
        message=str(error)[:4_000],
    )
    with suppress(RatchetError):  # the error itself is printed here in any case
        async with AsyncClient(url, key, patience_s=0.0, timeout_s=5.0) as client:
            await client.spans.put([SpanRecord(span=span, agent=queue)])


PRINT_EVERY_S = 10.0
"""Interval of printed counts, in seconds, when they have changed."""


class RunnerProgress(RunnerWatcher):
    """Prints counts periodically, and notable events at once.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._printed_at = self._begun
        self._printed = ""
        self._claimed = 0
        self._lost = 0
        self._ended: Counter[str] = Counter()
        self._first_failure = True

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence."""
        # Whole lines: logs are read line by line.
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def claimed(self, number: int) -> None:
        """Count claims."""
        self._claimed += number
        self._now_and_then()

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        """Count the outcome; print the first failure at once."""
        self._ended["refused" if status is None else outcome.status] += 1
        if self._first_failure and outcome.status in ("failed", "crashed", "timed_out"):
            self._first_failure = False
            error = " ".join(outcome.error.split())[:500]
            self.say(f"Rollout {outcome.rollout_id} {outcome.status}: {error}", "yellow")
        self._now_and_then()

    def lost(self, number: int) -> None:
        """Print a notice of lost leases."""
        self._lost += number
        self.say(f"{number} stopped: cancelled, or claimed by another runner.", "yellow")

    def away(self, error: StoreError) -> None:
        """Print that the server is unreachable."""
        self.say(
            f"{error.message} Running attempts continue and are reported later; retrying.",
            "yellow",
        )

    def back(self, after_s: float) -> None:
        """Print that the server is back."""
        self.say(f"The server is back, after {after_s:.0f} s.")

    def figures(self) -> dict[str, Any]:
        """Counts since the start."""
        ended = sum(self._ended.values())
        return {
            "claimed": self._claimed,
            "succeeded": self._ended["succeeded"],
            "failed": self._ended["failed"],
            "timed_out": self._ended["timed_out"],
            "crashed": self._ended["crashed"],
            "inconclusive": self._ended["inconclusive"],
            "refused": self._ended["refused"],
            "lost": self._lost,
            "unfinished": max(0, self._claimed - ended - self._lost),
            "seconds": round(time.monotonic() - self._begun, 3),
        }

    def summary(self, unfinished: str) -> str:
        """The counts as text.

        Args:
            unfinished: Label of attempts that were claimed and have not ended.
        """
        figures = self.figures()
        parts = [f"{figures['claimed']} claimed", f"{figures['succeeded']} succeeded"]
        outcomes = ("failed", "timed_out", "crashed", "inconclusive", "refused", "lost")
        parts += [f"{figures[name]} {name.replace('_', ' ')}" for name in outcomes if figures[name]]
        if figures["unfinished"]:
            parts.append(f"{figures['unfinished']} {unfinished}")
        return ", ".join(parts)

    def _now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._printed_at < PRINT_EVERY_S:
            return
        summary = self.summary("running")
        if summary != self._printed:
            self._printed_at, self._printed = now, summary
            self.say(f"  {summary}", "dim")
