"""The Ray executor: attempts run in actors of a Ray cluster, one at a time in each.

Ray, the same Python and this package must be installed on the cluster's machines. The project's
folder is sent there, unless the cluster is this machine alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.bind import SEED_VARIABLE, Binding
from ratchet.observe import carry_context, warm_up
from ratchet.run.agent import Agent, AgentSpec, load_agent
from ratchet.run.attempt import AttemptClock, Recorder, call_alone, cut_off, timed_out
from ratchet.run.environment import PROVIDER_KEYS, SECRETS, BindingFile, gateway_variables
from ratchet.run.worker_pool import KILL_AFTER_S, START_S, START_TRIES
from ratchet.types import AgentError, Claim, ConfigError, Outcome, RatchetError, Resource

LEFT_HERE = (".git", ".ratchet", ".venv", "venv", "node_modules", "__pycache__")
"""Folders of the project that are not sent to the cluster."""

CONNECT_S = 10.0
"""How long a cluster may take to answer the first knock."""

_read_outcome = msgspec.json.Decoder(Outcome).decode
_read_claim = msgspec.json.Decoder(Claim).decode
_read_resources: msgspec.json.Decoder[dict[str, Resource]] = msgspec.json.Decoder(
    dict[str, Resource]
)


class RayExecutor:
    """Runs attempts in Ray actors: each loads the agent once and runs one attempt at a time.

    A time-out kills the actor, and an actor or machine that dies ends one attempt as `crashed`; a
    new actor takes its place.

    Args:
        agent: Where the agent is, on this machine.
        address: `local` starts a cluster of this machine alone; `auto`, HOST:PORT and ray://…
            connect to one that runs.
        slots: How many actors.
        timeout_s: Seconds that one attempt may take.
        gateway: Address of a server whose gateway the agent's model calls are to go through, as
            the cluster's machines reach it; empty for none.
        cpus: Cores that each actor reserves.
        options: Further arguments of `ray.init`.
    """

    def __init__(
        self,
        agent: AgentSpec,
        *,
        address: str,
        slots: int,
        timeout_s: float,
        gateway: str = "",
        cpus: float = 1.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._agent = agent
        self._address = address
        self._slots = slots
        self._timeout_s = timeout_s
        self._gateway = gateway
        self._cpus = cpus
        self._options = dict(options or {})
        self._idle: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        """Actors that are free, and None for each that is to be started."""
        self._actors: set[Any] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._connected = False

    @property
    def slots(self) -> int:
        """How many attempts run at once."""
        return self._slots

    async def start(self) -> None:
        """Connect to the cluster and start the actors; the first tells whether the agent loads.

        Raises:
            AgentError: It does not, or the cluster has no room.
            ConfigError: Ray is not installed, or there is no cluster at the address.
        """
        # In a thread: it takes seconds, and would put its own signal handlers before ours.
        await asyncio.to_thread(self._connect)
        self._starting = {asyncio.create_task(self._start_into_idle()) for _ in range(self._slots)}
        try:
            # The others join when they are ready; work need not wait for them.
            done, _ = await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except BaseException:
            await self.close()
            raise
        for task in self._starting:
            task.add_done_callback(self._started)

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end in the next free actor."""
        import ray

        actor = await self._idle.get()
        try:
            actor = actor or await self._start_actor()
        except BaseException:
            self._idle.put_nowait(None)
            raise
        clock = AttemptClock()
        sent = msgspec.json.encode(claim), msgspec.json.encode(resources)
        running = asyncio.wrap_future(actor.run.remote(*sent).future())
        try:
            async with asyncio.timeout(self._timeout_s + KILL_AFTER_S):
                outcome = _read_outcome(await running)
        except TimeoutError:
            self._end(actor)
            return cut_off(claim, "timed_out", timed_out(self._timeout_s), clock)
        except ray.exceptions.RayError as error:
            self._end(actor)
            said = f"The Ray actor running the agent was lost: {_first_line(error)}"
            return cut_off(claim, "crashed", said, clock)
        except BaseException:
            self._end(actor)
            raise
        if outcome.cause == "memory":
            self._end(actor)
        else:
            self._idle.put_nowait(actor)
        return outcome

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing to do: actors end with their runner and keep nothing."""

    async def close(self) -> None:
        """End every actor, and leave the cluster."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for actor in list(self._actors):
            self._kill(actor)
        if self._connected:
            import ray

            self._connected = False
            await asyncio.to_thread(ray.shutdown)

    def _connect(self) -> None:
        # Unless somebody wants it: no figures of theirs leave the machine on our account.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise ConfigError(
                "Ray is not installed.", hint="Install it: pip install 'agent-ratchet[ray]'"
            ) from None
        if ray.is_initialized():
            return
        self._knock()
        given: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self._address == "local":
            given |= {"num_cpus": max(1, round(self._slots * self._cpus))}
            given |= {"include_dashboard": False}
        else:
            excludes = [f"**/{folder}" for folder in LEFT_HERE]
            given["runtime_env"] = {"working_dir": self._agent.root, "excludes": excludes}
        try:
            ray.init(self._address, **{**given, **self._options})
        except Exception as error:  # Ray raises whatever its parts do
            raise self._unusable(error) from None
        self._connected = True

    def _knock(self) -> None:
        """See that something listens at the address: Ray itself would try for minutes."""
        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"The Ray cluster {self._address!r} cannot be used: {_first_line(error)}",
            hint="Write --ray local, auto, HOST:PORT or ray://HOST:PORT.",
        )

    async def _start_into_idle(self) -> None:
        self._idle.put_nowait(await self._start_actor())

    def _started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._idle.put_nowait(None)  # tried once more by the attempt that needs it

    async def _start_actor(self) -> Any:
        import ray

        # Where the folder was sent, it is the actor's working folder.
        root = self._agent.root if self._address == "local" else "."
        spec = msgspec.structs.replace(self._agent, root=root)
        remote: Any = ray.remote(RayAgentActor)
        made = remote.options(num_cpus=self._cpus, max_restarts=0, max_concurrency=1)
        reason = ""
        for _ in range(START_TRIES):
            actor = made.remote(msgspec.json.encode(spec), self._timeout_s, self._gateway)
            self._actors.add(actor)
            loading = asyncio.wrap_future(actor.load.remote().future())
            try:
                async with asyncio.timeout(START_S):
                    error = await loading
            except TimeoutError:
                self._kill(actor)
                raise AgentError(
                    f"No Ray actor loaded the agent {self._agent.entry!r} within {START_S:g} s:"
                    f" the cluster has no {self._cpus:g} cores free, or the agent is slow.",
                    hint="See `ray status`; ask for fewer with --concurrency.",
                ) from None
            except ray.exceptions.RayError as failure:
                self._kill(actor)
                reason = _first_line(failure)
                continue
            except BaseException:
                self._kill(actor)
                raise
            if error:
                self._kill(actor)
                raise AgentError(error)
            return actor
        raise AgentError(
            f"A Ray actor for the agent {self._agent.entry!r} did not start: {reason}",
            hint="See that this package and the agent's own are installed on the cluster.",
        )

    def _end(self, actor: Any) -> None:
        """Kill an actor; another takes its place when it is needed."""
        self._kill(actor)
        self._idle.put_nowait(None)

    def _kill(self, actor: Any) -> None:
        import ray

        self._actors.discard(actor)
        try:
            ray.kill(actor, no_restart=True)
        except Exception:  # noqa: S110 - it is gone already, or the whole cluster is
            pass


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


