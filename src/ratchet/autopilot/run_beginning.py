"""The run that an `improve` begins or continues."""

from __future__ import annotations

import time

import msgspec

from ratchet._version import __version__
from ratchet.autopilot.coach import coach_identity
from ratchet.autopilot.earlier_runs import continued_run, note_continuation
from ratchet.autopilot.improve_run import ImproveRun
from ratchet.autopilot.planned_tasks import tasks_to_continue
from ratchet.autopilot.project_tasks import keep_dataset
from ratchet.autopilot.run_outcome import CHOSEN
from ratchet.types import Conflict, Run, content_hash


def begin_run(work: ImproveRun, only_run: str | None) -> Run:
    """The stored run with the same agent, tasks and settings, or a new one.

    Raises:
        Conflict: It is not `only_run`.
    """
    conditions = [
        work.identity,
        work.agent.spec.entry,
        work.agent.source_version(),
        work.baseline.id,
        work.project.conditions(),
        __version__,
    ]
    rules = [
        *conditions,
        [[e.name, e.version] for e in work.evaluators],
        work.project.rules(),
        msgspec.to_builtins(work.configured_guardrails),
        work.seed,
        *(work.chosen.identity if work.chosen is not None else []),
    ]
    if work.seeks_no_worse:
        rules.append([work.algorithm.name, work.project.config.improve.options])
    learning = [
        *rules,
        work.dataset.version,
        work.project.learning(),
        *coach_identity(work.project.config.coach, work.algorithm),
    ]
    now = time.time()
    run = Run(
        id=content_hash(learning),
        agent=work.agent.spec.entry,
        seed=work.seed,
        stage="baseline",
        created_at=now,
        updated_at=now,
        dataset_version=work.dataset.version,
        baseline_id=work.baseline.id,
        project=work.identity,
        conditions=content_hash(conditions),
        rules=content_hash(rules),
    )
    stored = work.store.runs.get(run.id)
    goes_on = stored
    if stored is None and not work.by_judge:  # the pairs to label are drawn from all, at first
        goes_on = continued_run(run, work.dataset, work.store, answered=work.answered)
    if only_run is not None and (goes_on or run).id != only_run:
        raise Conflict(
            f"The agent, its tasks or its settings have changed since run {only_run[:12]}, so its "
            "proof no longer applies.",
            hint="Undo the change, or prove it again in a new run.",
        )
    if stored is None:
        keep_dataset(work.project, work.dataset, work.store, now)
    if goes_on is None:
        work.store.candidates.put(work.baseline, now)
        work.store.runs.put(run)
        if work.chosen is not None:
            work.store.journal.append(run.id, CHOSEN, work.chosen.choice, now)
        return run
    if stored is None and goes_on.stage == "not_proved":
        added = tasks_to_continue(goes_on, work.dataset, work.store, answered=work.answered)
        if added:
            return _continued(work, goes_on, run, added)
    if goes_on.dataset_version != work.dataset.version:
        # Tasks were added to its comparison since, which it keeps.
        work.dataset = work.store.datasets.get(goes_on.dataset_version)
    return goes_on


def _continued(work: ImproveRun, run: Run, instead_of: Run, added: int) -> Run:
    """Continue the comparison of a run that was not proved, with the tasks that were added."""
    work.watcher.message(
        f"{added} test task{'s were' if added > 1 else ' was'} added: the comparison of"
        f" candidate {run.best_id[:8]}, which was not proved, continues. To learn again instead:"
        f" ratchet improve --seed {run.seed + 1}."
    )
    note_continuation(run, instead_of, work.store)
    continued = msgspec.structs.replace(
        run,
        stage="prove",
        dataset_version=work.dataset.version,
        earlier_versions=(*run.earlier_versions, run.dataset_version),
        updated_at=time.time(),
    )
    work.store.runs.put(continued)
    return continued
