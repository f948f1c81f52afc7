"""Run an experiment: paired rollouts on held-out tasks until the comparison has a verdict."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from ratchet.autopilot.watcher import Watcher
from ratchet.evaluate import Scorer
from ratchet.learn import objective_value
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
from ratchet.run import Runner
from ratchet.run.paid import PaidRunner
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    ConfigError,
    Dataset,
    Decision,
    Experiment,
    Rollout,
    Run,
    Score,
    Task,
    content_hash,
    version_of,
)

FAILED = ("failed", "timed_out", "crashed")

PlanRepetitions: TypeAlias = Callable[[ExperimentPlan], Awaitable[RepetitionPlan]]
"""How often each task of an experiment is run; the same whenever it is asked again."""


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
    harm_alpha: float
    futility_alpha: float
    min_pairs: int
    guardrails: tuple[Guardrail, ...]
    max_attempts: int
    queue: str
    labels: int = 0
    """Test pairs that people label, when the objective is a judge's score; else 0."""


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

    Returns:
        The experiment with its decision; its evidence is written. When people's labels are needed
        and missing, there is neither: the decision is withheld, and made when it is run again.

    Raises:
        ConfigError: At the experiment's level, not even a perfect candidate could be promoted. No
            experiment was created.
    """
    tasks = _ordered(setting)
    experiment = _begin(setting, store)
    plan = _plan(setting, experiment.alpha, len(tasks))
    if plan_repetitions:
        repeated = await plan_repetitions(msgspec.structs.replace(plan, labels=0))
    else:
        repeated = RepetitionPlan()
    if repeated.sentence:
        watcher.message(repeated.sentence)
    plan = msgspec.structs.replace(plan, repetitions=repeated.count)
    comparison = Comparison(plan)
    watcher.expects(2 * plan.repetitions * len(tasks))
    at_once = max(1, max(4, runner.slots) // plan.repetitions)
    labels = _labels(store)
    drawn = frozenset(drawn_pairs(plan))
    for start in range(0, len(tasks), at_once):
        batch = tasks[start : start + at_once]
        pairs = await _pairs(setting, batch, plan.repetitions, runner, scorer, watcher)
        for number, pair in enumerate(pairs, start):
            if number in drawn:
                pair = _with_labels(pair, drawn_repetition(plan, number), labels)
            comparison.observe(pair)
            watcher.pair(comparison, len(tasks))
            if comparison.verdict is not None:
                break
        if comparison.verdict is not None:
            break
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
        },
    )
    return _end(experiment, decided, path, store)


def check_reach(setting: ExperimentSettings, store: Store) -> None:
    """Check that there are enough test tasks to prove anything, before anything is spent.

    It uses the level of an experiment created now.

    Raises:
        ConfigError: Not even a perfect candidate could be promoted on them.
    """
    _level(setting, store.experiments.promotions(_stream(setting)))


def next_level(setting: ExperimentSettings, store: Store) -> float:
    """The level of an experiment created now."""
    return level(setting.alpha, store.experiments.promotions(_stream(setting)))


def _level(setting: ExperimentSettings, history: Sequence[bool]) -> float:
    """The level after this history; ConfigError when it is out of reach of the test tasks."""
    tasks = len(setting.dataset.split("test", answered=setting.answered))
    alpha = level(setting.alpha, history)
    if fewest_pairs_to_promote(_plan(setting, alpha, tasks)) is not None:
        return alpha
    enough = next(
        (
            pairs
            for most in (2 * tasks, 4 * tasks, 8 * tasks, 100, 1000, 10_000)
            if most > tasks and (pairs := fewest_pairs_to_promote(_plan(setting, alpha, most)))
        ),
        None,
    )
    needs = f"needs about {enough}" if enough else "cannot pass the guardrails' margins"
    raise ConfigError(
        f"{tasks} test tasks cannot prove a gain: even a perfect candidate {needs} at the level"
        f" {alpha:.3g} of the next experiment, after {len(history)} others.",
        hint="Add tasks (ratchet datasets capture makes them of traces), give test a larger share"
        " under [tasks] split, or widen the margins of [[guardrails]].",
    )


def _plan(setting: ExperimentSettings, alpha: float, tasks: int) -> ExperimentPlan:
    return ExperimentPlan(
        metric=setting.objective,
        alpha=alpha,
        min_gain=setting.min_gain,
        harm_alpha=setting.harm_alpha,
        futility_alpha=setting.futility_alpha,
        guardrails=setting.guardrails,
        min_pairs=min(setting.min_pairs, tasks),
        max_pairs=tasks,
        seed=setting.run.seed,
        labels=min(setting.labels, tasks),
    )


def pairs_to_label(setting: ExperimentSettings, repetitions: int) -> list[tuple[str, str]]:
    """Ids of the rollouts of baseline and candidate that people label, pair by pair, in order."""
    tasks = _ordered(setting)
    plan = msgspec.structs.replace(
        _plan(setting, setting.alpha, len(tasks)), repetitions=repetitions
    )
    return [
        (
            _rollout(setting, setting.baseline, tasks[number], each).id,
            _rollout(setting, setting.candidate, tasks[number], each).id,
        )
        for number in drawn_pairs(plan)
        for each in (drawn_repetition(plan, number),)
    ]


def _ordered(setting: ExperimentSettings) -> list[Task]:
    """The test tasks in the order of the pairs."""
    tasks = list(setting.dataset.split("test", answered=setting.answered))
    random.Random(setting.run.seed).shuffle(tasks)  # noqa: S311 - reproducible, not secret
    return tasks


def _labels(store: Store) -> dict[str, float]:
    """People's labels of whole outputs by rollout; the mean of several labellers."""
    found: dict[str, list[float]] = {}
    for label in store.labels.list(criterion=""):
        if label.rollout_id:
            found.setdefault(label.rollout_id, []).append(label.value)
    return {id: sum(values) / len(values) for id, values in found.items()}