class RayAgentActor:
    """Loads the agent and runs its attempts; everything goes in and out as JSON.

    Args:
        spec: The agent, as an AgentSpec.
        timeout_s: Seconds that one attempt may take.
        gateway: Address of the server whose gateway model calls go through; empty for none.
    """

    def __init__(self, spec: bytes, timeout_s: float, gateway: str) -> None:
        self._spec = msgspec.json.decode(spec, type=AgentSpec)
        self._timeout_s = timeout_s
        self._gateway = gateway
        self._agent: Agent | None = None
        self._loop = asyncio.Runner()
        self._scratch = BindingFile(_own_folder())

    def load(self) -> str:
        """Load the agent; returns why it does not load, or nothing."""
        hidden = SECRETS | PROVIDER_KEYS if self._gateway else SECRETS
        for name in hidden:
            os.environ.pop(name, None)
        if self._gateway:
            os.environ.update(gateway_variables(self._gateway, None))
        root = os.path.abspath(self._spec.root)
        try:
            self._agent = load_agent(msgspec.structs.replace(self._spec, root=root))
        except RatchetError as error:
            return str(error)
        carry_context()
        warm_up()
        return ""

    def run(self, claim: bytes, resources: bytes) -> bytes:
        """Run an attempt; returns its outcome."""
        assert self._agent is not None
        given, bound = _read_claim(claim), _read_resources.decode(resources)
        rollout = given.rollout
        self._scratch.publish(Binding(resources=bound, candidate_id=rollout.candidate_id))
        os.environ[SEED_VARIABLE] = str(rollout.seed)
        if self._gateway:
            os.environ.update(gateway_variables(self._gateway, given))
        recorder = Recorder(self._agent, given, bound)
        outcome = call_alone(recorder, self._loop, self._timeout_s)
        return msgspec.json.encode(self._scratch.judge(outcome))


def _own_folder() -> str:
    """A folder of this user's alone. It stays: actors are killed, and cannot tidy up."""
    folder = os.path.join(tempfile.gettempdir(), f"ratchet-ray-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="ratchet-ray-")
