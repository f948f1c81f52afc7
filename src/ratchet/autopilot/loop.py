"""The loop as a persisted state machine: baseline → learn → prove → ship.

Every stage may be killed at any time and entered again: it finds its paid results in the store by
content, and reaches the same end.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ratchet.autopilot.agent_model import agent_model, in_thread
from ratchet.autopilot.baseline_stage import check_before, measure_baseline
from ratchet.autopilot.chosen_candidate import ProofWanted
from ratchet.autopilot.coach import open_coach
from ratchet.autopilot.import_binding import check_import_binding
from ratchet.autopilot.improve_run import ImproveRun
from ratchet.autopilot.learn_stage import dry_learn, learn
from ratchet.autopilot.problem_states import settle
from ratchet.autopilot.problem_work import begin_work
from ratchet.autopilot.project import Project
from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.prompt_discovery import discover_prompts
from ratchet.autopilot.proof_stage import prove
from ratchet.autopilot.pulse import pulse
from ratchet.autopilot.run_beginning import begin_run
from ratchet.autopilot.run_spending import RolloutCap
from ratchet.autopilot.runner import open_runner
from ratchet.autopilot.ship_stage import propose, ship_candidate
from ratchet.autopilot.task_inputs import check_task_inputs, same_for_all
from ratchet.autopilot.watcher import Watcher
from ratchet.run import FileLock
from ratchet.run.paid import CappedRunner, RolloutRunner
from ratchet.ship import check_clean
from ratchet.store import Store
from ratchet.types import Problem, RatchetError, Run, Stage

FINAL_STAGES: frozenset[Stage] = frozenset({"shipped", "no_gain", "not_proved"})

WITH_RUNNER: dict[Stage, Callable[[ImproveRun, RolloutRunner], Awaitable[None]]] = {
    "baseline": measure_baseline,
    "learn": learn,
    "prove": prove,
}
"""The action of each stage that runs the agent."""


async def improve(
    project: Project,
    store: Store,
    *,
    watcher: Watcher,
    seed: int | None = None,
    skip_bad: bool = False,
    ship_it: bool = True,
    only_run: str | None = None,
    at_most: int | None = None,
    chosen: ProofWanted | None = None,
    problem: Problem | None = None,
) -> Run:
    """Run the loop once for the project's agent, or resume an interrupted run.

    Args:
        project: The project.
        store: Its store.
        watcher: Receives progress events.
        seed: Seed of the search and of the order of pairs; the configuration's by default.
        skip_bad: Skip malformed lines of the task file.
        ship_it: Create the branch; False stops before it.
        only_run: Id of the run to resume; no other is begun.
        at_most: Rollouts that all stages together may take; the proof's are kept from learning.
        chosen: A candidate to prove and ship; nothing is learned then.
        problem: The problem that it works on; see `problem_work.prepare`.

    Returns:
        The run: shipped, without gain, not proved, or (with `ship_it` False) about to ship.

    Raises:
        Conflict: Another `improve` is running in this project; or the agent, its tasks or its
            settings are others than in `only_run`.
        RatchetError: A stage failed; the failure is recorded in the run, which resumes there.
    """
    begun = time.time()
    with FileLock(
        project.prepare_state() / "locks" / "improve.lock", "`ratchet improve` in this project"
    ):
        async with in_thread(agent_model(project, watcher.message)):
            agent = project.load_agent()
            dataset, sentences = project_dataset(project, skip_bad=skip_bad, store=store)
            for sentence in sentences:
                watcher.message(sentence)
            check_task_inputs(agent, dataset.tasks)
            if sentence := same_for_all(agent, dataset.tasks):
                watcher.message(sentence)
            if agent.prompts_in_calls:
                if ship_it:
                    check_clean(project.root)
                await discover_prompts(project, store, agent, dataset, watcher.message)
            check_import_binding(project.config, agent.declarations)
            cap = None if at_most is None else RolloutCap(at_most, begun)
            work = ImproveRun(project, store, watcher, agent, dataset, seed, cap, chosen)
            work.take_up(begin_run(work, only_run))
            if problem is not None:
                begin_work(store, problem, work.run.id, time.time())
            try:
                with pulse(store, work.run.id, watcher):
                    return await _advance(work, ship_it)
            finally:
                settle(store, time.time())


async def _advance(work: ImproveRun, ship_it: bool) -> Run:
    """Run the remaining stages."""
    resumed = _resume(work)
    if work.run.stage in FINAL_STAGES:
        release = work.store.releases.get(work.run.release_id)
        if release is not None and release.state == "branched":
            propose(work, release)
        return work.run
    try:
        if work.run.stage in ("baseline", "learn"):
            await check_before(work)
        if ship_it:
            # Checked before anything is spent: a dirty tree would be refused at the end.
            files = [declaration.file for declaration in work.agent.declarations.values()]
            check_clean(work.project.root, [Path(file) for file in files if file])
        if work.run.stage == "baseline":
            await dry_learn(work)
        if work.run.stage != "ship":
            await _run_stages(work, resumed)
        if work.run.stage == "ship" and ship_it:
            work.watcher.entered(work.run, "ship", resumed)
            ship_candidate(work)
    except RatchetError as error:
        work.enter("failed", failed_at=work.run.stage, message=error.message)
        raise
    return work.run


def _resume(work: ImproveRun) -> bool:
    """Whether the run continues where it stopped; a failed run re-enters its stage."""
    if work.run.stage != "failed":
        return work.run.stage != "baseline" or work.rollouts_so_far > 0
    if work.run.failed_at == "baseline":
        # The cause of the failures (a service that was down, a missing key) may be fixed by now:
        # failed rollouts are run again.
        again = work.retries(work.run) + 1
        work.store.journal.append(work.run.id, f"again/{again:03d}", True, time.time())
    work.enter(work.run.failed_at, message="")
    return True


async def _run_stages(work: ImproveRun, resumed: bool) -> None:
    """Run the stages that run the agent, up to shipping, an end, or a wait for labels."""
    async with AsyncExitStack() as stack:
        if work.run.stage in ("baseline", "learn"):
            work.coach = await stack.enter_async_context(
                open_coach(
                    work.project.config.coach,
                    work.algorithm,
                    store=work.store,
                    run_id=work.run.id,
                    seed=work.run.seed,
                    redactor=work.project.redactor(),
                    say=work.watcher.message,
                    folder=work.project.root,
                )
            )
        runner: RolloutRunner = await stack.enter_async_context(
            open_runner(
                work.project,
                work.store,
                work.agent,
                work.run.id,
                work.watcher.message,
                take_over=True,
            )
        )
        if work.cap is not None:
            runner = CappedRunner(runner, work.store, work.run.id, work.cap.most, work.cap.since)
        while work.run.stage in WITH_RUNNER and not work.waits:
            work.watcher.entered(work.run, work.run.stage, resumed)
            await WITH_RUNNER[work.run.stage](work, runner)
            resumed = False
    for evaluator in work.evaluators:
        if sentence := getattr(evaluator, "spending", ""):
            work.watcher.message(sentence)
