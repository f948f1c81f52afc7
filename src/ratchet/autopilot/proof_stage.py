"""The prove stage: experiments with the best candidates, one after the other."""

from __future__ import annotations

import time

import msgspec

from ratchet.autopilot.baseline_stage import trust_once
from ratchet.autopilot.experiment import pairs_to_label, run_experiment
from ratchet.autopilot.improve_run import ImproveRun
from ratchet.autopilot.nomination import Nominee, next_nominee
from ratchet.autopilot.repetitions import PILOT_TASKS, plan_repetitions
from ratchet.autopilot.run_outcome import COACH_GONE, PAIRS_TO_LABEL
from ratchet.evaluate import Scorer
from ratchet.llm import paid_from
from ratchet.prove import ExperimentPlan, RepetitionPlan
from ratchet.run.paid import PaidRunner, RolloutRunner
from ratchet.types import Candidate, Cost, Decision, Experiment


async def prove(work: ImproveRun, runner: RolloutRunner) -> None:
    """Compare the candidate with the baseline on test tasks, up to a verdict."""
    candidate = work.store.candidates.get(work.run.best_id)
    await trust_once(work)  # journaled, unless the run began before there were report cards

    account = await work.spending.account()

    async def repetitions(plan: ExperimentPlan) -> RepetitionPlan:
        chosen = await _repetitions(work, runner, candidate, plan)
        pilot = (await work.spending.account()).cost.known_usd - account.cost.known_usd
        account.add([Cost(known_usd=max(0.0, pilot))])
        return chosen

    work.watcher.expects(2 * len(work.tasks("test")))
    work.announce("The proof, if it runs every test task once,", 2 * len(work.tasks("test")))
    with paid_from(account):
        experiment = await run_experiment(
            work.setting(candidate),
            store=work.store,
            runner=PaidRunner(runner, account, work.store),
            scorer=Scorer(work.store, work.evaluators),
            evidence_dir=work.project.state / "evidence",
            watcher=work.watcher,
            plan_repetitions=repetitions,
            trust=work.store.journal.get(work.run.id, "trust"),
            learned=_learned(work, candidate),
        )
    decided = experiment.decision
    if decided is None:
        _withhold(work, experiment)
        return
    work.watcher.decided(decided, experiment.evidence_path)
    if decided.verdict not in ("promote", "not_proved", "unconfirmed"):
        following = await _following(work, candidate)
        if following is not None:
            work.enter("prove", best_id=following.candidate_id)
            return
    work.enter(
        {"promote": "ship", "not_proved": "not_proved"}.get(decided.verdict, "no_gain"),
        experiment_id=experiment.id,
        message=told(work, decided),
    )


def _learned(work: ImproveRun, candidate: Candidate) -> float | None:
    """A candidate's gain in learning; None if a person chose it."""
    if work.chosen is not None:
        return None
    finding = work.store.journal.get(work.run.id, "finding") or {}
    ranked = msgspec.convert(finding.get("nominees", []), list[Nominee])
    return next((n.gain for n in ranked if n.candidate_id == candidate.id), 0.0)


async def _following(work: ImproveRun, failed: Candidate) -> Nominee | None:
    """The next candidate for the proof after one failed there, if the budget lasts."""
    if work.by_judge:
        return None  # people's labels were asked for one candidate
    finding = work.store.journal.get(work.run.id, "finding") or {}
    repetitions = work.store.journal.get(work.run.id, "repetitions", {"count": 1})["count"]
    most = repetitions * len(work.tasks("test"))  # the source's rollouts are there already
    if work.cap is not None and work.rollouts_so_far + most > work.cap.most:
        return None
    left, (rollout_usd, _) = (await work.spending.account()).left, work.spending.price()
    if work.spending.dollars is not None and most * rollout_usd > left:
        return None
    return next_nominee(
        finding,
        failed.id,
        spent=work.rollouts_so_far - finding.get("all_rollouts", 0),
        shortest_proof=min(most, repetitions * work.project.config.prove.min_pairs),
    )


def told(work: ImproveRun, decision: Decision) -> str:
    """How the run ends: the decision, and whether learning lost its coach."""
    gone = work.store.journal.get(work.run.id, COACH_GONE)
    without = f" It was found without the coach: {gone['message']}" if gone else ""
    return decision.sentence + without


def _withhold(work: ImproveRun, experiment: Experiment) -> None:
    """Record which pairs people have to label, and stop before the decision."""
    repetitions = work.store.journal.get(work.run.id, "repetitions", {"count": 1})["count"]
    setting = work.setting(work.store.candidates.get(work.run.best_id))
    body = pairs_to_label(setting, repetitions, work.store)
    work.store.journal.append(work.run.id, PAIRS_TO_LABEL, body, time.time())
    work.waits = True
    work.enter(
        "prove",
        experiment_id=experiment.id,
        message=f"The decision is waiting for labels: ratchet label --experiment "
        f"{experiment.id[:8]}.",
    )


async def _repetitions(
    work: ImproveRun, runner: RolloutRunner, candidate: Candidate, plan: ExperimentPlan
) -> RepetitionPlan:
    """How often each test task is run; journaled, so that a resumed run does not change it."""
    stored_plan = work.store.journal.get(work.run.id, "repetitions")
    if stored_plan is None:
        wanted = work.project.config.prove.repetitions
        async with work.lab(runner, rollouts=_left_for_proof(work)) as lab:
            _, judged = work.spending.price()
            left = (await work.spending.account()).left
            chosen = await plan_repetitions(
                plan,
                wanted,
                lab=lab,
                candidate=candidate,
                dollars=None if work.spending.dollars is None else left,
                judged_usd=judged,
            )
        body = {"count": chosen.count, "reason": chosen.reason}
        stored_plan = work.store.journal.append(work.run.id, "repetitions", body, time.time())
    return msgspec.convert(stored_plan, RepetitionPlan)


def _left_for_proof(work: ImproveRun) -> int | None:
    """Rollouts that the cap leaves to the proof after its pilot; None without a cap."""
    if work.cap is None:
        return None
    return max(1, work.cap.most - work.rollouts_so_far - min(PILOT_TASKS, len(work.tasks("val"))))
