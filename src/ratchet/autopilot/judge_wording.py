"""Searches for a better wording of a judge's questions: APO, with labelled cases as its tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ratchet.autopilot.coach import open_coach
from ratchet.autopilot.project import Project
from ratchet.evaluate import Judgement, Scorer, evaluator
from ratchet.evaluate.judges.judge import Judge
from ratchet.evaluate.judges.prompt import Criterion
from ratchet.evaluate.judges.realign import LabelledRollout
from ratchet.evaluate.scoring import MAX_CONCURRENT_VERDICTS
from ratchet.learn import Budget, Lab, LabSettings
from ratchet.learn.apo import APO
from ratchet.learn.checks import Checks, keeps_prompt
from ratchet.llm import ACCOUNT
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    InputError,
    PromptTemplate,
    Resource,
    Rollout,
    Task,
    content_hash,
)
from ratchet.worker.evaluator import SpansOf, Unscored

STORE = "judges.db"
"""File in the state folder with the rollouts of such searches. They are kept apart from the
agent's: their outputs are verdicts."""

QUESTION = "question_{number}"
"""Name of the prompt that holds a question, numbered from 1."""

VERDICTS_PER_CASE = 20
"""Budget of verdicts, for each labelled case."""


class JudgeRunner:
    """Runs a judge on labelled cases as a lab's rollouts: its questions are the candidate's.

    Args:
        judge: The judge.
        cases: Labelled rollouts.
        spans_of: Reads a rollout's spans.
        store: Keeps the verdicts.
    """

    slots = MAX_CONCURRENT_VERDICTS

    def __init__(
        self, judge: Judge, cases: Sequence[LabelledRollout], spans_of: SpansOf, store: Store
    ) -> None:
        self._judge = judge
        self._cases = {case.rollout.id: case for case in cases}
        self._spans_of = spans_of
        self._store = store
        self._free = asyncio.Semaphore(MAX_CONCURRENT_VERDICTS)

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """The verdicts as ended rollouts, by id; kept ones are not given again."""
        judges = {candidate.id: worded(self._judge, candidate) for candidate in candidates}
        ended = await asyncio.to_thread(
            self._store.rollouts.get, [rollout.id for rollout in rollouts]
        )
        missing = [rollout for rollout in rollouts if rollout.id not in ended]
        verdicts = await asyncio.gather(
            *(self._verdict(rollout, judges[rollout.candidate_id]) for rollout in missing)
        )
        await asyncio.to_thread(self._store.rollouts.create, verdicts, time.time())
        ended.update((rollout.id, rollout) for rollout in verdicts)
        if on_finish is not None:
            for rollout in ended.values():
                on_finish(rollout)
        return ended

    async def _verdict(self, rollout: Rollout, judge: Judge) -> Rollout:
        case = self._cases[rollout.task_id]
        fields: dict[str, Any] = {"started_at": time.time()}
        async with self._free:
            try:
                spans = self._spans_of(case.rollout.id) if "trace" in judge.spec.reads else []
                judgement = await judge.judge(case.rollout, spans)
                verdict = {"score": judgement.value, "reasons": judgement.rationale}
                fields |= {"status": "succeeded", "output": verdict}
            except Unscored as error:
                fields |= {"status": "failed", "error": str(error)}
        ended_at = time.time()
        fields |= {"ended_at": ended_at, "duration_s": ended_at - fields["started_at"]}
        return msgspec.structs.replace(rollout, **fields)


