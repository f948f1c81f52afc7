"""Choose the executor of `ratchet runner` from its options and `ratchet.toml`."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ratchet._private_files import make_folder
from ratchet.autopilot import Project
from ratchet.autopilot.agent_section import AgentSection
from ratchet.autopilot.code_sandbox import source_code, with_sandbox
from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.containment import SHARED_PROCESS_NOTE, check_executor, containment_of
from ratchet.autopilot.learning_sections import RunSection, SandboxSection
from ratchet.autopilot.runner import program_executor
from ratchet.autopilot.server_sections import apply_prices
from ratchet.observe.project_paths import FILE_NAME, folder_with_config, prepare_state
from ratchet.observe.redaction import RedactionRules, Redactor, redactor_of
from ratchet.run import Executor, Kind, executor_for
from ratchet.run.agent_host import AgentHost, HostedAgent
from ratchet.run.fleet_queue import AgentBuild, FleetQueue, Place
from ratchet.run.handover import parse_command
from ratchet.run.program import PythonAgent
from ratchet.sandbox.interpreter import find_interpreter, interpreter_at
from ratchet.source.prompt_files import declared_prompts
from ratchet.types import AgentError, ConfigError
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.environment import model_variables, variables_set
from ratchet.worker.placeholders import check_placeholders

if TYPE_CHECKING:
    from ratchet.models import LocalModel


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line options of the runner."""

    folder: Path
    agent: str | None = None
    path: tuple[Path, ...] = ()
    command: str | None = None
    ray: str | None = None
    executor: Kind = "auto"
    gateway: bool = False
    concurrency: int | None = None
    timeout_s: float | None = None


class RunnerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration with which a runner joins a server."""

    executor: Executor
    what: str
    """Label of the agent or command."""
    state: Path
    """Folder of this runner's own files."""
    redactor: Redactor
    """Removes secrets from spans before they leave this machine."""
    build: AgentBuild | None = None
    """The agent's build; None for a command, and for an agent that is only on a cluster."""
    no_sandbox: str = ""
    """Why candidates with code cannot run here, as a sentence; empty when they can."""

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of its agent, as patterns."""
        if self.build is None:
            return ()
        places: tuple[Place, ...] = ("plain",) if self.no_sandbox else ("plain", "sandbox")
        return self.build.queues(places)

    def refusal(self, queue: FleetQueue) -> str:
        """Why this runner leaves the rollouts of one of its agent's queues to others, as sentences.

        Empty when it does, and for another agent's.
        """
        if self.build is None or self.build.entry != queue.build.entry:
            return ""
        wanted = queue.build.differs(self.build)
        if wanted:
            own = self.build.differs(queue.build)
            return (
                f"Rollouts of {queue.build.entry} need {wanted}; this runner has {own} and leaves "
                "them to others."
            )
        if queue.place == "sandbox" and self.no_sandbox:
            return f"Candidates with code are left to other runners.{self.no_sandbox}"
        return ""

    def clean(self) -> None:
        """Delete this runner's scratch files; its logs stay until the next runner starts."""
        shutil.rmtree(self.state / "tmp", ignore_errors=True)
        for folder in (self.state / "logs", self.state):
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


@contextlib.contextmanager
def runner_model(options: RunnerOptions, say: Callable[[str], None]) -> Iterator[LocalModel | None]:
    """Start the local model that [agent] model names, if any, and direct this process to it.

    Args:
        options: The command-line options.
        say: Called with a sentence before something is fetched.

    Raises:
        ConfigError: The model's calls would have to go through the gateway, or come from Ray.
        ModelUnavailable: The model cannot be had or started.
    """
    root = folder_with_config(options.folder)
    config = None if root is None else read_config(root / FILE_NAME)
    if root is None or config is None or config.agent.model is None:
        yield None
        return
    name = config.agent.model
    executors = {options.executor, config.run.executor}
    for option, setting in (
        ("--gateway", options.gateway),
        ("--ray", options.ray is not None),
        ('executor = "ray"', "ray" in executors),
    ):
        if setting:
            raise ConfigError(
                f'{option} and model = "{name}" under [agent] in {FILE_NAME} cannot be'
                " combined: only processes on this machine reach a local model.",
                hint=f"Omit {option}; or serve the model separately (ratchet model), and "
                "make its address an upstream of the server's gateway.",
            )
    from ratchet.models import shared_model

    with (
        shared_model(name, say, root) as model,
        variables_set(model_variables(model.base_url, model.key)),
    ):
        yield model


