"""A user's project: its folder, its configuration, and the objects built from them.

Reading a project is fast: what only running it needs is imported on first use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ratchet.autopilot.config import (
    TRAINS_WEIGHTS,
    CoachSection,
    Config,
    apply_prices,
    read_config,
)
from ratchet.autopilot.live_prompt_files import LivePromptFiles
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
from ratchet.types import (
    SPLITS,
    Candidate,
    ConfigError,
    Dataset,
    Declaration,
    InputError,
    Model,
    ShipError,
    Split,
    defaults,
)
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.autopilot.task_roles import TaskRoles
    from ratchet.autopilot.trainable import TrainableModel
    from ratchet.evaluate import Evaluator
    from ratchet.models import LocalModel
    from ratchet.observe.redaction import Redactor
    from ratchet.prove import Guardrail
    from ratchet.run.agent_host import AgentHost
    from ratchet.run.program import AnyAgent
    from ratchet.sandbox.interpreter import Interpreter
    from ratchet.worker.agent import AgentSpec
    from ratchet.worker.evaluator import OnError

LATENCY_FLOOR_S = 0.1
"""Delays below this seem instantaneous (Miller 1968; Nielsen 1993). It is also what a process, a
sandbox
or a busy machine may add to a fast agent.
"""

WIDEST = 0.25
"""Variance of the differences for which test tasks are collected: that of scores of 0 and 1 of
which half are common to both candidates."""

JUDGE_LIMITS = ("timeout_s", "total_s", "retries", "concurrency")
"""Keys of [coach] that hold for judges, too."""

UNITS = {"latency": "s", "cost": "USD", "errors": ""}


StartServer: TypeAlias = "Callable[[Project], AbstractAsyncContextManager[str]]"
"""Starts a server on a project's store, or finds the one that runs; yields its URL."""