async def reworded(
    project: Project,
    store: Store,
    judge: Judge,
    train: Sequence[LabelledRollout],
    val: Sequence[LabelledRollout],
    *,
    seed: int,
    coach_calls: int,
    say: Callable[[str], None],
) -> tuple[Criterion, ...]:
    """The judge's questions in the wording that agrees best with labels, or as they are.

    Args:
        project: The project, whose coach proposes wordings.
        store: Its store, with the judge's answers.
        judge: The judge.
        train: Labelled cases that the coach is shown.
        val: Others, by which the best wording is chosen.
        seed: Seed of the search.
        coach_calls: Maximum number of coach calls.
        say: Called with sentences for the user.

    Raises:
        InputError: The judge has no questions.
        CoachUnavailable: No coach is configured, or it cannot be reached.
    """
    if not judge.spec.criteria:
        raise InputError(f"The judge {judge.name!r} has no questions of its own to reword.")
    baseline = Candidate.of(_prompts(judge.spec.criteria), reason="The judge's own questions.")
    labels = [[case.rollout.id, case.label, case.comment] for case in (*train, *val)]
    spec = msgspec.to_builtins(judge.spec)
    run_id = f"align-{judge.name}-{content_hash([spec, labels, seed, coach_calls])[:16]}"
    redactor = project.redactor()
    algorithm = APO()
    with Store.open(f"sqlite:///{project.prepare_state() / STORE}") as verdict_store:
        async with open_coach(
            project.config.coach,
            algorithm,
            store=store,
            run_id=run_id,
            seed=seed,
            redactor=redactor,
            say=say,
            folder=project.root,
        ) as coach:
            cases = [*train, *val]
            lab = Lab(
                LabSettings(
                    run_id=run_id,
                    stage="align",
                    queue=f"judge-{judge.name}",
                    objective="agreement",
                    seed=seed,
                    max_attempts=1,
                ),
                baseline=baseline,
                train=[_task(judge, case) for case in train],
                val=[_task(judge, case) for case in val],
                runner=JudgeRunner(judge, cases, store.spans.of, verdict_store),
                scorer=Scorer(verdict_store, [agreement_with(cases)]),
                store=verdict_store,
                budget=Budget(rollouts=VERDICTS_PER_CASE * len(cases), coach_calls=coach_calls),
                coach=coach,
                checks=Checks(baseline, [keeps_prompt(project.config.checks.prompt_growth)]),
                redactor=redactor,
                account=ACCOUNT.get(),
            )
            async with lab:
                finding = await algorithm.learn(lab)
    return worded(judge, finding.best).spec.criteria


def agreement_with(cases: Sequence[LabelledRollout]) -> Any:
    """The evaluator of verdicts: 1 less the distance between the judge's score and the label."""
    case_by_id = {case.rollout.id: case for case in cases}

    @evaluator
    def agreement(rollout: Rollout) -> Judgement:
        case = case_by_id[rollout.task_id]
        score = float(rollout.output["score"])
        comparison = f"The judge's score is {score:g}; people's is {case.label:g}."
        if case.comment:
            comparison += f" A person's comment: {case.comment}"
        return Judgement(1 - abs(score - case.label), comparison)

    return agreement


def worded(judge: Judge, candidate: Candidate) -> Judge:
    """The judge with a candidate's questions."""
    criteria = tuple(
        msgspec.structs.replace(criterion, question=_question(candidate.resources, number))
        for number, criterion in enumerate(judge.spec.criteria, 1)
    )
    return judge.with_spec(msgspec.structs.replace(judge.spec, criteria=criteria))


def _prompts(criteria: Sequence[Criterion]) -> dict[str, Resource]:
    return {
        QUESTION.format(number=number): PromptTemplate(
            criterion.question.replace("{", "{{").replace("}", "}}")
        )
        for number, criterion in enumerate(criteria, 1)
    }


def _question(resources: Any, number: int) -> str:
    """A question in one line, as a judge is asked it."""
    template: PromptTemplate = resources[QUESTION.format(number=number)]
    return " ".join(template.format().split())


def _task(judge: Judge, case: LabelledRollout) -> Task:
    rollout = case.rollout
    judged = {"task": rollout.input, "answer": rollout.output}
    if "expected" in judge.spec.reads:
        judged["reference"] = rollout.expected
    return Task(rollout.id, judged, {"score": case.label})
