"""Evaluators for a project: proposed, tried in the sandbox, measured, and written to its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from ratchet.autopilot.coach import coach_models, open_coach
from ratchet.autopilot.config import read_config
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_evaluators import objective_of, project_evaluator, project_evaluators
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.evaluate.generation import (
    KnownOutput,
    ProposedEvaluator,
    contained_evaluator,
    propose_by_llm,
    propose_from_data,
    python_module,
    toml_tables,
)
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.observe.project_paths import FILE_NAME
from ratchet.run.program import AnyAgent
from ratchet.sandbox import SandboxPool, function_pool
from ratchet.store import Store
from ratchet.types import (
    ConfigError,
    InputError,
    PromptTemplate,
    RatchetError,
    ReportCard,
    Rollout,
    is_bad,
)
from ratchet.worker.evaluator import Evaluator, basis_of

MODULE = "generated_evaluators"
"""Name of the module that accepted functions are written to."""

ROLLOUTS = 400
"""Newest rollouts that are read."""

KEPT_VERDICTS = ("decides", "advises", "insufficient")

PAGE = 500


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal and what came of it."""

    proposal: ProposedEvaluator
    card: ReportCard | None = None
    """None for a bound of latency or cost, which is a measurement, and after an error."""
    error: str = ""
    """Why it cannot be tried."""

    @property
    def kept(self) -> bool:
        """Whether it is worth having."""
        return not self.error and (self.card is None or self.card.verdict in KEPT_VERDICTS)


def known_rollouts(project: Project, store: Store, *, most: int = ROLLOUTS) -> list[Rollout]:
    """Newest successful rollouts of tasks that learning may see, which excludes test tasks.

    Args:
        project: The project.
        store: Its store.
        most: Maximum number.
    """
    dataset, _ = project_dataset(project, skip_bad=True)
    sealed = {task.id for task in dataset.split("test")}
    rollouts: list[Rollout] = []
    cursor = None
    while len(rollouts) < most:
        page, cursor = store.rollouts.list(status="succeeded", limit=PAGE, cursor=cursor)
        rollouts += [rollout for rollout in page if rollout.task_id not in sealed]
        if cursor is None:
            break
    return rollouts[:most]


def examples_of(
    store: Store, rollouts: Sequence[Rollout], objective: Evaluator | None
) -> list[KnownOutput]:
    """What is known of each rollout's output.

    People's labels come first, then their feedback, then the objective's score where that compares
    with the expected answer: 1 is good, below one half is bad.
    """
    labels: dict[str, list[float]] = {}
    for label in store.labels.list(criterion=""):
        labels.setdefault(label.rollout_id, []).append(label.value)
    cursor: str | None = None
    felt: dict[str, bool] = {}
    for _ in range(20):
        items, cursor = store.feedback.list(limit=PAGE, cursor=cursor)
        for item in items:
            if item.rollout_id and (item.value is not None or is_bad(item)):
                felt.setdefault(item.rollout_id, not is_bad(item))
        if cursor is None:
            break
    trusted = objective is not None and basis_of(objective) != "opinion"
    scores = store.scores.of([rollout.id for rollout in rollouts]) if trusted else {}
    examples = []
    for rollout in rollouts:
        score: float | None = None
        good: bool | None = felt.get(rollout.id)
        if good is None and objective is not None:
            values = [
                score.value
                for score in scores.get(rollout.id, ())
                if (score.evaluator, score.version) == (objective.name, objective.version)
            ]
            if values and values[-1] is not None:
                score = values[-1]
                good = True if values[-1] >= 1 else False if values[-1] < 0.5 else None
        if label_values := labels.get(rollout.id):
            mean = sum(label_values) / len(label_values)
            good = None if mean == 0.5 else mean > 0.5
        examples.append(
            KnownOutput(
                input=rollout.input,
                output=rollout.output,
                expected=rollout.expected,
                good=good,
                score=score,
                duration_s=rollout.duration_s,
                cost_usd=rollout.cost_usd,
            )
        )
    return examples


