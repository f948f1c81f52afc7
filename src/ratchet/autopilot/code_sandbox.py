"""Sandbox settings for untrusted code, derived from the project's configuration."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.autopilot.project import Project
from ratchet.run import Executor
from ratchet.run.contained import ContainedExecutor, Containment, RoutedExecutor
from ratchet.run.program import AnyAgent, PythonAgent
from ratchet.ship import TestCommand
from ratchet.source import checkouts, secret_files
from ratchet.store.location import parse
from ratchet.types import Code, ConfigError

MAX_SLOTS = 16
"""Default maximum number of concurrent sandboxes: each holds the agent's imports."""

UNSAFE_WARNING = (
    "No sandbox is available, so candidates' code runs with your rights: it can read your files, "
    "use the network, and look for the expected answers."
)
"""Warning for running code candidates without a sandbox."""


def with_sandbox(project: Project, agent: PythonAgent, usual: Executor) -> Executor:
    """An executor that sandboxes candidates whose code differs from the source's.

    Args:
        project: The project.
        agent: The loaded agent.
        usual: Runs all other candidates.
    """
    source = source_code(agent)
    if not source:
        return usual
    section = project.config.sandbox
    connect = [_address(text) for text in section.connect]
    environment = {name: os.environ[name] for name in section.environment if name in os.environ}
    if project.agent_model is not None:
        connect.append(_address(urlsplit(project.agent_model.base_url).netloc))
        environment |= project.agent_variables
    cores = os.cpu_count() or 1
    contained = ContainedExecutor(
        project.agent_spec,
        Containment(
            level=section.level,
            unsafe=section.unsafe,
            memory_bytes=section.memory_mb * 1024 * 1024,
            read=tuple(_placed(project, name) for name in section.read),
            hide=tuple(hidden_paths(project)),
            connect=tuple(connect),
            environment=environment,
            check_returns=section.check_returns,
            python=project.interpreter,
        ),
        slots=section.slots or min(MAX_SLOTS, usual.slots, 2 * cores),
        timeout_s=section.seconds or project.config.run.timeout_s,
        self_graded=is_self_graded(project, agent),
        allow_self_graded=section.unsafe_self_graded,
        import_per_candidate=project.config.imports_per_candidate,
    )
    return RoutedExecutor(usual, contained, source)


def source_code(agent: AnyAgent) -> dict[str, Code]:
    """The source's own code, by resource name."""
    return {
        name: declaration.resource
        for name, declaration in agent.declarations.items()
        if isinstance(declaration.resource, Code)
    }


def hidden_paths(project: Project) -> list[Path]:
    """Paths that no untrusted code may read: expected answers, secrets, and Ratchet's own files.

    The same list applies to everything that runs in a sandbox: rollouts of candidates, the
    repository's tests on candidates, type checks, and the tests of a release.
    """
    root, repository = project.root, repository_of(project.root)
    configured = [_placed(project, name) for name in project.config.sandbox.hide]
    answers = [_placed(project, project.config.tasks.file)]
    # Reference files of the user's own evaluators.
    answers += [
        _placed(project, value)
        for section in project.config.evaluators
        if ":" in section.use
        for value in section.options.values()
        if isinstance(value, str) and value and (root / value).is_file()
    ]
    # The same files in other work trees of the repository.
    answers += [
        checkout / answer.relative_to(repository)
        for answer in answers
        if answer.is_relative_to(repository)
        for checkout in checkouts(repository)
    ]
    hidden = [*answers, *configured, project.state, *store_files(project.store_url)]
    hidden += [repository / ".git", *secret_files(repository)]
    every = set(hidden)
    return [path for path in dict.fromkeys(hidden) if every.isdisjoint(path.parents)]


def release_tests(project: Project) -> TestCommand:
    """The test command of a release.

    Raises:
        ConfigError: `show` names a path that is always hidden.
    """
    section = project.config.ship
    visible = [_placed(project, name) for name in section.show]
    for name, path in zip(section.show, visible, strict=True):
        for never in (project.state, repository_of(project.root) / ".git"):
            if path.is_relative_to(never) or never.is_relative_to(path):
                raise ConfigError(
                    f"[ship] show names {name!r}, but {never.name} is never shown to code in a"
                    " sandbox.",
                    hint="Name only the file that the tests need, or run the tests without a "
                    "sandbox: sandbox = false under [ship].",
                )
    return TestCommand(
        command=section.test,
        timeout_s=section.timeout_s,
        environment=section.environment,
        network=section.network,
        sandbox=section.sandbox,
        python=project.interpreter,
        hide=tuple(
            p for p in hidden_paths(project) if not any(p.is_relative_to(s) for s in visible)
        ),
        read=(*visible, *(_placed(project, name) for name in project.config.sandbox.read)),
    )


def repository_of(folder: Path) -> Path:
    """The root of the git repository that contains a folder; the folder itself without one."""
    for above in (folder, *folder.parents):
        if (above / ".git").exists():
            return above
    return folder


def store_files(url: str) -> list[Path]:
    """The files of an SQLite store: the database, its log, and the log's index."""
    if not url.startswith("sqlite:"):
        return []
    database = parse(url).database
    return [Path(f"{database}{end}") for end in ("", "-wal", "-shm", "-journal")]


def is_self_graded(project: Project, agent: AnyAgent) -> bool:
    """Whether the objective is a score that the agent gives itself."""
    if agent.kind == "rollout":
        return True
    config = project.config
    if not config.evaluators:
        return False  # reported elsewhere: a project without an objective cannot be improved
    evaluator_names = {
        section.name or section.use.rpartition(":")[2] for section in config.evaluators
    }
    return config.objective.evaluator == "reward" and "reward" not in evaluator_names


def _placed(project: Project, name: str) -> Path:
    return Path(os.path.normpath(project.root / name))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
