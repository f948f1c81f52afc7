"""Opens a runner: loads the agent, starts an executor, and takes the queue's lock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from ratchet._waiting import WAITS
from ratchet.autopilot.agent_section import AgentSection
from ratchet.autopilot.code_sandbox import source_code, with_sandbox
from ratchet.autopilot.containment import SHARED_PROCESS_NOTE, check_executor, containment_of
from ratchet.autopilot.import_binding import warning
from ratchet.autopilot.models_in_calls import models_in_calls
from ratchet.autopilot.project import Project
from ratchet.run import (
    Executor,
    FileLock,
    RetryingTransport,
    Runner,
    RunnerWatcher,
    ServerTransport,
    executor_for,
)
from ratchet.run.choice import DEFAULT_CONCURRENCY
from ratchet.run.left_outcomes import store_left_outcomes
from ratchet.run.program import AnyAgent, ProgramAgent, PythonAgent
from ratchet.run.request_headers import filled_headers
from ratchet.run.runner import requeue
from ratchet.source.dotenv import read_dotenv
from ratchet.store import Store
from ratchet.types import ConfigError, Conflict, StoreError
from ratchet.worker.environment import BASE_URLS, variables_set

if TYPE_CHECKING:
    from ratchet.observe.redaction import RedactionRules, Redactor
    from ratchet.sandbox.containment import AgentContainment

Say = Callable[[str], None]

MAX_SERVICES = 4
"""Default maximum number of instances of a service, since each takes memory."""


@asynccontextmanager
async def open_runner(
    project: Project,
    store: Store,
    agent: AnyAgent,
    queue: str,
    say: Say,
    *,
    take_over: bool,
    niceness: int = 0,
    through_gateway: bool = False,
) -> AsyncIterator[Runner]:
    """Open a runner for one queue.

    Args:
        project: The project.
        store: Its store.
        agent: The loaded agent.
        queue: The queue's name.
        say: Called when there is something to wait for.
        take_over: Reclaim what a killed predecessor left in the queue. The caller holds a lock that
            excludes others from the queue; without one the queue must be unique.
        niceness: How much lower the priority of worker processes is, as of nice(2).
        through_gateway: Whether model calls go through the gateway though nothing is replaced
            there.

    Raises:
        AgentError: The agent does not load in a worker.
        ConfigError: [redaction] cannot be applied.
    """
    redactor = project.redactor()
    sentences = [warning(project.config, agent.declarations)]
    if project.interpreter is not None:
        sentences.append(
            f"The agent runs in its own environment, with {project.interpreter.executable}."
        )
    containment: AgentContainment | None = None
    if not project.config.run.server:  # whose runners contain what they run
        containment, sentence = containment_of(
            project.config.agent,
            project.config.sandbox,
            root=project.root,
            state=project.state,
            python="" if project.interpreter is None else project.interpreter.executable,
        )
        sentences.append(sentence)
    for sentence in sentences:
        if sentence and sentence not in project.said:
            project.said.add(sentence)
            say(sentence)
    async with AsyncExitStack() as stack:
        state = project.prepare_state()
        lock_fd: int | None = None
        if take_over:
            workers = FileLock(state / "locks" / f"{queue[:24]}.lock", "A worker")
            with WAITS.on("the workers of an interrupted run"):
                lock_fd = await _when_free(workers, project.config.run.timeout_s + 10.0, say)
            stack.callback(workers.release)
        in_calls = through_gateway or agent.prompts_in_calls or models_in_calls(agent)
        if in_calls and not project.config.run.server:
            runner = await _gateway_runner(stack, project, agent, queue, redactor, containment, say)
            if take_over:
                await asyncio.to_thread(requeue, store, queue, runner.name)
            yield await stack.enter_async_context(runner)
            return
        if models_in_calls(agent) and not agent.prompts_in_calls:
            raise ConfigError(
                "The agent's model cannot be replaced on a server's runners: there, the calls of "
                "a Python entry do not go through the gateway.",
                hint="Remove server under [run], or declare the model in the source:"
                ' ratchet.model("answers", "NAME").',
            )
        if project.config.run.executor == "inline" and not project.config.run.server:
            stack.enter_context(variables_set(project.agent_variables))
        if project.config.run.server:
            executor: Executor = make_fleet(project, agent, say)
        else:
            assert not isinstance(agent, ProgramAgent)
            kind = project.config.run.executor
            if containment is not None and (kind == "async" or (kind == "auto" and agent.is_async)):
                say(SHARED_PROCESS_NOTE)
            executor = make_executor(
                project,
                agent,
                state,
                lock_fd,
                redaction=redactor.rules,
                niceness=niceness,
                containment=containment,
            )
        runner = Runner(store, queue, executor, redactor=redactor)
        if take_over:
            await asyncio.to_thread(store_left_outcomes, store, state)
            await asyncio.to_thread(runner.recover)
        yield await stack.enter_async_context(runner)


async def _gateway_runner(
    stack: AsyncExitStack,
    project: Project,
    agent: AnyAgent,
    queue: str,
    redactor: Redactor,
    containment: AgentContainment | None,
    say: Say,
) -> Runner:
    """A runner for an agent whose prompts are found and replaced in its model calls.

    It works through a server, which has the gateway for the agent's model calls, and which stores
    these calls before it accepts the outcome of their attempt.
    """
    from ratchet.client import AsyncClient

    if project.start_server is None:
        raise ConfigError(
            f"The prompts of {agent.spec.entry} are replaced in its model calls, which needs a "
            "server with a gateway, and this program starts none.",
            hint="Use the command line: ratchet improve.",
        )
    stack.enter_context(variables_set(_addresses(project)))
    url = await stack.enter_async_context(project.start_server(project))
    client = await stack.enter_async_context(AsyncClient(url, os.environ.get("RATCHET_KEY")))
    transport = RetryingTransport(ServerTransport(client), _ServerWatcher(url, say))
    run = project.config.run
    if isinstance(agent, ProgramAgent):
        executor = program_executor(
            project.config.agent,
            url,
            folder=project.root,
            state=project.state,
            concurrency=run.concurrency,
            timeout_s=run.timeout_s,
            containment=containment,
            say=say,
        )
    else:
        executor = make_executor(
            project, agent, project.state, None, gateway=url, containment=containment
        )
    return Runner(transport, queue, executor, redactor=redactor)


def _addresses(project: Project) -> dict[str, str]:
    """Addresses of the agent's models that only its own `.env` names."""
    dotenv = read_dotenv(project.root)
    names = (*project.config.agent.model_base_url, *BASE_URLS)
    return {name: dotenv[name] for name in names if dotenv.get(name) and name not in os.environ}


