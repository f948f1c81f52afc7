"""The served executor: starts a service, and sends it each attempt.

Each instance of the service runs one attempt at a time, so that its model calls need no header to
tell whose they are. An instance has a port of its own where the program listens on the one that it
is given; else there is one instance, at the port of the URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from ratchet.run.attempt_relay import AttemptRelay, AttemptRelays
from ratchet.run.command import check_program
from ratchet.run.denials import with_denials
from ratchet.run.handover import Handover
from ratchet.run.reachable import hosts_of
from ratchet.run.served_process import ServedProcess, listens
from ratchet.run.service import ServiceClient, ServiceFailure, service_outcome
from ratchet.sandbox.containment import AgentContainment
from ratchet.types import AgentError, AttemptStatus, Claim, Outcome, Resource
from ratchet.worker.attempt import AttemptClock, cut_off, timed_out
from ratchet.worker.environment import PROVIDER_KEYS, STORE_SECRETS, without
from ratchet.worker.placeholders import filled_text

PORTS = range(20_000, 32_768)
"""Ports for instances: the system never assigns these to a connection."""


class ServedExecutor:
    """Starts instances of a service as they are needed, and sends each one attempt after another.

    An instance is started anew after a crash, a time-out or a cancelled attempt; with `restart`,
    after each attempt.

    Args:
        command: Program and arguments that start it; they may have the placeholder {port}.
        url: Where tasks are POSTed; each instance's port replaces the port in it.
        handover: What is sent, and where in the response the result is.
        folder: Working folder of the command.
        state: Folder for logs.
        slots: Maximum number of instances.
        timeout_s: Seconds that one attempt may take.
        server: URL of the server whose gateway serves model calls.
        variables: Further variables of the command; they take precedence over the gateway's.
        base_urls: Further variables for the gateway's base URL, besides the providers' own.
        keys: Further variables for the gateway's API key.
        model_hosts: Hosts that model calls of Python and Node go to by themselves; they are led to
            the gateway.
        say: Called with a sentence when fewer instances run than asked for.
        environ: Environment to start from; that of this process when left out.
        containment: What keeps the service from acting outside; None to let it.
        restart: Whether no instance gets a second attempt.
    """

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        *,
        handover: Handover,
        folder: Path,
        state: Path,
        slots: int,
        timeout_s: float,
        server: str,
        variables: Mapping[str, str] = MappingProxyType({}),
        base_urls: Sequence[str] = (),
        keys: Sequence[str] = (),
        model_hosts: Sequence[str] = (),
        say: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
        containment: AgentContainment | None = None,
        restart: bool = False,
    ) -> None:
        self._containment = containment
        self._restart = restart
        self._command = tuple(command)
        self._url = urlsplit(url)
        self._folder = folder
        self._logs = state / "logs"
        self._slots = slots
        self._timeout_s = timeout_s
        self._variables = dict(variables)
        self._base_urls, self._keys = tuple(base_urls), tuple(keys)
        self._say = say or (lambda _: None)
        base = os.environ if environ is None else environ
        self._environ = without(base, STORE_SECRETS, PROVIDER_KEYS)
        self._server = server
        self._client = ServiceClient(handover, server)
        self._relays = AttemptRelays(server, model_hosts)
        self._numbers = itertools.count()
        self._own_ports: bool | None = None
        """Whether it listens on the assigned port; None before the first start."""
        self._idle: list[_Instance] = []
        self._all: set[_Instance] = set()
        self._changed = asyncio.Condition()
        self._starting = 0

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Get ready to start instances; the first one starts with the first attempt.

        Raises:
            AgentError: There is no such program.
        """
        check_program(self._command, self._folder, self._environ)
        await asyncio.to_thread(os.makedirs, self._logs, exist_ok=True)
        await asyncio.to_thread(self._relays.start)
        self._client.open()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Send an attempt to an instance that runs none, to its end or its time-out.

        Raises:
            AgentError: No instance is left, and none starts.
            asyncio.CancelledError: The awaiting task was cancelled; the instance is ended.
        """
        instance = await self._take(claim)
        clock = AttemptClock()
        status: AttemptStatus = "failed"
        output: object = None
        error = ""
        usable = False
        instance.begin(claim)
        try:
            async with asyncio.timeout(self._timeout_s):
                output = await self._client.answer(instance.url, claim, resources)
            status, usable = "succeeded", True
        except TimeoutError:
            status, error = "timed_out", timed_out(self._timeout_s) + instance.process.tail()
        except ServiceFailure as failure:
            usable = not failure.broke_off or not await instance.process.ends()
            error = str(failure)
            if not usable:
                status, error = "crashed", f"{instance.process.ending()}."
            error += instance.process.tail()
        finally:
            instance.relay.lead_to(None)
            denied = instance.process.denied()
            await asyncio.shield(self._give_back(instance, usable))
        outcome = service_outcome(
            cut_off(claim, status, error, clock), claim, output, self._url.geturl()
        )
        return with_denials(outcome, denied)

    async def _take(self, claim: Claim) -> _Instance:
        """An instance that runs no attempt, started now if necessary."""
        while True:
            async with self._changed:
                while not self._idle and not self._may_start():
                    await self._changed.wait()
                if self._idle:
                    instance = self._idle.pop()
                    if not instance.process.over():
                        return instance
                    await self._end(instance)  # between two attempts, which is nobody's fault
                self._starting += 1
            try:
                return await self._started(next(self._numbers), claim)
            except AgentError as error:
                if not self._all:
                    raise
                # Perhaps it holds a file or a port that there is only one of.
                self._slots = len(self._all)
                self._say(
                    f"Rollouts run {self._slots} at a time: another instance of the service does "
                    f"not start while these run. {error.message}"
                )
            finally:
                async with self._changed:
                    self._starting -= 1
                    self._changed.notify_all()

    def _may_start(self) -> bool:
        """Whether another instance may start; the first starts alone, to show which ports it
        uses."""
        if not self._all:
            return not self._starting
        return len(self._all) + self._starting < self._slots

    async def _give_back(self, instance: _Instance, usable: bool) -> None:
        async with self._changed:
            if usable and not self._restart and not instance.process.over():
                self._idle.append(instance)
            else:
                await self._end(instance)
            self._changed.notify_all()

    async def _end(self, instance: _Instance) -> None:
        self._all.discard(instance)
        await asyncio.to_thread(instance.process.kill)
        await instance.process.release()

    async def _started(self, number: int, claim: Claim) -> _Instance:
        """Start an instance; until it listens, its model calls belong to the attempt.

        Raises:
            AgentError: It does not.
        """
        host = self._url.hostname or "127.0.0.1"
        fixed = self._url.port or 80
        port = fixed if self._own_ports is False else _free_port()
        relay = self._relays.of(number)
        relayed = relay.variables(self._base_urls, self._keys)
        process = ServedProcess(
            [filled_text(word, port, "[agent] serve") for word in self._command],
            folder=self._folder,
            environ={
                **self._environ,
                **relayed,
                **relay.hook_variables(self._environ),
                "PORT": str(port),
                **self._variables,
            },
            log=self._logs / f"service-{number}.log",
            containment=self._containment,
            hosts=hosts_of([self._server, *relayed.values(), *self._variables.values()]),
            attempt_s=self._timeout_s,
        )
        fixed_in_use = port != fixed and await listens(host, fixed)
        if port == fixed:
            await self._freed(host, fixed)
        relay.lead_to(claim)
        process.start()
        # In a network of its own it may listen on any port, beside other instances.
        alone = process.own_network
        ports = [port] if (fixed_in_use or self._own_ports) and not alone else [port, fixed]
        try:
            bound_port = await process.listening(host, ports)
        except BaseException as error:
            relay.lead_to(None)
            await asyncio.to_thread(process.kill)
            await process.release()
            if fixed_in_use and not alone and isinstance(error, AgentError):
                raise AgentError(
                    f"{error.message} Another program is already listening on port {fixed}.",
                    hint=f"Stop the program on port {fixed}; or let the service listen on the "
                    f"port in the variable PORT, or on {{port}} in serve.",
                ) from None
            raise
        if self._own_ports is None and not alone:
            self._own_ports = bound_port != fixed
            if not self._own_ports and self._slots > 1:
                self._slots = 1
                self._say(
                    f"Rollouts run one at a time: the service always listens on port {fixed}, not "
                    "on the port in its variable PORT."
                )
        host, bound_port = await process.place(host, bound_port)
        place = f"[{host}]" if ":" in host else host
        url = self._url._replace(netloc=f"{place}:{bound_port}").geturl()
        instance = _Instance(process, relay, url)
        self._all.add(instance)
        return instance

    async def _freed(self, host: str, port: int) -> None:
        """Wait until the port is free again after the end of an instance.

        Raises:
            AgentError: It stays taken.
        """
        for _ in range(100):
            if not await listens(host, port):
                return
            await asyncio.sleep(0.05)
        raise AgentError(f"The service cannot be started: port {port} is taken.")

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: the service holds no outcomes."""

    async def close(self) -> None:
        """End the service and everything that it started."""
        for instance in list(self._all):
            await self._end(instance)
        self._idle.clear()
        await self._client.close()
        await asyncio.to_thread(self._relays.close)


class _Instance:
    """A running instance."""

    def __init__(self, process: ServedProcess, relay: AttemptRelay, url: str) -> None:
        self.process = process
        self.relay = relay
        self.url = url

    def begin(self, claim: Claim) -> None:
        """Assign its model calls and its log to an attempt."""
        self.process.mark_log()
        self.relay.lead_to(claim)


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AgentError(f"No port from {PORTS[0]} to {PORTS[-1]} is free for the service.")
