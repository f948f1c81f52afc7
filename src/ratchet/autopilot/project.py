"""A user's project: its folder, its configuration, and the objects built from them.

Reading a project is fast: what only running it needs is imported on first use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.learning_sections import TRAINS_WEIGHTS
from ratchet.autopilot.live_prompt_files import LivePromptFiles
from ratchet.autopilot.server_sections import apply_prices
from ratchet.observe.project_paths import (
    FILE_NAME,
    STATE_NAME,
    folder_with_config,
    own_store_url,
    prepare_state,
    store_url,
)
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.types import Candidate, ConfigError, Declaration, Model, ShipError, defaults

if TYPE_CHECKING:
    from ratchet.autopilot.trainable import TrainableModel
    from ratchet.models import LocalModel
    from ratchet.observe.redaction import Redactor
    from ratchet.run.agent_host import AgentHost
    from ratchet.run.program import AnyAgent
    from ratchet.sandbox.interpreter import Interpreter
    from ratchet.worker.agent import AgentSpec

StartServer: TypeAlias = "Callable[[Project], AbstractAsyncContextManager[str]]"
"""Starts a server on a project's store, or finds the running one; yields its URL."""


class Project:
    """A folder with a `ratchet.toml`.

    Args:
        root: The folder.
        config: The parsed `ratchet.toml`.
        start_server: For agents in any language, whose model calls go through a gateway.
    """

    def __init__(self, root: Path, config: Config, start_server: StartServer | None = None) -> None:
        self.root = root.resolve()
        self.config = config
        self.start_server = start_server
        self.agent_model: LocalModel | TrainableModel | None = None
        """The running local model of [agent] model; see `agent_model`."""
        self.other_models: dict[str, LocalModel] = {}
        """The running local models of [[agent.models]], by their names."""
        self.said: set[str] = set()
        """Sentences on how rollouts run, which a command prints once."""
        apply_prices(config)

    @classmethod
    def find(cls, start: Path, start_server: StartServer | None = None) -> Project:
        """Find the project of a folder: the folder or its nearest parent with a `ratchet.toml`.

        Raises:
            ConfigError: There is none, or the file is malformed.
        """
        folder = folder_with_config(start) or start.resolve()
        return cls(folder, read_config(folder / FILE_NAME), start_server)

    def with_config(self, config: Config) -> Project:
        """The same project with another configuration."""
        return Project(self.root, config, self.start_server)

    @property
    def state(self) -> Path:
        """The folder of Ratchet's own files, excluded from git by its own ignore file."""
        return self.root / STATE_NAME

    @property
    def store_url(self) -> str:
        """URL of the store: RATCHET_STORE, [store] url, or SQLite in the state folder.

        A relative path in [store] url is relative to the project's folder.
        """
        return store_url(self.root, self.config.store.url)

    def identity(self) -> str:
        """Identifies this project among others on the same store, across clones and moves.

        [project] name, if set. Otherwise empty for the store in the state folder, which no other
        project uses, or else the git repository's first commit and the folder in it.

        Raises:
            ConfigError: The store may be shared, and there is neither a name nor a first commit.
        """
        name = self.config.project.name
        if name is not None:
            return f"name:{name}"
        if self.store_url == own_store_url(self.root):
            return ""
        from ratchet.ship import Repository

        reason = "its git history was cut off (a shallow clone)"
        try:
            repository = Repository.open(self.root)
            if first := repository.first_commit():
                return f"git:{first}/{repository.prefix}"
        except ShipError as error:
            reason = error.message.rstrip(".")
        raise ConfigError(
            "This project cannot be told apart from others on the same store, but experiments are"
            f" counted per project: {reason}.",
            hint='Give it a unique name in ratchet.toml:\n\n[project]\nname = "…"\n',
        )

    def prepare_state(self) -> Path:
        """Create the state folder.

        Raises:
            StoreError: The project's folder is not writable.
        """
        return prepare_state(self.root)

    def open_store(self) -> Store:
        """Open the store; while it is open, live agents on this machine are connected to it.

        Raises:
            StoreError: It cannot be opened.
        """
        self.prepare_state()
        return open_with_agents(self.store_url, prompt_files=LivePromptFiles(self.root))

    @property
    def local_attempts(self) -> int:
        """Number of failed attempts after which a rollout of this project ends.

        One with [run] server: there the server's runners retry.
        """
        return 1 if self.config.run.server else self.config.run.attempts

    def redactor(self) -> Redactor:
        """The redactor configured in [redaction], applied to spans before they are stored.

        Raises:
            ConfigError: A rule is unknown, a pattern is refused, or pseudonyms have no secret.
        """
        from ratchet.observe.redaction import RedactionRules, redactor_of

        return redactor_of(RedactionRules(**self.config.redaction.model_dump()), os.environ)

    @property
    def trains_weights(self) -> bool:
        """Whether learning may train the model that the agent calls.

        `auto` does where it is told to, and where the model is a folder of weights, which nothing
        else serves.
        """
        agent, improve = self.config.agent, self.config.improve
        if improve.algorithm != "auto":
            return improve.algorithm in TRAINS_WEIGHTS
        if agent.model is None or agent.entry is not None:
            return False
        allowed = improve.options.get("algorithms")
        if isinstance(allowed, list):
            from ratchet.learn.arms import TRAINED

            return not set(TRAINED).isdisjoint(allowed)
        path = agent.model.partition(":")[2]
        return bool(path) and (self.root / path).is_dir()

    @cached_property
    def interpreter(self) -> Interpreter | None:
        """The agent's own interpreter; None if it is this process's.

        Raises:
            ConfigError: It does not start, is too old, or lacks this version of the SDK.
        """
        from ratchet.sandbox.interpreter import find_interpreter, interpreter_at

        if self.config.agent.entry is None:
            return None
        python = find_interpreter(self.root, self.config.agent.python)
        if python is None:
            return None
        return interpreter_at(python)

    @cached_property
    def agent_host(self) -> AgentHost | None:
        """The process in the agent's own interpreter; None if there is none."""
        from ratchet.run.agent_host import AgentHost

        return None if self.interpreter is None else AgentHost(self.interpreter)

    @property
    def agent_spec(self) -> AgentSpec:
        """Location of the agent.

        Raises:
            InputError: A prompt file cannot be used.
        """
        from ratchet.source.prompt_files import declared_prompts
        from ratchet.worker.agent import AgentSpec

        agent, model = self.config.agent, self.agent_model
        return AgentSpec(
            entry=agent.label,
            root=str(self.root),
            path=agent.path,
            python="" if self.interpreter is None else self.interpreter.executable,
            model="" if model is None else model.version,
            allowed="" if agent.allow is None else agent.allow.version,
            variables=self.agent_variables,
            prompts_in_calls=agent.prompts == "calls",
            in_files=tuple(declared_prompts(self.root, self.config.files_of_prompts).values()),
            **agent.parameters,
        )

    @property
    def agent_variables(self) -> dict[str, str]:
        """Environment variables that direct the agent to its local model; empty without one.

        While that does not run they lead nowhere, and the agent can be imported.
        """
        if self.config.agent.model is None:
            return {}
        from ratchet.worker.environment import model_variables

        model = self.agent_model
        if model is None:
            return model_variables("http://127.0.0.1:9/v1", "none")
        return model_variables(model.base_url, model.key)

    @property
    def agent_name(self) -> str:
        """The agent's name at the gateway: [agent] name, or the project folder's name."""
        name = self.config.agent.name or re.sub(r"[^A-Za-z0-9._-]+", "-", self.root.name)
        return name.strip("-")[:100] or "agent"

    def load_agent(self) -> AnyAgent:
        """Import the agent; an agent in another language is only described.

        Raises:
            AgentError: It does not import.
        """
        agent = self._loaded_agent()
        if self.config.agent.models:
            agent.declarations = {**agent.declarations, **self.models_in_calls}
        return agent

    @property
    def models_in_calls(self) -> dict[str, Declaration]:
        """The models of [[agent.models]], which the gateway replaces, by name."""
        return {
            section.name: Declaration(
                section.name,
                Model(section.model, choices=section.choices, in_calls=section.model),
                located_by="text",
            )
            for section in self.config.agent.models
        }

    def _loaded_agent(self) -> AnyAgent:
        from ratchet.worker.agent import load_agent, prepend_folders

        agent, model = self.config.agent, self.agent_model
        if agent.entry is None:
            from ratchet.run.program import ProgramAgent, ProgramSpec

            prepend_folders(str(self.root), agent.path)  # the user's evaluators may be in Python
            return ProgramAgent(
                ProgramSpec(
                    entry=agent.label,
                    name=self.agent_name,
                    root=str(self.root),
                    path=agent.path,
                    besides=(FILE_NAME, self.config.tasks.file),
                    model="" if model is None else model.version,
                    allowed="" if agent.allow is None else agent.allow.version,
                    handover=agent.handover,
                    serve=agent.serving,
                    restart=agent.restart,
                )
            )
        from ratchet.worker.environment import variables_set

        if self.agent_host is not None:
            from ratchet.run.agent_host import HostedAgent

            return HostedAgent(self.agent_host, self.agent_spec)
        with variables_set(self.agent_variables):
            return load_agent(self.agent_spec)

    def source_candidate(self, agent: AnyAgent) -> Candidate:
        """The user's own code in its present state, as a candidate."""
        if agent.prompts_in_calls:
            reason = f"The prompts of {agent.spec.entry}, as its model calls have them."
            resources = defaults(agent.declarations)
            if self.trains_weights and self.config.agent.model is not None:
                resources["model"] = Model(self.config.agent.model)
            return Candidate.of(resources, algorithm="discover", reason=reason)
        return Candidate.of(defaults(agent.declarations), reason="The source's own resources.")

    def has_store(self) -> bool:
        """Whether the store exists; reading tasks does not create it."""
        own = self.store_url == own_store_url(self.root)
        return not own or (self.state / "ratchet.db").exists()

    def with_dataset(self, name: str | None) -> Project:
        """The same project with the tasks of a dataset of its store; None leaves it unchanged.

        Args:
            name: NAME, or NAME@VERSION.
        """
        if name is None:
            return self
        # Validated again: the file of ratchet.toml is no longer meant.
        task_options = {
            key: value for key, value in self.config.tasks.model_dump().items() if key != "file"
        }
        tasks = type(self.config.tasks)(**{**task_options, "dataset": name})
        return self.with_config(self.config.model_copy(update={"tasks": tasks}))

    def has_tasks(self) -> bool:
        """Whether there is a task file, or a dataset is named in its place."""
        return (
            self.config.tasks.dataset is not None or (self.root / self.config.tasks.file).is_file()
        )

    @property
    def tasks_label(self) -> str:
        """Where the tasks come from, for messages."""
        tasks = self.config.tasks
        return tasks.file if tasks.dataset is None else f"the dataset {tasks.dataset}"

    def conditions(self) -> dict[str, object]:
        """The part of the configuration that determines how a rollout ends."""
        config = self.config
        return {
            # With more time or memory, rollouts that failed for lack of it must run again.
            "run": config.run.model_dump(include={"attempts", "timeout_s", "memory_mb"})
            # Without it, candidates of prompts that are read at import are like the source.
            | ({"import_per_candidate": True} if config.imports_per_candidate else {}),
            # Elsewhere and with other limits, rollouts may end differently.
            "sandbox": config.sandbox.model_dump(),
        }

    def rules(self) -> dict[str, object]:
        """The part of the configuration that determines a decision, besides the conditions.

        The guardrails in force, with their defaults, are added by the loop.
        """
        config = self.config
        return {"objective": config.objective.model_dump(), "prove": config.prove.model_dump()}

    def learning(self) -> dict[str, object]:
        """The part of the configuration that affects only learning."""
        config = self.config
        return {
            "improve": msgspec.to_builtins(config.improve.model_dump(exclude={"seed"})),
            "checks": config.checks.model_dump(),
        }