def program_executor(
    section: AgentSection,
    url: str,
    *,
    folder: Path,
    state: Path,
    concurrency: int | None,
    timeout_s: float,
    variables: Mapping[str, str] = MappingProxyType({}),
    containment: AgentContainment | None = None,
    say: Say,
) -> Executor:
    """The executor of an agent in any language.

    Args:
        section: Names a command or a URL.
        url: The server whose gateway serves the agent's model calls.
        folder: Working folder of the command.
        state: Folder for logs and scratch files.
        concurrency: Attempts at once; None for the kind's default.
        timeout_s: Seconds that one attempt may take.
        variables: Further environment variables of what is started.
        containment: What keeps it from acting outside; None to let it.
        say: Called with a sentence when fewer run at once.
    """
    cores = os.cpu_count() or 1
    handover = section.handover
    owner = {**read_dotenv(folder), **os.environ}
    headers = filled_headers(handover.headers, owner)
    handover = msgspec.structs.replace(handover, headers=headers)
    if section.serve is not None:
        from ratchet.run.served import ServedExecutor

        assert section.url is not None
        return ServedExecutor(
            section.serving,
            section.url,
            handover=handover,
            folder=folder,
            state=state,
            slots=concurrency or min(MAX_SERVICES, cores),
            timeout_s=timeout_s,
            server=url,
            variables=variables,
            base_urls=section.model_base_url,
            keys=section.model_key,
            model_hosts=section.model_hosts,
            say=say,
            containment=containment,
            restart=section.restart,
        )
    if section.url is not None:
        from ratchet.run.service import ServiceExecutor

        slots = concurrency or DEFAULT_CONCURRENCY
        return ServiceExecutor(
            section.url, handover=handover, slots=slots, timeout_s=timeout_s, server=url
        )
    from ratchet.run.command import CommandExecutor

    return CommandExecutor(
        handover.words,
        folder=folder,
        state=state,
        slots=concurrency,
        timeout_s=timeout_s,
        server=url,
        variables=variables,
        base_urls=section.model_base_url,
        keys=section.model_key,
        model_hosts=section.model_hosts,
        stdin=handover.stdin,
        input=handover.input,
        output=handover.output,
        containment=containment,
    )


