"""Which executor `ratchet runner` runs rollouts with, as its options and `ratchet.toml` say."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from ratchet._private_files import make_folder
from ratchet.autopilot import Project
from ratchet.autopilot.config import AgentSection, Config, RunSection, read_config
from ratchet.autopilot.containing import with_sandbox
from ratchet.observe.place import FILE_NAME, folder_with_config, prepare_state
from ratchet.observe.redaction import Redactor, Rules, redactor_of
from ratchet.run import Agent, AgentSpec, Executor, Kind, executor_for, load_agent
from ratchet.types import AgentError, ConfigError


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    folder: Path
    agent: str | None = None
    path: tuple[Path, ...] = ()
    command: str | None = None
    ray: str | None = None
    executor: Kind = "auto"
    gateway: bool = False
    concurrency: int | None = None
    timeout_s: float | None = None


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner joins a server with."""

    executor: Executor
    what: str
    """The agent or command, for people."""
    state: Path
    """Folder of this runner's own files."""
    redactor: Redactor
    """Takes secrets out of spans before they leave this machine."""

    def clean(self) -> None:
        """Delete this runner's scratch files; its logs stay until the next one starts."""
        shutil.rmtree(self.state / "tmp", ignore_errors=True)
        for folder in (self.state / "logs", self.state):
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def joining(wanted: Wanted, url: str, key: str) -> Joining:
    """The executor, not started yet.

    Args:
        wanted: What the command line asks for.
        url: The server's address.
        key: Its key, for workers that outlive this process; empty for none.

    Raises:
        ConfigError: The options contradict one another, there is no agent, or [redaction] says
            something that cannot be done.
        AgentError: The agent does not import.
    """
    _check(wanted)
    root = folder_with_config(wanted.folder)
    config = None
    if root is not None:
        config = read_config(root / FILE_NAME)
    elif wanted.agent is None and wanted.command is None:
        raise ConfigError(
            f"There is no agent to run: no {FILE_NAME} is in {wanted.folder.resolve()} or above.",
            hint='Say --agent module:function or --command "node agent.js".',
        )
    place = root or wanted.folder.resolve()
    state = _own_state(prepare_state(place))
    run = config.run if config is not None else RunSection()
    rules = Rules(**config.redaction.model_dump()) if config is not None else Rules()
    redactor = redactor_of(rules, os.environ)
    timeout_s = wanted.timeout_s or run.timeout_s
    cores = wanted.concurrency or run.concurrency or os.cpu_count() or 1
    if wanted.command is not None:
        from ratchet.run.command import CommandExecutor, parse_command

        commands = CommandExecutor(
            parse_command(wanted.command),
            folder=wanted.folder.resolve(),
            state=state,
            slots=cores,
            timeout_s=timeout_s,
            server=url,
        )
        return Joining(executor=commands, what=wanted.command, state=state, redactor=redactor)
    if wanted.agent is not None:
        folders = tuple(str(folder) for folder in wanted.path) or (".",)
        spec = AgentSpec(entry=wanted.agent, root=str(wanted.folder.resolve()), path=folders)
    else:
        assert config is not None
        spec = AgentSpec(entry=config.agent.entry, root=str(place), path=config.agent.path)
    gateway = url if wanted.gateway else ""
    if wanted.ray is not None:
        from ratchet.run.on_ray import RayExecutor

        on_ray = RayExecutor(
            spec, address=wanted.ray, slots=cores, timeout_s=timeout_s, gateway=gateway
        )
        what = f"{spec.entry} on Ray {wanted.ray}"
        try:
            # The cluster's machines need not have a sandbox: this one contains code.
            mixed = _contained(place, config, wanted, load_agent(spec), on_ray)
        except AgentError:
            mixed = on_ray
            what += " (it does not load on this machine, so candidates of code are refused)"
        return Joining(executor=mixed, what=what, state=state, redactor=redactor)
    agent = load_agent(spec)
    kind = wanted.executor
    if kind == "auto" and wanted.agent is None:
        kind = run.executor
    usual = executor_for(
        kind,
        agent,
        spec,
        state=state,
        store_url=url,
        store_key=key,
        gateway=gateway,
        concurrency=wanted.concurrency or run.concurrency,
        timeout_s=timeout_s,
        memory_mb=run.memory_mb,
        redaction=rules,
    )
    chosen = _contained(place, config, wanted, agent, usual)
    return Joining(executor=chosen, what=spec.entry, state=state, redactor=redactor)


def _contained(
    place: Path, config: Config | None, wanted: Wanted, agent: Agent, usual: Executor
) -> Executor:
    """Candidates of code run in a sandbox: as ratchet.toml describes it, or the usual one."""
    if wanted.agent is not None:
        folders = wanted.path or (Path("."),)
        path = tuple(str((wanted.folder / folder).resolve()) for folder in folders)
        section = AgentSection(entry=wanted.agent, path=path)
        known = config or Config(agent=section)
        config = known.model_copy(update={"agent": section})
    assert config is not None
    if wanted.timeout_s is not None:
        run = config.run.model_copy(update={"timeout_s": wanted.timeout_s})
        config = config.model_copy(update={"run": run})
    return with_sandbox(Project(place, config), agent, usual)


def _check(wanted: Wanted) -> None:
    if wanted.agent is not None and wanted.command is not None:
        raise ConfigError("A runner runs an agent or a command: say --agent or --command.")
    if wanted.command is not None:
        for option, given in (
            ("--ray", wanted.ray is not None),
            ("--path", bool(wanted.path)),
            ("--executor", wanted.executor != "auto"),
        ):
            if given:
                raise ConfigError(f"{option} is for agents in Python, not for --command.")
    if wanted.path and wanted.agent is None:
        raise ConfigError("--path goes with --agent; ratchet.toml has a path of its own.")
    if wanted.ray is not None and wanted.executor != "auto":
        raise ConfigError("--ray and --executor say two things; leave one out.")
    if wanted.gateway and wanted.executor in ("async", "inline"):
        raise ConfigError(
            "--gateway needs a process for each attempt that runs: environment variables lead"
            " there, and attempts in one process would share them.",
            hint=f"Leave --executor {wanted.executor} out.",
        )


def _own_state(state: Path) -> Path:
    """A folder for this runner alone; those of runners that are gone are deleted."""
    runners = state / "runners"
    make_folder(runners)
    for folder in runners.iterdir():
        if folder.name.isdigit() and not _lives(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    own = runners / str(os.getpid())
    make_folder(own)
    return own


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
