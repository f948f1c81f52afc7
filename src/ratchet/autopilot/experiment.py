"""Run an experiment: paired rollouts on held-out tasks until the comparison has a verdict."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from ratchet.autopilot.frozen_guards import FrozenGuards, frozen_guards
from ratchet.autopilot.paired_rollouts import paired_score
from ratchet.autopilot.planned_tasks import PlannedTasks, planned_tasks
from ratchet.autopilot.watcher import Watcher
from ratchet.evaluate import Scorer
from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    Guardrail,
    PairedScore,
    RepetitionPlan,
    decision,
    drawn_pairs,
    drawn_repetition,
    fewest_pairs_to_promote,
    level,
    write_evidence,
)
from ratchet.prove.frozen import Draw
from ratchet.prove.prospect import has_prospect
from ratchet.prove.smallest_margin import pairs_to_pass, smallest_margin
from ratchet.run import Runner
from ratchet.run.paid import PaidRunner
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Dataset,
    Decision,
    Experiment,
    FrozenSet,
    Rollout,
    Run,
    Score,
    Task,
    content_hash,
    version_of,
)
from ratchet.types.wording import counted

PlanRepetitions: TypeAlias = Callable[[ExperimentPlan], Awaitable[RepetitionPlan]]
"""How many times each task of an experiment is run; a later call gives the same answer."""


class ExperimentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs and settings of an experiment."""

    project: str
    """Identifies the project among others on the same store; see `Project.identity`."""
    run: Run
    baseline: Candidate
    candidate: Candidate
    dataset: Dataset
    answered: bool = False
    """Whether only tasks with an expected answer take part, since the objective needs one."""
    objective: str
    alpha: float
    """Error budget of the whole stream of experiments of this project, agent and objective."""
    min_gain: float
    margin: float = 0.0
    """How much lower the candidate may score; 0 where it has to be better."""
    harm_alpha: float
    futility_alpha: float
    min_pairs: int
    guardrails: tuple[Guardrail, ...]
    widened: frozenset[str] = frozenset()
    """Guardrails whose margin nobody has chosen: it is widened to the smallest that the planned
    pairs can prove, if that is larger."""
    minimised: str = ""
    """The guardrail whose metric has to fall; empty for none."""
    max_attempts: int
    queue: str
    labels: int = 0
    """Test pairs that people label, when the objective is a judge's score; else 0."""
    frozen: tuple[FrozenSet, ...] = ()
    """Sets of the project's fixed problems, in the order in which they are chosen."""