async def generate_evaluators(
    project: Project,
    store: Store,
    agent: AnyAgent,
    rollouts: Sequence[Rollout],
    *,
    ask: bool | None = None,
    count: int = 6,
    say: Callable[[str], None] = lambda _: None,
    seed: int = 0,
) -> list[Generated]:
    """Propose evaluators and measure each.

    Args:
        project: The project.
        store: Its store.
        agent: Its agent.
        rollouts: Outputs to learn from.
        ask: Whether to ask the coach too; by default if [coach] names a model.
        count: Maximum number of evaluators to ask it for.
        say: Called with sentences for the user.
        seed: Seed of what is drawn.

    Raises:
        InputError: There are too few outputs.
        CoachUnavailable: The coach is to be asked and cannot be.
        SandboxUnavailable: Code is to be tried, and no sandbox is available.
    """
    evaluators = project_evaluators(project)
    name = objective_of(project.config, evaluators, agent)
    objective = next((evaluator for evaluator in evaluators if evaluator.name == name), None)
    examples = examples_of(store, rollouts, objective)
    existing = [(section.use, section.options) for section in project.config.evaluators]
    proposals = [
        proposal
        for proposal in propose_from_data(examples, seed=seed)
        if (proposal.use, proposal.options) not in existing
    ]
    if ask if ask is not None else bool(coach_models(project.config.coach)):
        descriptions = [
            f"{evaluator.name}: {basis_of(evaluator)}"
            for evaluator in evaluators
            if not evaluator.unit
        ]
        proposals += await _asked(project, store, agent, examples, descriptions, count, say, seed)
        judged = sum(proposal.use == "judge" for proposal in proposals)
        if judged:
            say(
                f"{judged} of the proposals are rubrics: measuring them takes a model call for each"
                " output and copy of their report cards, and each later score takes another."
            )
    taken_names = {evaluator.name for evaluator in evaluators}
    proposals = [_renamed(proposal, taken_names) for proposal in proposals]
    cases = make_cases(rollouts, store.labels.list(criterion=""))
    async with function_pool(level=project.config.sandbox.level) as pool:
        generated = []
        for number, proposal in enumerate(proposals, start=1):
            say(f"Measuring {proposal.name} ({number} of {len(proposals)}).")
            try:
                evaluator = _evaluator(project, proposal, pool)
                evaluator.attach(store)
                card = None
                if proposal.made_by != "bounds":
                    card = await make_card(evaluator, cases, spans_of=store.spans.of, seed=seed)
                generated.append(Generated(proposal=proposal, card=card))
            except RatchetError as error:
                generated.append(Generated(proposal=proposal, error=error.message))
    return generated


async def _asked(
    project: Project,
    store: Store,
    agent: AnyAgent,
    examples: Sequence[KnownOutput],
    descriptions: Sequence[str],
    count: int,
    say: Callable[[str], None],
    seed: int,
) -> list[ProposedEvaluator]:
    asking: Any = SimpleNamespace(name="evaluators generate", needs_coach=True)
    section = project.config.coach
    async with open_coach(
        section,
        asking,
        store=store,
        run_id="evaluators-generate",
        seed=seed,
        redactor=project.redactor(),
        say=say,
        folder=project.root,
    ) as coach:
        assert coach is not None  # or it was refused
        proposals, refused = await propose_by_llm(
            coach, examples, agent=_told(agent), existing=descriptions, count=count
        )
    for sentence in refused:
        say(sentence)
    return proposals


def _told(agent: AnyAgent) -> str:
    """The agent's prompts and source, as far as they are known."""
    parts = [f"It is called {agent.spec.entry}."]
    for name, declaration in sorted(agent.declarations.items()):
        resource = declaration.resource
        text = resource.text if isinstance(resource, PromptTemplate) else repr(resource)
        parts.append(f"Its resource {name!r}:\n{text}")
    return "\n\n".join(parts)


def _renamed(proposal: ProposedEvaluator, taken_names: set[str]) -> ProposedEvaluator:
    """The proposal under a name that is not taken; a function keeps its name."""
    name = proposal.name
    while name in taken_names and not proposal.source:
        name += "_2"
    taken_names.add(name)
    return msgspec.structs.replace(proposal, name=name)


def _evaluator(project: Project, proposal: ProposedEvaluator, pool: SandboxPool) -> Any:
    if proposal.source:
        return contained_evaluator(proposal, pool)
    return project_evaluator(project, proposal.use, proposal.options, name=proposal.name)


def write_evaluators(root: Path, accepted: Sequence[ProposedEvaluator]) -> list[Path]:
    """Write accepted evaluators into a project: a module with the functions, and ratchet.toml.

    Both are written whole or not at all. An existing module is left alone; another name is used.

    Returns:
        The files that were written or changed.

    Raises:
        InputError: There is nothing to write.
        ConfigError: ratchet.toml would not be valid; nothing was changed.
    """
    if not accepted:
        raise InputError("No evaluator was kept, so there is nothing to write.")
    module = MODULE
    number = 1
    while (root / f"{module}.py").exists():
        number += 1
        module = f"{MODULE}_{number}"
    text = python_module(accepted)
    file, config = root / f"{module}.py", root / FILE_NAME
    before = config.read_text(encoding="utf-8")
    after = before.rstrip("\n") + "\n\n" + toml_tables(accepted, module)
    draft = root / f".{FILE_NAME}.new"
    try:
        if text:
            file.write_text(text, encoding="utf-8")
        draft.write_text(after, encoding="utf-8")
        read_config(draft)
        os.replace(draft, config)
    except (RatchetError, OSError) as error:
        draft.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        raise ConfigError(
            f"The evaluators cannot be added to {FILE_NAME}: {error}",
            hint="Nothing was changed.",
        ) from error
    return [*([file] if text else []), config]