def _judge_options(coach: CoachSection, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a judge, with the coach's model and limits where it names none of its own."""
    own = dict(options)
    if not own.keys() & {"model", "models"}:
        shared = coach.model_dump(include={"model", "base_url", "key_env"}, exclude_none=True)
        shared |= coach.model_dump(include={"input_price", "output_price"}, exclude_none=True)
        if coach.models:
            shared["models"] = [m.model_dump(exclude_none=True) for m in coach.models]
        own = {**shared, **own}
    return {**coach.model_dump(include=set(JUDGE_LIMITS)), **own}


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
        """Sentences on how its rollouts run, which one command says once."""
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
            "Nothing tells this project from others on the same store, and experiments are counted"
            f" for each project: {reason}.",
            hint="Give it a name in ratchet.toml that no other project has:"
            '\n\n[project]\nname = "…"\n',
        )

    def prepare_state(self) -> Path:
        """Create the state folder.

        Raises:
            StoreError: The project's folder is not writable.
        """
        return prepare_state(self.root)

    def open_store(self) -> Store:
        """Open the store; as long as it is open, the live agents on this machine are in touch.

        Raises:
            StoreError: It cannot be opened.
        """
        self.prepare_state()
        return open_with_agents(self.store_url, prompt_files=LivePromptFiles(self.root))

    @property
    def local_attempts(self) -> int:
        """Failed attempts after which a rollout of this project's store ends.

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
        """The agent's own interpreter; None for that of this process.

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
        """The process in the agent's own interpreter; None where it has none."""
        from ratchet.run.agent_host import AgentHost

        return None if self.interpreter is None else AgentHost(self.interpreter)

    @property
    def agent_spec(self) -> AgentSpec:
        """Location of the agent.

        Raises:
            InputError: A file of prompts cannot be used.
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
            variables=self.agent_variables,
            prompts_in_calls=agent.prompts == "calls",
            in_files=tuple(declared_prompts(self.root, self.config.files_of_prompts).values()),
            **agent.parameters,
        )

    @property
    def agent_variables(self) -> dict[str, str]:
        """Environment variables that lead the agent to its local model; empty for another.

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
        """The agent's name at the gateway: [agent] name, or that of the project's folder."""
        name = self.config.agent.name or re.sub(r"[^A-Za-z0-9._-]+", "-", self.root.name)
        return name.strip("-")[:100] or "agent"

    def load_agent(self) -> AnyAgent:
        """Import the agent; one in any language is only described.

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
        from ratchet.worker.agent import load_agent

        agent, model = self.config.agent, self.agent_model
        if agent.entry is None:
            from ratchet.run.program import ProgramAgent, ProgramSpec

            return ProgramAgent(
                ProgramSpec(
                    entry=agent.label,
                    name=self.agent_name,
                    root=str(self.root),
                    path=agent.path,
                    besides=(FILE_NAME, self.config.tasks.file),
                    model="" if model is None else model.version,
                    handover=agent.handover,
                    serve=agent.serving,
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

    def dataset(
        self,
        *,
        skip_bad: bool = False,
        store: Store | None = None,
        needs: Sequence[Split] = SPLITS,
    ) -> tuple[Dataset, tuple[str, ...]]:
        """The tasks with their splits, and sentences on how a task file was read.

        A split that a task states itself is kept, but a task that learning or selection has used is
        no test task, whatever is stated or configured.

        Args:
            skip_bad: Skip malformed lines of a task file.
            store: The project's store, if it is open.
            needs: Splits that may not be empty.

        Raises:
            InputError: The task file cannot be used; or the store has no such dataset, or one of
                the needed splits is empty.
        """
        if store is None:
            if self.config.tasks.dataset is None and not self.has_store():
                return self._dataset_of_file(None, skip_bad, needs)
            with self.open_store() as opened:
                return self.dataset(skip_bad=skip_bad, store=opened, needs=needs)
        if self.config.tasks.dataset is not None:
            return self._stored_dataset(self.config.tasks.dataset, store, needs), ()
        return self._dataset_of_file(store, skip_bad, needs)

    def _dataset_of_file(
        self, store: Store | None, skip_bad: bool, needs: Sequence[Split]
    ) -> tuple[Dataset, tuple[str, ...]]:
        from ratchet.autopilot.task_roles import TaskRoles, without_learned
        from ratchet.curate import read_tasks, split_tasks
        from ratchet.curate.split import groups_of
        from ratchet.curate.usual_split import SHARES, usual_split
        from ratchet.prove.alpha import level
        from ratchet.prove.tasks_needed import tasks_needed
        from ratchet.stats.gain import USUAL_GAIN

        tasks = self.config.tasks
        fields = {"id": tasks.id, "input": tasks.input, "expected": tasks.expected}
        file = read_tasks(self.root / tasks.file, fields=fields, skip_bad=skip_bad)
        sentences = (*(f"Skipped: {sentence}" for sentence in file.bad), *file.notes)
        roles = TaskRoles(store, self.identity) if store is not None else None
        name = Path(tasks.file).stem
        complete = set(needs) == set(SPLITS)
        has_shares = "split" in tasks.model_fields_set
        if not has_shares and not file.splits:
            dataset = usual_split(
                file.tasks,
                name=name,
                enough=tasks_needed(level(self.config.prove.alpha, ()), USUAL_GAIN, WIDEST),
                roles=roles.of(file.tasks) if roles else None,
                group_by=tasks.group_by,
                near_duplicates=tasks.near_duplicates,
                complete=complete,
            )
        else:
            fixed_splits: dict[str, Split] | None = None if complete else {}
            if file.splits:
                fixed_splits = {**(roles.of(file.tasks) if roles else {}), **file.splits}
            shares: Mapping[Split, float] = SHARES
            if has_shares:
                own = tasks.split
                shares = {"train": own.train, "val": own.val, "test": own.test}
            dataset = split_tasks(
                file.tasks,
                name=name,
                fractions=shares,
                group_by=tasks.group_by,
                near_duplicates=tasks.near_duplicates,
                fixed=fixed_splits,
            )
            groups = None
            if file.splits and roles and roles.of_learning(file.tasks):
                groups = groups_of(file.tasks, tasks.group_by, tasks.near_duplicates)
            dataset = without_learned(dataset, roles, groups)
        if store is not None:
            dataset, dataset_notes = self._current(dataset, store, roles)
            sentences = (*sentences, *dataset_notes)
        self._check_splits(
            dataset, needs, "Add tasks; a task may state its own split: train, val or test."
        )
        return dataset, sentences

    def _current(
        self, own: Dataset, store: Store, roles: TaskRoles | None
    ) -> tuple[Dataset, tuple[str, ...]]:
        """The dataset of the task file, or what commands have made of it since: its newest version.

        A version is of the file if one that it was made from has the file's tasks. Once the file is
        changed, it counts again, with what was captured since.
        """
        from ratchet.autopilot.task_roles import without_learned

        latest = store.datasets.latest(own.name)
        if latest is None or not latest.parent:
            return own, ()
        tasks = {(task.id, task.content()) for task in own.tasks}
        version, related = latest, False
        while version.parent:
            try:
                version = store.datasets.get(version.parent)
            except InputError:  # pruned
                break
            before = {(task.id, task.content()) for task in version.tasks}
            related = related or not tasks.isdisjoint(before)
            if before == tasks:
                latest_name = f"{latest.name}@{latest.version[:8]}"
                note = (
                    f"The tasks are {latest_name}, made of {self.config.tasks.file}."
                    f" {latest.reason}"
                )
                return without_learned(latest, roles), (note,)
        if not related:
            return own, ()
        latest_name = f"{latest.name}@{latest.version[:8]}"
        changed, kept = _with_captured(own, latest)
        kept_too = f" but for {counted(kept, 'task')} captured from live traffic" if kept else ""
        return without_learned(changed, roles), (
            f"{self.config.tasks.file} was changed since {latest_name} was made of it, so that"
            f" version is not used{kept_too}. To use it: dataset ="
            f' "{latest.name}" under [tasks].',
        )

    def has_store(self) -> bool:
        """Whether there is a store already; reading tasks creates none."""
        own = self.store_url == own_store_url(self.root)
        return not own or (self.state / "ratchet.db").exists()

    def _stored_dataset(self, name: str, store: Store, needs: Sequence[Split]) -> Dataset:
        from ratchet.autopilot.task_roles import TaskRoles, without_learned

        dataset = store.datasets.named(name)
        dataset = without_learned(dataset, TaskRoles(store, self.identity))
        self._check_splits(
            dataset,
            needs,
            f"Add tasks: ratchet datasets capture {dataset.name}; or split anew:"
            f" ratchet datasets split {dataset.name}.",
        )
        return dataset

    def _check_splits(self, dataset: Dataset, needs: Sequence[Split], hint: str) -> None:
        shares = self.config.tasks.split.model_dump()
        for split in needs:
            if shares[split] > 0 and split not in dataset.splits.values():
                raise InputError(
                    f"No task of {self.tasks_label} is in the {split} split; it has"
                    f" {counted(len(dataset.tasks), 'task')}.",
                    hint=hint,
                )

    def keep_dataset(self, dataset: Dataset, store: Store, now: float) -> None:
        """Store the dataset of a run, unless the store has it."""
        name = self.config.tasks.dataset
        if name is None or store.datasets.named(name).version != dataset.version:
            store.datasets.put(dataset, now)

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

    def evaluator(
        self,
        use: str,
        options: Mapping[str, Any],
        *,
        name: str | None,
        on_error: OnError | None = None,
    ) -> Evaluator:
        """An evaluator with the project's files, coach and redaction; see `make_evaluator`."""
        from ratchet.evaluate import BUILT_IN, make_evaluator

        own = dict(options)
        if use in BUILT_IN and isinstance(own.get("file"), str):
            own["file"] = str(self.root / own["file"])
        if use == "judge":
            own = _judge_options(self.config.coach, own)
        if use in ("judge", "preference", "sql"):
            own["folder"] = str(self.root)
        host = self.agent_host if ":" in use else None
        evaluator = make_evaluator(use, own, name=name, on_error=on_error, host=host)
        if use == "judge":
            from ratchet.evaluate.judges import JudgeEvaluator

            assert isinstance(evaluator, JudgeEvaluator)
            evaluator.judge.models.redactor = self.redactor()
        return evaluator

    def evaluators(self, agent: AnyAgent) -> tuple[Evaluator, ...]:
        """The evaluators, including those that guardrails need.

        Raises:
            ConfigError: One cannot be created, two share a name, or there is no objective.
        """
        from ratchet.evaluate import FunctionEvaluator, make_evaluator
        from ratchet.evaluate.weighted import NAME as WEIGHTED
        from ratchet.evaluate.weighted import WeightedEvaluator

        sections = self.config.evaluators
        made: dict[int, Evaluator] = {
            number: self.evaluator(
                section.use, section.options, name=section.name, on_error=section.on_error
            )
            for number, section in enumerate(sections)
            if section.use != WEIGHTED
        }
        parts = {e.name: e for e in made.values() if isinstance(e, FunctionEvaluator)}
        for number, section in enumerate(sections):
            if section.use == WEIGHTED:
                weights = section.options.get("weights", {})
                made[number] = WeightedEvaluator(parts, weights, section.name or WEIGHTED)
        evaluators = [made[number] for number in range(len(sections))]
        names = [evaluator.name for evaluator in evaluators]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"Two evaluators are named {name!r}.",
                    hint='Give one of them another: name = "…" under its [[evaluators]].',
                )
        needed = ["latency", "cost"]
        if self.config.objective.minimise == "tokens":
            needed.append("tokens")
        evaluators.extend(make_evaluator(name) for name in needed if name not in names)
        if not names and agent.kind != "rollout":
            raise ConfigError(
                "ratchet.toml names no evaluator, so there is nothing to improve by.",
                hint='Add for instance:\n\n[[evaluators]]\nuse = "exact_match"\n\n'
                "For others: ratchet evaluators list --built-in",
            )
        return tuple(evaluators)

    def objective(self, evaluators: Sequence[Evaluator], agent: AnyAgent) -> str:
        """Name of the evaluator whose score is improved.

        Raises:
            ConfigError: It is not among the evaluators, or its values are not scores in [0, 1].
        """
        selected = self.config.objective.score
        by_name = {evaluator.name: evaluator for evaluator in evaluators}
        if selected is None:
            own = [section.use for section in self.config.evaluators]
            selected = evaluators[0].name if own else "reward"
        if selected == "reward" and selected not in by_name:
            return selected
        if selected not in by_name:
            raise ConfigError(
                f"objective.evaluator = {selected!r} names no evaluator; there are {[*by_name]}."
            )
        if by_name[selected].unit:
            raise ConfigError(
                f"The objective {selected!r} is measured in {by_name[selected].unit}; what is"
                " improved is a score in [0, 1].",
                hint="Give it a limit (within = …), or make it a guardrail.",
            )
        return selected

    def guardrails(self, evaluators: Sequence[Evaluator]) -> tuple[Guardrail, ...]:
        """The configured guardrails, and the default ones of other metrics.

        Raises:
            ConfigError: One names an unknown metric.
        """
        from ratchet.prove import Guardrail

        unnamed: tuple[Guardrail, ...] = (
            Guardrail("errors", 0.1),
            Guardrail("latency", 0.5, unit="s", aggregate="relative", floor=LATENCY_FLOOR_S),
            Guardrail("cost", 0.25, unit="USD", aggregate="relative"),
        )
        units = {**UNITS, **{evaluator.name: evaluator.unit for evaluator in evaluators}}
        saved = self.config.objective.minimise
        staying = self._staying(evaluators)
        unnamed = tuple(
            guardrail
            for guardrail in unnamed
            if guardrail.metric not in {saved, *(guardrail.metric for guardrail in staying)}
        )
        if saved is not None:
            # What is to fall has to be proved lower: its margin is 0.
            falls = Guardrail(saved, 0.0, unit=units[saved], aggregate="relative")
            unnamed = (*unnamed, falls, *staying)
        metrics = {section.metric for section in self.config.guardrails}
        guardrails = [guardrail for guardrail in unnamed if guardrail.metric not in metrics]
        for section in self.config.guardrails:
            if section.metric not in units:
                raise ConfigError(
                    f"Guardrail {section.metric!r} names no metric; there are {sorted(units)}."
                )
            if section.off:
                continue
            if section.metric in {guardrail.metric for guardrail in guardrails}:
                raise ConfigError(f"Two guardrails are set for {section.metric!r}; keep one.")
            unit = units[section.metric]
            lower_is_better = bool(unit) or section.metric == "errors"
            if section.relative_margin is not None:
                guardrails.append(
                    Guardrail(
                        section.metric,
                        section.relative_margin,
                        unit=unit,
                        lower_is_better=lower_is_better,
                        aggregate="relative",
                    )
                )
            else:
                margin = section.margin or 0.0
                # A pair's difference is capped at a few margins: the proof stays short, and one
                # slow call cannot decide it.
                scale = section.scale or (4 * margin if unit and margin else 1.0)
                guardrails.append(
                    Guardrail(
                        section.metric,
                        margin,
                        scale=scale,
                        unit=unit,
                        lower_is_better=lower_is_better,
                    )
                )
        return tuple(guardrails)

    def _staying(self, evaluators: Sequence[Evaluator]) -> tuple[Guardrail, ...]:
        """Guardrails of `subject_to`, besides the score that has a margin of its own.

        Raises:
            ConfigError: One names a metric that no evaluator measures, or in a unit.
        """
        from ratchet.prove import Guardrail

        objective = self.config.objective
        units = {**UNITS, **{evaluator.name: evaluator.unit for evaluator in evaluators}}
        entries = [entry for entry in objective.subject_to if entry.metric != objective.score]
        for entry in entries:
            if entry.metric not in units:
                raise ConfigError(
                    f"subject_to names the metric {entry.metric!r}; there are {sorted(units)}."
                )
        return tuple(
            Guardrail(
                entry.metric,
                entry.margin,
                unit=units[entry.metric],
                lower_is_better=bool(units[entry.metric]) or entry.metric == "errors",
                aggregate="relative" if units[entry.metric] else "mean",
            )
            for entry in entries
        )

    def unchosen_margins(self, guardrails: Sequence[Guardrail]) -> frozenset[str]:
        """The metrics of guardrails whose margin the configuration does not name."""
        objective = self.config.objective
        chosen = {section.metric for section in self.config.guardrails}
        chosen |= {entry.metric for entry in objective.subject_to} | {objective.minimise or ""}
        return frozenset(guardrail.metric for guardrail in guardrails) - chosen

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
        """The part of the configuration that determines the course of learning alone."""
        config = self.config
        return {
            "improve": msgspec.to_builtins(config.improve.model_dump(exclude={"seed"})),
            "checks": config.checks.model_dump(),
        }


def _with_captured(own: Dataset, latest: Dataset) -> tuple[Dataset, int]:
    """The tasks of a file with those captured for a version of it, and the number of the latter."""
    from ratchet.curate.split import input_key

    ids = {task.id for task in own.tasks}
    inputs = {input_key(task.input) for task in own.tasks}
    captured = [
        task
        for task in latest.tasks
        if task.origin.made == "captured"
        and task.id not in ids
        and input_key(task.input) not in inputs
    ]
    if not captured:
        return own, 0
    merged = msgspec.structs.replace(
        own,
        tasks=(*own.tasks, *captured),
        splits={**own.splits, **{task.id: latest.splits[task.id] for task in captured}},
        reason=f"The task file was changed; {counted(len(captured), 'captured task')} stay.",
    )
    if merged.version == latest.version:
        return latest, len(captured)
    return msgspec.structs.replace(merged, parent=latest.version), len(captured)