def runner_setup(
    options: RunnerOptions,
    url: str,
    key: str,
    model: LocalModel | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> RunnerSetup:
    """Build the executor, without starting it.

    Args:
        options: The command-line options.
        url: The server's address.
        key: Its key, for workers that outlive this process; empty for none.
        model: The running local model of the agent.
        say: Called with a sentence when fewer attempts run at once than asked for.

    Raises:
        ConfigError: The options contradict one another, there is no agent, or [redaction] cannot
            be applied.
        AgentError: The agent does not import.
    """
    _check(options)
    root = folder_with_config(options.folder)
    config = None
    if root is not None:
        config = read_config(root / FILE_NAME)
        apply_prices(config)
    elif options.agent is None and options.command is None:
        raise ConfigError(
            f"There is no agent to run: no {FILE_NAME} is in {options.folder.resolve()} or above.",
            hint='Give --agent module:function or --command "node agent.js".',
        )
    project_folder = root or options.folder.resolve()
    state = _own_state(prepare_state(project_folder))
    run = config.run if config is not None else RunSection()
    rules = (
        RedactionRules(**config.redaction.model_dump()) if config is not None else RedactionRules()
    )
    redactor = redactor_of(rules, os.environ)
    timeout_s = options.timeout_s or run.timeout_s
    cores = options.concurrency or run.concurrency or os.cpu_count() or 1
    section = None if config is None or options.agent is not None else config.agent
    if section is not None and options.command is None and section.runs_already:
        raise ConfigError(
            "A runner starts its agent, but [agent] url names an agent that is already running.",
            hint="Give the command that starts it (serve), or use ratchet improve with no server.",
        )
    build = None
    if options.command is not None:
        check_placeholders(parse_command(options.command), "--command")
        own = section or AgentSection(command=options.command)
        section = AgentSection(
            command=options.command,
            model_base_url=own.model_base_url,
            model_key=own.model_key,
            model_hosts=own.model_hosts,
            allow=own.allow,
        )
    elif section is not None and section.entry is None:
        assert config is not None
        build = AgentBuild.of(Project(project_folder, config).load_agent())
    if section is not None and section.entry is None:
        containment, sentence = containment_of(
            section, _sandbox(config), root=project_folder, state=state
        )
        if sentence:
            say(sentence)
        programs = program_executor(
            section,
            url,
            folder=options.folder.resolve() if options.command is not None else project_folder,
            state=state,
            concurrency=cores,
            timeout_s=timeout_s,
            variables={} if model is None else model_variables(model.base_url, model.key),
            containment=containment,
            say=say,
        )
        return RunnerSetup(
            executor=programs, what=section.label, state=state, redactor=redactor, build=build
        )
    if options.agent is not None:
        folders = tuple(str(folder) for folder in options.path) or (".",)
        spec = AgentSpec(entry=options.agent, root=str(options.folder.resolve()), path=folders)
    else:
        assert config is not None
        assert config.agent.entry is not None
        spec = AgentSpec(
            entry=config.agent.entry,
            root=str(project_folder),
            path=config.agent.path,
            in_files=tuple(declared_prompts(project_folder, config.files_of_prompts).values()),
            **config.agent.parameters,
        )
    per_candidate = config is not None and config.imports_per_candidate
    gateway = url if options.gateway else ""
    kind = options.executor
    if kind == "auto" and options.agent is None:
        kind = run.executor
    if options.ray is not None or kind == "ray":
        from ratchet.run.choice import check_import_per_candidate, ray_cluster
        from ratchet.run.ray_executor import RayExecutor

        if per_candidate:
            check_import_per_candidate("ray")
        address = ray_cluster(options.ray or run.ray_address)
        on_ray = RayExecutor(
            spec, address=address, slots=cores, timeout_s=timeout_s, gateway=gateway
        )
        what = f"{spec.entry} on Ray {address}"
        try:
            loaded = load_agent(spec)
        except AgentError:
            what += " (it does not load on this machine, so candidates with code are refused)"
            return RunnerSetup(executor=on_ray, what=what, state=state, redactor=redactor)
        build = AgentBuild.of(loaded)
        # The cluster's machines may lack a sandbox, so candidates with code run here.
        mixed = _contained(project_folder, config, options, loaded, on_ray, None)
        return RunnerSetup(
            executor=mixed,
            what=what,
            state=state,
            redactor=redactor,
            build=build,
            no_sandbox=_why_no_sandbox(config) if source_code(loaded) else "",
        )
    interpreter = find_interpreter(project_folder, None if config is None else config.agent.python)
    agent: PythonAgent
    if interpreter is None:
        agent = load_agent(spec)
    else:
        host = AgentHost(interpreter_at(interpreter))
        spec = msgspec.structs.replace(spec, python=str(interpreter))
        agent = HostedAgent(host, spec)
    build = AgentBuild.of(agent)
    containment, sentence = containment_of(
        section or AgentSection(entry=spec.entry),
        _sandbox(config),
        root=project_folder,
        state=state,
        python=spec.python,
    )
    if sentence:
        say(sentence)
    else:
        check_executor(kind)
        if not gateway and (kind == "async" or (kind == "auto" and agent.is_async)):
            say(SHARED_PROCESS_NOTE)
    usual = executor_for(
        kind,
        agent,
        spec,
        state=state,
        store_url=url,
        store_key=key,
        gateway=gateway,
        model_hosts=section.model_hosts if section is not None and gateway else (),
        concurrency=options.concurrency or run.concurrency,
        timeout_s=timeout_s,
        memory_mb=run.memory_mb,
        redaction=rules,
        import_per_candidate=per_candidate,
        containment=containment,
    )
    chosen = _contained(project_folder, config, options, agent, usual, model)
    return RunnerSetup(
        executor=chosen,
        what=spec.entry,
        state=state,
        redactor=redactor,
        build=build,
        no_sandbox=_why_no_sandbox(config) if source_code(agent) else "",
    )


def _sandbox(config: Config | None) -> SandboxSection:
    return SandboxSection() if config is None else config.sandbox


def _why_no_sandbox(config: Config | None) -> str:
    """Why candidates' code cannot run on this machine, as a sentence; empty if it can."""
    from ratchet.sandbox import SandboxUnavailable
    from ratchet.sandbox.levels import resolve_level

    section = _sandbox(config)
    try:
        resolve_level(section.level, unsafe=section.unsafe)
    except SandboxUnavailable as error:
        return f" It cannot run candidates with code: {error.message}"
    return ""


def _contained(
    project_folder: Path,
    config: Config | None,
    options: RunnerOptions,
    agent: PythonAgent,
    usual: Executor,
    model: LocalModel | None,
) -> Executor:
    """Run candidates with code in a sandbox: the one in ratchet.toml, or the default one."""
    if options.agent is not None:
        folders = options.path or (Path("."),)
        path = tuple(str((options.folder / folder).resolve()) for folder in folders)
        local = None if config is None else config.agent.model
        section = AgentSection(entry=options.agent, path=path, model=local)
        base = config or Config(agent=section)
        config = base.model_copy(update={"agent": section})
    assert config is not None
    if options.timeout_s is not None:
        run = config.run.model_copy(update={"timeout_s": options.timeout_s})
        config = config.model_copy(update={"run": run})
    project = Project(project_folder, config)
    project.agent_model = model
    return with_sandbox(project, agent, usual)


def _check(options: RunnerOptions) -> None:
    if options.agent is not None and options.command is not None:
        raise ConfigError(
            "A runner runs an agent or a command: give --agent or --command, not both."
        )
    if options.command is not None:
        for option, is_set in (
            ("--ray", options.ray is not None),
            ("--path", bool(options.path)),
            ("--executor", options.executor != "auto"),
        ):
            if is_set:
                raise ConfigError(f"{option} is for Python agents, not for --command.")
    if options.path and options.agent is None:
        raise ConfigError("--path needs --agent; ratchet.toml sets its own path.")
    if options.ray is not None and options.executor not in ("auto", "ray"):
        raise ConfigError("--ray and --executor cannot be combined; omit one.")
    if options.gateway and options.executor in ("async", "inline"):
        raise ConfigError(
            "--gateway needs a process for each running attempt: it is set through environment "
            "variables, which attempts in one process would share.",
            hint=f"Leave --executor {options.executor} out.",
        )


def _own_state(state: Path) -> Path:
    """A folder for this runner only; folders of dead runners are deleted."""
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
    except OSError:  # it belongs to another user
        return True
    return True
