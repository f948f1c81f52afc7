"""`ratchet runner`: run the rollouts of a server's queue on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from ratchet.cli.console import Folder, Interrupted, Json, print_json
from ratchet.cli.failure import err
from ratchet.cli.runner_executor import Joining, Wanted, joining
from ratchet.cli.runner_progress import RunnerProgress
from ratchet.client import KEY_VARIABLE, AsyncClient, Key
from ratchet.run import Kind, PatientLine, Runner, ServerLine
from ratchet.types import AgentError, ConfigError, RatchetError, Span, SpanRecord

HICCUP_S = 2.0
"""How long the server may be busy or away before that is worth a word."""

JOIN_S = 30.0
"""How long the server may be away when the runner wants to join it."""

TELL_AFTER_S = 3.0
"""When that is told."""


def runner(
    server: Annotated[
        str | None, typer.Option(help="Address of the server; by default RATCHET_URL.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="The agent; by default ratchet.toml's."),
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="A program in any language, run for each attempt.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on Ray: local, auto, HOST:PORT or ray://…"),
    ] = None,
    queue: Annotated[str, typer.Option(help="The queue to take rollouts from.")] = "default",
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Attempts at once.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that one attempt may take [120].")
    ] = None,
    path: Annotated[
        list[Path] | None, typer.Option(help="Folder to import --agent from; may be repeated.")
    ] = None,
    executor: Annotated[
        Kind,
        typer.Option(
            help="async: many at once in each worker. process: one at a time. inline: right here."
        ),
    ] = "auto",
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway", help="Lead the agent's model calls through the server's gateway."
        ),
    ] = False,
    key_env: Annotated[
        str, typer.Option(help="Environment variable with the server's key.")
    ] = KEY_VARIABLE,
    lease: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds that a claim outlives this runner.")
    ] = 60.0,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds that attempts may still run when told to end.")
    ] = 20.0,
    max_idle: Annotated[
        float | None, typer.Option(min=0, help="End after so many seconds without work.")
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Run rollouts of a server's queue, until Ctrl-C or SIGTERM.

    When told to end it takes no more, lets what runs end for --drain seconds, gives the rest back
    to the queue, and exits with 0. A second Ctrl-C gives back at once. While the server is away,
    what runs goes on, and is reported when it is back.

    A --command gets its task as JSON on standard input and prints its result on standard output.
    OPENAI_BASE_URL and ANTHROPIC_BASE_URL lead its model calls through the server's gateway.

    Examples:

      ratchet runner --server http://127.0.0.1:8765

      ratchet runner --server https://ratchet.example.com --agent my_agent.main:answer --gateway

      ratchet runner --server http://127.0.0.1:8765 --command "node agent.js" --concurrency 8

      ratchet runner --server http://10.0.0.5:8765 --agent my_agent:answer --ray auto
    """
    key = _take_key(key_env)
    wanted = Wanted(
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
    client = AsyncClient(server, key, patience_s=HICCUP_S)
    work = _Work(client, key, queue, progress, lease_s=lease, drain_s=drain, max_idle_s=max_idle)
    plan: Joining | None = None
    try:
        plan = joining(wanted, client.url, key.secret)
        asyncio.run(work.do(plan))
    except AgentError as error:
        asyncio.run(_tell_server(client.url, key, queue, error))
        raise
    finally:
        if plan is not None:
            plan.clean()
        if json:
            print_json({"server": client.url, "queue": queue, **progress.figures()})
    if work.was_cut:
        raise Interrupted("Ended at once; what ran was given back to the queue.")


class _Work:
    """A runner from joining to leaving."""

    def __init__(
        self,
        client: AsyncClient,
        key: Key,
        queue: str,
        progress: RunnerProgress,
        *,
        lease_s: float,
        drain_s: float,
        max_idle_s: float | None,
    ) -> None:
        self._client = client
        self._key = key
        self._queue = queue
        self._progress = progress
        self._lease_s = lease_s
        self._drain_s = drain_s
        self._max_idle_s = max_idle_s
        self._runner: Runner | None = None
        self._stop = asyncio.Event()
        self.was_cut = False

    async def do(self, plan: Joining) -> None:
        """Join, serve until told to end, and leave."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told)
        say = self._progress.say
        line = PatientLine(ServerLine(self._client), self._progress)
        self._runner = runner = Runner(
            line,
            self._queue,
            plan.executor,
            lease_s=self._lease_s,
            drain_s=self._drain_s,
            watcher=self._progress,
            redactor=plan.redactor,
        )
        async with self._client, runner:
            # Only now: an agent that does not load must not be seen at the server.
            await self._join(runner, plan)
            if not self._stop.is_set():
                await runner.serve(self._stop, max_idle_s=self._max_idle_s)
                if not self._stop.is_set():
                    say(f"Nothing to do for {self._max_idle_s:g} s.")
        say(f"Left: {self._progress.summary('given back')}.")

    async def _join(self, runner: Runner, plan: Joining) -> None:
        """See that the server is there and takes the key.

        Raises:
            StoreError: It cannot be reached.
            ConfigError: It refuses the key.
        """
        async with AsyncClient(self._client.url, self._key, patience_s=JOIN_S) as patient:
            asking = asyncio.create_task(patient.rollouts.counts(self._queue))
            stopped = asyncio.create_task(self._stop.wait())
            either = {asking, stopped}
            first = asyncio.FIRST_COMPLETED
            done, _ = await asyncio.wait(either, timeout=TELL_AFTER_S, return_when=first)
            if not done:
                self._progress.say(f"No answer from {self._client.url} yet; trying on.", "yellow")
                done, _ = await asyncio.wait(either, return_when=first)
            stopped.cancel()
            if asking not in done:
                asking.cancel()
                return
            queued = asking.result().get("queued", 0)
        self._progress.say(
            f"Joined {self._client.url}, queue {self._queue} ({queued} queued): {plan.what},"
            f" {plan.executor.slots} at a time, as {runner.name}."
        )

    def _told(self) -> None:
        """SIGINT or SIGTERM came."""
        if not self._stop.is_set():
            self._stop.set()
            self._progress.say(
                f"Told to end: no more is taken, what runs may end for {self._drain_s:g} s."
                " Once more ends it at once."
            )
        elif not self.was_cut and self._runner is not None:
            self.was_cut = True
            self._runner.cut()


def _take_key(variable: str) -> Key:
    """The server's key; it is taken out of the environment, which is the agent's too.

    Raises:
        ConfigError: The variable was named and holds nothing.
    """
    key = os.environ.pop(variable, "")
    os.environ.pop(KEY_VARIABLE, None)
    if not key and variable != KEY_VARIABLE:
        raise ConfigError(f"The environment variable {variable} holds no key.")
    return Key(key, variable)


async def _tell_server(url: str, key: Key, queue: str, error: RatchetError) -> None:
    """Leave a note of an agent that does not load, where somebody looks for its rollouts."""
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
    with suppress(RatchetError):  # the error itself is told here in any case
        async with AsyncClient(url, key, patience_s=0.0, timeout_s=5.0) as client:
            await client.spans.put([SpanRecord(span=span, agent=queue)])