def _with_labels(pair: PairedScore, repetition: int, labels: Mapping[str, float]) -> PairedScore:
    """The pair with people's labels, if both answers have one; no answer counts as wrong."""
    one = pair.repetitions[repetition] if pair.repetitions else pair
    sides = (("baseline", one.baseline_rollout), ("candidate", one.candidate_rollout))
    values = [0.0 if side in one.failed else labels.get(id) for side, id in sides]
    before, after = values
    if before is None or after is None:
        return pair
    return msgspec.structs.replace(pair, labels=(before, after))


def _withheld(experiment: Experiment, waiting: int, decided: Decision) -> str:
    return (
        f"The decision is withheld: {decided.metric} is a judge's score, by which alone nothing is"
        f" promoted. Label {waiting} more pairs of answers: ratchet label --experiment"
        f" {experiment.id[:8]}. Then run ratchet improve again."
    )


def _stream(setting: ExperimentSettings) -> str:
    """Key of the experiments that share one alpha budget: same project, agent and objective."""
    key = [setting.project, setting.run.agent, setting.objective]
    return msgspec.json.encode(key).decode()


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
    return store.experiments.begin(begins, lambda history: _level(setting, history))


def _end(experiment: Experiment, decided: Decision, path: Path, store: Store) -> Experiment:
    ended = msgspec.structs.replace(experiment, decision=decided, evidence_path=str(path))
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
    rollouts: list[Rollout] = []
    for pair in pairs.values():
        # Randomise which side runs first: one-time costs of the first of two calls are shared.
        rollouts.extend(pair if pair[0].seed % 2 else reversed(pair))
    ended = await runner.run(rollouts, sides, watcher.rollout)
    scores = await scorer.score(ended.values())
    scored = {
        key: _paired(setting, key[0], ended[baseline.id], ended[candidate.id], scores)
        for key, (baseline, candidate) in pairs.items()
    }
    return [
        PairedScore.of_repetitions([scored[task.id, each] for each in range(repetitions)])
        for task in tasks
    ]


def _paired(
    setting: ExperimentSettings,
    task_id: str,
    baseline: Rollout,
    candidate: Rollout,
    scores: Mapping[str, Mapping[str, Score]],
) -> PairedScore:
    before, after = scores[baseline.id], scores[candidate.id]
    sides = {"baseline": baseline, "candidate": candidate}
    return PairedScore(
        task_id=task_id,
        baseline=objective_value(baseline, before, setting.objective),
        candidate=objective_value(candidate, after, setting.objective),
        metrics={
            guardrail.metric: (
                _metric(guardrail.metric, baseline, before),
                _metric(guardrail.metric, candidate, after),
            )
            for guardrail in setting.guardrails
        },
        failed=tuple(name for name, side in sides.items() if side.status in FAILED),
        baseline_rollout=baseline.id,
        candidate_rollout=candidate.id,
    )


def _metric(name: str, rollout: Rollout, scores: Mapping[str, Score]) -> float | None:
    if name == "errors":
        ended = rollout.status in FAILED or rollout.status == "succeeded"
        return float(rollout.status in FAILED) if ended else None
    score = scores.get(name)
    return score.value if score is not None else None


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
