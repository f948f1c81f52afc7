"""The stage learn: what an algorithm finds, and which candidates go to the proof."""

from __future__ import annotations

import math
import time

import msgspec

from ratchet.autopilot.baseline_stage import trust_once
from ratchet.autopilot.checks import checked_finding
from ratchet.autopilot.coach import uses_coach
from ratchet.autopilot.dry_run import DryRunLab, NoRunner, dry_run
from ratchet.autopilot.improve_run import ImproveRun
from ratchet.autopilot.nomination import nominees
from ratchet.autopilot.run_outcome import COACH_GONE
from ratchet.learn import Finding, Lab
from ratchet.learn.algorithm import NOTHING_TO_LEARN
from ratchet.llm import CoachUnavailable
from ratchet.run.paid import RolloutRunner
from ratchet.types import BudgetExhausted, Candidate, RatchetError
from ratchet.types.wording import counted


async def dry_learn(work: ImproveRun) -> None:
    """Let the algorithm refuse now what it would refuse after the baseline."""
    algorithm = work.make_algorithm()
    coach = NoRunner() if uses_coach(work.project.config.coach, algorithm) else None
    try:
        await dry_run(algorithm, work.lab_of(DryRunLab, NoRunner(), coach))
    except RatchetError as error:
        if work.cap is None:
            raise
        learning = work.project.config.improve.budget.rollouts
        raise BudgetExhausted(
            error.message,
            hint=f"Learning has {learning} of the {counted(work.cap.most, 'rollout')} that this"
            f" run may take; the proof may take up to {work.proof_rollouts}. Allow more, or"
            " use fewer tasks.",
        ) from None


async def learn(work: ImproveRun, runner: RolloutRunner) -> None:
    """Let the algorithm search, and choose which candidates go to the proof."""
    await trust_once(work)
    spent = (await work.spending.account()).cost.known_usd
    dollars, sentence = work.spending.for_learning(work.proof_rollouts, spent)
    if sentence:
        work.watcher.message(sentence)
    most = work.project.config.improve.budget.rollouts or 0
    if dollars is not None and (rollout_usd := work.spending.price()[0]):
        most = min(most or 10**9, int((dollars - spent) / rollout_usd))
    work.announce("Learning, if it uses its whole budget of rollouts,", most)
    async with work.lab(runner, dollars) as lab:
        work.watcher.expects(lab.budget.rollouts or 0)
        finding = found = await checked_finding(lab, await work.algorithm.learn(lab))
        await lab.coach.settle()
        ranked = await nominees(lab, finding, work.margin)
    if late := lab.overtime(time.time()):
        work.watcher.message(late)
    best = _candidate(lab, finding, ranked[0].candidate_id) if ranked else work.baseline
    finding = _in_one_measure(msgspec.structs.replace(finding, best=best), lab)
    if (why := lab.coach.why_useless) is not None:
        _note_coach_gone(work, why, finding)
    work.store.candidates.put(finding.best, time.time())
    work.store.journal.append(
        work.run.id,
        "finding",
        {
            "best": finding.best.id,
            "baseline_val": finding.baseline_val,
            "best_val": finding.best_val,
            "val_tasks": finding.val_tasks,
            "nominees": msgspec.to_builtins(ranked),
            "all_rollouts": work.rollouts_so_far,
            "rollouts": lab.spent.rollouts,
            "coach_calls": lab.spent.coach_calls,
            "dollars": lab.spent.dollars,
            "unpriced": lab.spent.unpriced,
            "proposals": finding.proposals,
            "sentence": finding.sentence,
        },
        time.time(),
    )
    work.watcher.found(finding)
    if ranked and found.best.id == work.baseline.id:
        closest, gain = ranked[0].candidate_id[:8], ranked[0].gain
        work.watcher.message(
            f"No candidate was clearly better in learning. {closest} came closest"
            f" ({gain:+.3f} on the tasks that it and the source ran): the proof decides."
        )
    if finding.best.id == work.baseline.id:
        message = _not_reached(found, lab) if work.margin else _nothing_found(finding)
        work.enter("no_gain", best_id=finding.best.id, message=message)
    else:
        work.enter("prove", best_id=finding.best.id)


def _note_coach_gone(work: ImproveRun, error: CoachUnavailable, finding: Finding) -> None:
    """Keep that learning lost its coach.

    Raises:
        CoachUnavailable: Nothing better was found without it.
    """
    if finding.best.id == work.baseline.id:
        raise CoachUnavailable(
            f"{error.message} Nothing better was found without it. {finding.sentence}",
            hint=error.hint,
        )
    body = {"message": error.message, "hint": error.hint}
    work.store.journal.append(work.run.id, COACH_GONE, body, time.time())
    work.watcher.message(f"{error.message} What was found without it goes on to the proof.")


def _candidate(lab: Lab, finding: Finding, candidate_id: str) -> Candidate:
    tried = {candidate.id: candidate for candidate in (*lab.tried, finding.best)}
    return tried[candidate_id]


def _in_one_measure(finding: Finding, lab: Lab) -> Finding:
    """The finding with both means over the val tasks that both candidates ran: all, for the
    baseline itself.
    """
    pairs = lab.compared("finding", lab.baseline, finding.best)
    if not pairs:
        return finding
    before, after = (math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return msgspec.structs.replace(
        finding, baseline_val=before, best_val=after, val_tasks=len(pairs)
    )


def _not_reached(found: Finding, lab: Lab) -> str:
    """Why nothing goes to the proof of being no worse."""
    if found.best.id == lab.baseline.id:
        return f"Nothing goes to the proof. {found.sentence}"
    tasks = [*lab.train, *lab.val]
    pairs = lab.compared("not reached", lab.baseline, found.best, tasks=tasks)
    gain = math.fsum(after - before for before, after in pairs) / len(pairs)
    return (
        f"Not reached: the best candidate scores {gain:+.3f} on {counted(len(pairs), 'task')} of"
        f" learning, so none went to the proof. {found.sentence}"
    )


def _nothing_found(finding: Finding) -> str:
    if finding.sentence == NOTHING_TO_LEARN:
        return finding.sentence
    if not finding.proposals:
        return f"Nothing goes to the proof, since there is no candidate. {finding.sentence}"
    return (
        "There is no significant gain: no candidate is likely to beat the baseline, which scores"
        f" {finding.baseline_val:.3f} on {counted(finding.val_tasks, 'val task')}, so none went to"
        f" the proof. {finding.sentence}"
    )