class _ServerWatcher(RunnerWatcher):
    """Reports when the server is unreachable, and when it is back."""

    def __init__(self, url: str, say: Say) -> None:
        self._url = url
        self._say = say

    def away(self, error: StoreError) -> None:
        self._say(f"The server {self._url} does not answer; retrying. ({error.message})")

    def back(self, after_s: float) -> None:
        self._say(f"The server is back after {after_s:.0f} s.")


def make_executor(
    project: Project,
    agent: PythonAgent,
    state: Path,
    keep_open: int | None,
    *,
    redaction: RedactionRules | None = None,
    niceness: int = 0,
    gateway: str = "",
    containment: AgentContainment | None = None,
) -> Executor:
    """The configured executor; candidates with code run in a sandbox of this machine.

    Raises:
        ConfigError: It is Ray, and the agent has a local model; or it cannot contain the agent.
    """
    run = project.config.run
    if project.config.agent.allow is not None:
        check_executor(run.executor)
    if run.executor == "ray" and project.config.agent.model is not None:
        raise ConfigError(
            f'executor = "ray" under [run] and model = "{project.config.agent.model}" under [agent]'
            " cannot be combined: only processes on this machine reach a local model.",
            hint="Remove one of them, or serve the model separately (ratchet model).",
        )
    if run.executor == "ray" and project.config.agent.model_hosts:
        raise ConfigError(
            'executor = "ray" under [run] and model_hosts under [agent] cannot be combined: only'
            " processes on this machine send their calls to the gateway.",
            hint="Remove one of them, or have the agent read its base URL from a variable.",
        )
    usual = executor_for(
        run.executor,
        agent,
        project.agent_spec,
        state=state,
        store_url=gateway or project.store_url,
        gateway=gateway,
        model_hosts=project.config.agent.model_hosts,
        concurrency=run.concurrency,
        timeout_s=run.timeout_s,
        memory_mb=run.memory_mb,
        keep_open=keep_open,
        redaction=redaction,
        ray_address=run.ray_address,
        niceness=niceness,
        import_per_candidate=project.config.imports_per_candidate,
        containment=containment,
    )
    return with_sandbox(project, agent, usual)


def make_fleet(project: Project, agent: AnyAgent, say: Say) -> Executor:
    """The executor whose rollouts run on the runners of [run] server."""
    # Imported late: it loads the client.
    from ratchet.run.fleet_executor import FleetExecutor
    from ratchet.run.fleet_queue import AgentBuild

    run = project.config.run
    assert run.server is not None
    if project.config.agent.runs_already:
        raise ConfigError(
            "A fleet's runners start the agent, but [agent] url names an agent that is already "
            "running.",
            hint="Give the command that starts it (serve), or remove server under [run].",
        )
    return FleetExecutor(
        run.server,
        build=AgentBuild.of(agent),
        source=source_code(agent),
        slots=run.server_concurrency,
        attempts=run.attempts,
        say=say,
        baseline=project.source_candidate(agent)
        if agent.declarations and agent.prompts_in_calls
        else None,
    )


async def _when_free(lock: FileLock, timeout_s: float, say: Say) -> int | None:
    """Wait until the workers of a killed run have stored their work and exited."""
    loop = asyncio.get_running_loop()
    until, announced = loop.time() + timeout_s, False
    while True:
        try:
            return lock.acquire()
        except Conflict:
            if loop.time() > until:
                return None  # leases and fencing tokens still protect the queue
            if not announced:
                say("Waiting for the workers of an interrupted run to store what they finish…")
                announced = True
            await asyncio.sleep(0.05)