async def run_experiment(
    setting: ExperimentSettings,
    *,
    store: Store,
    runner: Runner | PaidRunner,
    scorer: Scorer,
    evidence_dir: Path,
    watcher: Watcher,
    plan_repetitions: PlanRepetitions | None = None,
    trust: Mapping[str, str] | None = None,
    learned: float | None = None,
) -> Experiment:
    """Compare a candidate with the baseline on the test split. A killed experiment resumes.

    Args:
        setting: Candidates, tasks and rules.
        store: Stores the experiment.
        runner: Runs the rollouts.
        scorer: Scores them.
        evidence_dir: Folder for the evidence file.
        watcher: Receives progress events.
        plan_repetitions: Called before the first pair; once without.
        trust: What the objective's evaluator may do and why, for the evidence.
        learned: The candidate's gain as learning saw it: the comparison ends where it has no
            prospect any more. None to run every pair that the verdict takes.

    Returns:
        The experiment with its decision; its evidence is written. When people's labels are needed
        and missing, there is neither: the decision is withheld, and made when it is run again.

    Raises:
        ConfigError: There is no test task.
    """
    planned = _planned(setting, store)
    tasks = planned.tasks
    experiment = _begin(setting, store)
    plan = _plan(setting, experiment.alpha, planned.totals)
    for sentence in _widened(setting, plan):
        watcher.message(sentence)
    if plan_repetitions:
        repeated = await plan_repetitions(msgspec.structs.replace(plan, labels=0))
    else:
        repeated = RepetitionPlan()
    if repeated.sentence:
        watcher.message(repeated.sentence)
    guards = frozen_guards(
        experiment,
        setting.frozen,
        store,
        answered=setting.answered,
        draws=repeated.count * plan.max_pairs,
        planning=len(planned.totals),
    )
    for sentence in guards.sentences:
        watcher.message(sentence)
    plan = msgspec.structs.replace(plan, repetitions=repeated.count, frozen=guards.plan)
    comparison = Comparison(plan)
    watcher.expects(2 * plan.repetitions * len(tasks))
    at_once = max(1, max(4, runner.slots) // plan.repetitions)
    labels = _labels(store)
    labelled_numbers = frozenset(drawn_pairs(plan))
    for start in range(0, len(tasks), at_once):
        batch = tasks[start : start + at_once]
        pairs = await _pairs(setting, batch, plan.repetitions, runner, scorer, watcher)
        for number, pair in enumerate(pairs, start):
            if number in labelled_numbers:
                pair = _with_labels(pair, drawn_repetition(plan, number), labels)
            comparison.observe(pair)
            watcher.pair(comparison, len(tasks))
            if comparison.verdict is not None or comparison.proved:
                break
        if comparison.verdict is not None or comparison.proved:
            break
        if learned is not None and not plan.labels and not has_prospect(comparison, learned):
            watcher.message(
                f"The proof ends after {len(comparison.pairs)} of"
                f" {counted(len(tasks), 'test task')}:"
                f" proving {'it no worse' if plan.margin else 'a gain'} has become unlikely."
            )
            break
    await _run_frozen(setting, experiment, comparison, guards, runner, scorer, watcher)
    comparison.finish()
    decided = decision(comparison)
    if decided.verdict == "unconfirmed" and comparison.audit and comparison.audit.waiting:
        watcher.message(_withheld(experiment, comparison.audit.waiting, decided))
        return experiment
    path = evidence_dir / f"{experiment.id[:12]}.json"
    write_evidence(
        path,
        comparison,
        baseline=_described(setting.baseline),
        candidate=_described(setting.candidate),
        dataset={
            "name": setting.dataset.name,
            "version": setting.dataset.version,
            "split": "test",
            "tasks": len(tasks),
        },
        budget=setting.alpha,
        history=experiment.history,
        created_at=experiment.created_at,
        context={
            "run": setting.run.id,
            "experiment": experiment.id,
            "project": setting.project,
            "agent": setting.run.agent,
            **({"repetitions": repeated.sentence} if repeated.sentence else {}),
            **({"evaluator": dict(trust)} if trust else {}),
            **({"frozen": list(guards.sentences)} if guards.sentences else {}),
        },
    )
    return _end(experiment, decided, path, setting.dataset.version, store)


def reach(setting: ExperimentSettings, store: Store) -> list[str]:
    """Sentences on what the test tasks cannot prove, whatever the candidate, before it is learned.

    It is stated for the level of an experiment created now.
    """
    alpha = next_level(setting, store)
    tasks = len(setting.dataset.split("test", answered=setting.answered))
    if not tasks:
        return []  # an error of its own once they are planned
    plan = _plan(setting, alpha, (tasks,))
    min_pairs = _pairs_that_prove(plan)
    sentences = []
    if min_pairs > tasks:
        sentences.append(
            f"{tasks} test {'task' if tasks == 1 else 'tasks'} cannot prove a gain: even a perfect"
            f" candidate needs about {counted(min_pairs, 'test task')}. Learning runs all the same,"
            " and test tasks that are added later continue the comparison."
        )
    for guardrail in plan.guardrails:
        if guardrail.metric in setting.widened or guardrail.metric == setting.minimised:
            continue
        takes = pairs_to_pass(guardrail.bound, alpha=alpha, pairs=min_pairs)
        if takes is None:
            sentences.append(
                f"Guardrail {guardrail.metric}: no number of test tasks proves a margin of"
                f" {guardrail.margin:g}, so nothing can be promoted. Widen the margin under"
                " [[guardrails]]."
            )
        elif takes > min_pairs:
            least_margin = smallest_margin(guardrail, alpha=alpha, pairs=min_pairs).margin
            sentences.append(
                f"Guardrail {guardrail.metric}: a margin of {guardrail.margin:g} takes about"
                f" {counted(takes, 'test task')} to prove, and {min_pairs} can prove only"
                f" {least_margin:g}. Nothing can be promoted until you add test tasks or widen the"
                " margin under [[guardrails]]."
            )
    return sentences


def next_level(setting: ExperimentSettings, store: Store) -> float:
    """The level of an experiment created now."""
    return level(setting.alpha, store.experiments.promotions(_stream(setting)))


def _plan(setting: ExperimentSettings, alpha: float, totals: Sequence[int]) -> ExperimentPlan:
    """The plan of an experiment.

    Its margins are those of the first planning: tasks that are added later do not change them.

    Args:
        setting: The rules.
        alpha: Its level.
        totals: Number of tasks after each planning.
    """
    first, most = totals[0], totals[-1]
    plan = ExperimentPlan(
        metric=setting.objective,
        alpha=alpha,
        min_gain=setting.min_gain,
        margin=setting.margin,
        harm_alpha=setting.harm_alpha,
        futility_alpha=setting.futility_alpha,
        min_pairs=min(setting.min_pairs, first),
        max_pairs=first,
        seed=setting.run.seed,
    )
    pairs = _pairs_that_prove(plan)
    guardrails = tuple(
        smallest_margin(guardrail, alpha=alpha, pairs=pairs)
        if guardrail.metric in setting.widened
        else guardrail
        for guardrail in setting.guardrails
    )
    return msgspec.structs.replace(
        plan,
        guardrails=guardrails,
        max_pairs=most,
        stages=tuple(totals[:-1]),
        labels=min(setting.labels, most),
    )


def _pairs_that_prove(plan: ExperimentPlan) -> int:
    """The planned number of pairs, or the next larger one that can promote a perfect candidate."""
    bare = msgspec.structs.replace(plan, guardrails=())
    pairs = plan.max_pairs
    while fewest_pairs_to_promote(msgspec.structs.replace(bare, max_pairs=pairs)) is None:
        pairs += 1
    return pairs


def _widened(setting: ExperimentSettings, plan: ExperimentPlan) -> list[str]:
    """A sentence on the margins that are wider than by default, since there are few pairs."""
    chosen = {guardrail.metric: guardrail.margin for guardrail in setting.guardrails}
    limits = []
    for guardrail in plan.guardrails:
        if guardrail.margin != chosen[guardrail.metric]:
            relative = guardrail.aggregate == "relative"
            most = f"{100 * guardrail.margin:.0f} %" if relative else f"{guardrail.margin:g}"
            limits.append(f"{guardrail.metric} by {most}")
    if not limits:
        return []
    return [
        f"With so few test tasks, the guardrails have wide limits: a candidate may raise"
        f" {', '.join(limits)}. More test tasks make them tighter."
    ]


def _planned(setting: ExperimentSettings, store: Store) -> PlannedTasks:
    return planned_tasks(setting.run, setting.dataset, store, answered=setting.answered)


def pairs_to_label(
    setting: ExperimentSettings, repetitions: int, store: Store
) -> list[tuple[str, str]]:
    """Ids of the rollouts of baseline and candidate that people label, pair by pair, in order."""
    planned = _planned(setting, store)
    tasks = planned.tasks
    plan = msgspec.structs.replace(
        _plan(setting, setting.alpha, planned.totals), repetitions=repetitions
    )
    return [
        (
            _rollout(setting, setting.baseline, tasks[number], repetition).id,
            _rollout(setting, setting.candidate, tasks[number], repetition).id,
        )
        for number in drawn_pairs(plan)
        for repetition in (drawn_repetition(plan, number),)
    ]


def _labels(store: Store) -> dict[str, float]:
    """People's labels of whole outputs by rollout; the mean of several labellers."""
    label_values: dict[str, list[float]] = {}
    for label in store.labels.list(criterion=""):
        if label.rollout_id:
            label_values.setdefault(label.rollout_id, []).append(label.value)
    return {id: sum(values) / len(values) for id, values in label_values.items()}


def _with_labels(pair: PairedScore, repetition: int, labels: Mapping[str, float]) -> PairedScore:
    """The pair with people's labels, if both answers have one; no answer counts as wrong."""
    answers = pair.repetitions[repetition] if pair.repetitions else pair
    sides = (("baseline", answers.baseline_rollout), ("candidate", answers.candidate_rollout))
    values = [0.0 if side in answers.failed else labels.get(id) for side, id in sides]
    before, after = values
    if before is None or after is None:
        return pair
    return msgspec.structs.replace(pair, labels=(before, after))


def _withheld(experiment: Experiment, waiting: int, decided: Decision) -> str:
    return (
        f"The decision is withheld: {decided.metric} is a judge's score, by which alone nothing is"
        f" promoted. Label {counted(waiting, 'more pair')} of answers: ratchet label --experiment"
        f" {experiment.id[:8]}. Then run the same command again."
    )


def stream_of(project: str, agent: str, objective: str) -> str:
    """Key of the experiments that share one alpha budget: same project, agent and objective."""
    return msgspec.json.encode([project, agent, objective]).decode()


def _stream(setting: ExperimentSettings) -> str:
    return stream_of(setting.project, setting.run.agent, setting.objective)


def _begin(setting: ExperimentSettings, store: Store) -> Experiment:
    stream = _stream(setting)
    begins = Experiment(
        id=content_hash([setting.run.id, setting.candidate.id, stream, "experiment"]),
        run_id=setting.run.id,
        baseline_id=setting.baseline.id,
        candidate_id=setting.candidate.id,
        dataset_version=setting.dataset.version,
        stream=stream,
        history=(),
        alpha=setting.alpha,
        created_at=time.time(),
    )
    return store.experiments.begin(begins, lambda history: level(setting.alpha, history))


def _end(
    experiment: Experiment, decided: Decision, path: Path, dataset_version: str, store: Store
) -> Experiment:
    ended = msgspec.structs.replace(
        experiment,
        decision=decided,
        evidence_path=str(path),
        dataset_version=dataset_version,
    )
    store.experiments.put(ended)
    return ended


def _described(candidate: Candidate) -> dict[str, object]:
    return {
        "id": candidate.id,
        "algorithm": candidate.algorithm,
        "resources": {
            name: {"version": version_of(resource), **msgspec.to_builtins(resource.identity())}
            for name, resource in candidate.resources.items()
        },
    }


async def _pairs(
    setting: ExperimentSettings,
    tasks: Sequence[Task],
    repetitions: int,
    runner: Runner | PaidRunner,
    scorer: Scorer,
    watcher: Watcher,
) -> list[PairedScore]:
    sides = (setting.baseline, setting.candidate)
    pairs = {
        (task.id, repetition): [_rollout(setting, side, task, repetition) for side in sides]
        for task in tasks
        for repetition in range(repetitions)
    }
    ended, scores = await _run_scored(setting, pairs.values(), runner, scorer, watcher)
    scored = {
        key: paired_score(
            key[0],
            ended[baseline.id],
            ended[candidate.id],
            scores,
            objective=setting.objective,
            metrics=[guardrail.metric for guardrail in setting.guardrails],
        )
        for key, (baseline, candidate) in pairs.items()
    }
    return [
        PairedScore.of_repetitions(
            [scored[task.id, repetition] for repetition in range(repetitions)]
        )
        for task in tasks
    ]


async def _run_scored(
    setting: ExperimentSettings,
    pairs: Iterable[Sequence[Rollout]],
    runner: Runner | PaidRunner,
    scorer: Scorer,
    watcher: Watcher,
) -> tuple[dict[str, Rollout], Mapping[str, Mapping[str, Score]]]:
    """Run pairs of rollouts and score them; returns the ended rollouts and their scores by id."""
    rollouts: list[Rollout] = []
    for pair in pairs:
        # Randomise which side runs first: one-time costs of the first of two calls are shared.
        rollouts.extend(pair if pair[0].seed % 2 else reversed(pair))
    ended = await runner.run(rollouts, (setting.baseline, setting.candidate), watcher.rollout)
    return ended, await scorer.score(ended.values())


async def _run_frozen(
    setting: ExperimentSettings,
    experiment: Experiment,
    comparison: Comparison,
    guards: FrozenGuards,
    runner: Runner | PaidRunner,
    scorer: Scorer,
    watcher: Watcher,
) -> None:
    """Run draws of the frozen sets until they are decided; none unless the pairs promote."""
    frozen = comparison.frozen
    if frozen is None or not comparison.proved:
        return
    watcher.message("The pairs promote the candidate; now its frozen sets are run.")
    watcher.expects(2 * frozen.plan.draws)
    sides = (setting.baseline, setting.candidate)
    while draws := frozen.next_draws(max(2, runner.slots // 2)):
        drawn = [
            (draw, [_drawn(setting, experiment, side, guards, draw) for side in sides])
            for draw in draws
        ]
        ended, scores = await _run_scored(
            setting, [pair for _, pair in drawn], runner, scorer, watcher
        )
        for draw, (before, after) in drawn:
            pair = paired_score(
                draw.task_id, ended[before.id], ended[after.id], scores, objective=setting.objective
            )
            if comparison.observe_draw(draw.set_id, pair) is not None:
                return


def _drawn(
    setting: ExperimentSettings,
    experiment: Experiment,
    candidate: Candidate,
    guards: FrozenGuards,
    draw: Draw,
) -> Rollout:
    """A draw's rollout: of this experiment and this draw alone, so that none is found cached."""
    own = ["frozen", experiment.id, draw.set_id, draw.number]
    return Rollout.of(
        guards.task(draw.set_id, draw.task_id),
        candidate.id,
        scope=[setting.run.id, *own],
        seed_parts=[setting.run.seed, *own],
        queue=setting.queue,
        purpose=f"prove/{setting.run.id}",
        max_attempts=setting.max_attempts,
    )


def _rollout(
    setting: ExperimentSettings, candidate: Candidate, task: Task, repetition: int
) -> Rollout:
    return Rollout.of(
        task,
        candidate.id,
        scope=[setting.run.id, "prove", repetition],
        seed_parts=[setting.run.seed, "prove", repetition],
        queue=setting.queue,
        purpose=f"prove/{setting.run.id}",
        max_attempts=setting.max_attempts,
    )
