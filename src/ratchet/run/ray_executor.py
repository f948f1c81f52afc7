"""The Ray executor: runs attempts in actors of a Ray cluster, one at a time in each.

Ray, the same Python version and this package must be installed on the cluster's machines. The
project folder is uploaded, unless the cluster is this machine alone. Importing this module does
not import Ray.
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
from ratchet.run.attempt_relay import AttemptRelay, AttemptRelays
from ratchet.run.worker_pool import KILL_AFTER_S, START_TIMEOUT_S, START_TRIES
from ratchet.types import AgentError, Claim, ConfigError, Outcome, RatchetError, Resource
from ratchet.worker.agent import Agent, AgentSpec, load_agent
from ratchet.worker.attempt import AttemptClock, Recorder, call_alone, cut_off, timed_out
from ratchet.worker.environment import PROVIDER_KEYS, SECRETS, BindingFile, gateway_variables

NOT_UPLOADED = (".git", ".ratchet", ".venv", "venv", "node_modules", "__pycache__")
"""Folders of the project that are not uploaded to the cluster."""

CONNECT_TIMEOUT_S = 10.0
"""Time-out of the first connection to a cluster."""

_read_outcome = msgspec.json.Decoder(Outcome).decode
_read_claim = msgspec.json.Decoder(Claim).decode
_read_resources: msgspec.json.Decoder[dict[str, Resource]] = msgspec.json.Decoder(
    dict[str, Resource]
)


class RayExecutor:
    """Runs attempts in Ray actors: each loads the agent once and runs one attempt at a time.

    A time-out kills the actor. When an actor or its machine dies, its attempt is `crashed`. A new
    actor replaces a lost one.

    Args:
        agent: The agent's location on this machine.
        address: `local` starts a cluster of this machine alone; `auto`, HOST:PORT and ray://…
            connect to a running one.
        slots: Number of actors.
        timeout_s: Seconds that one attempt may take.
        gateway: URL, as seen from the cluster, of the server whose gateway serves the agent's model
            calls; empty for none.
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
        """Idle actors, and None for each that must be started."""
        self._actors: set[Any] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._connected = False

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Connect to the cluster and start the actors; return when the first has loaded the agent.

        Raises:
            AgentError: The agent does not load, or the cluster has no free cores.
            ConfigError: Ray is not installed, or there is no cluster at the address.
        """
        # In a thread: it takes seconds, and would replace our signal handlers.
        await asyncio.to_thread(self._connect)
        self._starting = {asyncio.create_task(self._start_into_idle()) for _ in range(self._slots)}
        try:
            # The others become idle when they are ready.
            ready, _ = await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
            for task in ready:
                task.result()
        except BaseException:
            await self.close()
            raise
        for task in self._starting:
            task.add_done_callback(self._started)

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end, in the next idle actor."""
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
            message = f"The Ray actor running the agent was lost: {_first_line(error)}"
            return cut_off(claim, "crashed", message, clock)
        except BaseException:
            self._end(actor)
            raise
        if outcome.cause == "memory":
            self._end(actor)
        else:
            self._idle.put_nowait(actor)
        return outcome

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: actors hold no outcomes."""

    async def close(self) -> None:
        """End every actor, and disconnect from the cluster."""
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
        # Ray sends usage statistics only where the user enabled them.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise ConfigError(
                "Ray is not installed.", hint="Install it: pip install 'agent-ratchet[ray]'"
            ) from None
        if ray.is_initialized():
            return
        self._check_address()
        init_arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self._address == "local":
            init_arguments |= {"num_cpus": max(1, round(self._slots * self._cpus))}
            init_arguments |= {"include_dashboard": False}
        else:
            excludes = [f"**/{folder}" for folder in NOT_UPLOADED]
            init_arguments["runtime_env"] = {"working_dir": self._agent.root, "excludes": excludes}
        try:
            ray.init(self._address, **{**init_arguments, **self._options})
        except Exception as error:  # Ray raises errors of many types
            raise self._unusable(error) from None
        self._connected = True

    def _check_address(self) -> None:
        """Check that something listens at the address: Ray itself would retry for minutes."""
        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"The Ray cluster {self._address!r} cannot be used: {_first_line(error)}",
            hint="Set its address (--ray, ray_address under [run], or RAY_ADDRESS) to local, "
            "auto, HOST:PORT or ray://HOST:PORT.",
        )

    async def _start_into_idle(self) -> None:
        self._idle.put_nowait(await self._start_actor())

    def _started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._idle.put_nowait(None)  # retried by the attempt that needs it

    async def _start_actor(self) -> Any:
        import ray

        # An uploaded folder is the actor's working folder.
        root = self._agent.root if self._address == "local" else "."
        spec = msgspec.structs.replace(self._agent, root=root)
        remote: Any = ray.remote(RayAgentActor)
        actor_class = remote.options(num_cpus=self._cpus, max_restarts=0, max_concurrency=1)
        reason = ""
        for _ in range(START_TRIES):
            actor = actor_class.remote(msgspec.json.encode(spec), self._timeout_s, self._gateway)
            self._actors.add(actor)
            loading = asyncio.wrap_future(actor.load.remote().future())
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    error = await loading
            except TimeoutError:
                self._kill(actor)
                raise AgentError(
                    f"No Ray actor loaded the agent {self._agent.entry!r} within"
                    f" {START_TIMEOUT_S:g} s: the cluster does not have {self._cpus:g} free "
                    "cores, or the agent loads slowly.",
                    hint="See `ray status`; use fewer cores with --concurrency.",
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
            hint="Install this package and the agent's own on the cluster.",
        )

    def _end(self, actor: Any) -> None:
        """Kill an actor; the next attempt that needs one replaces it."""
        self._kill(actor)
        self._idle.put_nowait(None)

    def _kill(self, actor: Any) -> None:
        import ray

        self._actors.discard(actor)
        try:
            ray.kill(actor, no_restart=True)
        except Exception:  # noqa: S110 - the actor or the cluster is gone already
            pass


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


class RayAgentActor:
    """Actor that loads the agent and runs its attempts; arguments and results are JSON.

    Args:
        spec: An `AgentSpec`.
        timeout_s: Seconds that one attempt may take.
        gateway: URL of the server whose gateway serves model calls; empty for none.
    """

    def __init__(self, spec: bytes, timeout_s: float, gateway: str) -> None:
        self._spec = msgspec.json.decode(spec, type=AgentSpec)
        self._timeout_s = timeout_s
        self._gateway = gateway
        self._agent: Agent | None = None
        self._relay: AttemptRelay | None = None
        """Relay for clients that the agent creates while it is imported."""
        self._loop = asyncio.Runner()
        self._binding_file = BindingFile(_private_folder())

    def load(self) -> str:
        """Load the agent; return an error message, or an empty string."""
        hidden = SECRETS | PROVIDER_KEYS if self._gateway else SECRETS
        for name in hidden:
            os.environ.pop(name, None)
        if self._gateway:
            relays = AttemptRelays(self._gateway)
            relays.start()
            self._relay = relays.of(0)
            os.environ.update(self._relay.variables())
        root = os.path.abspath(self._spec.root)
        try:
            self._agent = load_agent(msgspec.structs.replace(self._spec, root=root))
        except RatchetError as error:
            return str(error)
        carry_context()
        warm_up()
        return ""

    def run(self, claim: bytes, resources: bytes) -> bytes:
        """Run an attempt; return its outcome."""
        assert self._agent is not None
        attempt, bound = _read_claim(claim), _read_resources.decode(resources)
        rollout = attempt.rollout
        self._binding_file.publish(Binding(resources=bound, candidate_id=rollout.candidate_id))
        os.environ[SEED_VARIABLE] = str(rollout.seed)
        if self._gateway:
            os.environ.update(gateway_variables(self._gateway, attempt))
        if self._relay is not None:
            self._relay.lead_to(attempt)
        recorder = Recorder(self._agent, attempt, bound)
        outcome = call_alone(recorder, self._loop, self._timeout_s)
        return msgspec.json.encode(self._binding_file.judge(outcome))


def _private_folder() -> str:
    """A temporary folder private to this user. Not deleted: actors are killed."""
    folder = os.path.join(tempfile.gettempdir(), f"ratchet-ray-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="ratchet-ray-")
