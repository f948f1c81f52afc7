"""GEPA: runs the `gepa` package on the lab's rollouts, coach, budget and journal.

Reflective prompt evolution with a Pareto front over val tasks (Agrawal et al. 2025, "GEPA:
Reflective Prompt Evolution Can Outperform Reinforcement Learning"). The library decides which
candidate is mutated, how the coach is prompted, and what is accepted. This module provides its
adapter and its language model.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.bridge import Bridge
from ratchet.learn.budget import BudgetExhausted, too_few_rollouts
from ratchet.learn.lab import Lab
from ratchet.learn.search.placeholders import mended
from ratchet.learn.work import Evaluation, Proposal, mean, scores_of, texts_of
from ratchet.llm import Message, Reply
from ratchet.observe.step_text import cut, steps_of, text_of
from ratchet.types import (
    Candidate,
    Code,
    ConfigError,
    InputError,
    PromptTemplate,
    Resource,
    Span,
    Task,
)
from ratchet.types.wording import counted

_log = logging.getLogger("ratchet.gepa")

IDLE = 30
"""Number of iterations in a row without a new candidate after which the search ends."""

FRUITLESS = 12
"""Number of iterations in a row with a coach call but no usable result after which the search ends,
so that a coach that always refuses is not called forever."""

MAX_FIELD = 4_000
"""Maximum length of an input, an output or feedback shown to the coach, in characters."""

MAX_STEPS = 12_000
"""Maximum length of a rollout's steps shown to the coach, in characters."""


class GEPA:
    """Reflective evolution of prompts and functions by the `gepa` package.

    Args:
        model: The coach's model; that of [coach] by default.
        base_url: The coach's endpoint; that of [coach] by default.
        reflection_minibatch_size: Number of train tasks per reflection.
        candidate_selection_strategy: How the candidate to mutate is selected: `pareto`,
            `current_best`, `epsilon_greedy` or `top_k_pareto`.
        module_selector: Which text is mutated: `round_robin`, or `all` at once.
        skip_perfect_score: Skip minibatches on which the score is 1.
        max_iterations: Maximum number of iterations.

    Raises:
        ConfigError: An option has an invalid value.
    """

    name = "gepa"
    needs_coach = True

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        reflection_minibatch_size: int = 3,
        candidate_selection_strategy: str = "pareto",
        module_selector: str = "round_robin",
        skip_perfect_score: bool = True,
        max_iterations: int | None = None,
    ) -> None:
        for name, value, choices in (
            ("candidate_selection_strategy", candidate_selection_strategy, _SELECTIONS),
            ("module_selector", module_selector, ("round_robin", "all")),
        ):
            if value not in choices:
                raise ConfigError(f"gepa's {name} = {value!r} is not one of {', '.join(choices)}.")
        for name, number in (
            ("reflection_minibatch_size", reflection_minibatch_size),
            ("max_iterations", 1 if max_iterations is None else max_iterations),
        ):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise ConfigError(f"gepa's {name} = {number!r} is not a whole number above 0.")
        self.coach_options = {"model": model, "base_url": base_url}
        self.minibatch = reflection_minibatch_size
        self.max_iterations = max_iterations
        self.options: dict[str, Any] = {
            "candidate_selection_strategy": candidate_selection_strategy,
            "module_selector": module_selector,
            "skip_perfect_score": skip_perfect_score,
        }

    async def learn(self, lab: Lab) -> Finding:
        """Search until the budget is spent, a candidate solves val, or no new candidates appear.

        Raises:
            ConfigError: The package is not installed.
            InputError: There is no text to improve, or there are no tasks.
            BudgetExhausted: The budget does not cover one round.
            CoachUnavailable: No coach is configured, or it cannot be reached.
        """
        library = _library()
        require_tasks(lab)
        texts = texts_of(lab.targets)
        if not texts:
            raise InputError(
                "The agent has no prompt or function for gepa to improve.",
                hint="Declare one: ratchet.prompt(…), or @ratchet.evolve on a function.",
            )
        minibatch = min(self.minibatch, len(lab.train))
        _check_budget(lab, minibatch)
        bridge = Bridge()
        search = _Search(library, lab, bridge, self.max_iterations)

        def engine() -> None:
            library.optimize(
                seed_candidate=texts,
                trainset=list(lab.train),
                valset=list(lab.val),
                adapter=search,
                reflection_lm=search.reflect,
                reflection_minibatch_size=minibatch,
                stop_callbacks=search.stops,
                callbacks=[search],
                logger=_Quiet(),
                track_best_outputs=False,
                seed=lab.seed,
                **self.options,
            )

        await bridge.run(engine)
        if bridge.cause is not None and not isinstance(bridge.cause, BudgetExhausted):
            raise bridge.cause
        return search.finding(SPENT if bridge.cause else search.end)


_SELECTIONS = ("pareto", "current_best", "epsilon_greedy", "top_k_pareto")


class _Trajectory(msgspec.Struct):
    """The parts of a rollout that the coach sees."""

    evaluation: Evaluation | None
    spans: Sequence[Span] = ()
    problem: str = ""


class _Search:
    """The library's adapter, its language model, and its callbacks.

    Its methods except `finding` are called in the engine's thread.
    """

    propose_new_texts = None

    def __init__(self, library: Any, lab: Lab, bridge: Bridge, max_iterations: int | None) -> None:
        self._library = library
        self._lab = lab
        self._bridge = bridge
        self._max_iterations = max_iterations
        self._val = tuple(task.id for task in lab.val)
        self._on_val: dict[str, tuple[float, Candidate]] = {}
        self._on_train: dict[str, dict[str, float]] = {}
        """Scores by candidate id and train task id."""
        self._parent = lab.baseline
        self._child: tuple[Candidate, float, int] | None = None
        self._replies: list[Reply] = []
        self._unusable: dict[str, str] = {}
        self._checked: dict[str, str] = {}
        self._asked = self._judged = self._iterations = self._idle = self._fruitless = 0
        self._spent = (-1, -1)
        self._ran = self._ran_before = 0
        self._problem = ""
        self.end = SearchEnd("idle", "nothing is left to try")

    # The adapter.

    def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool) -> Any:
        """Implements `gepa.GEPAAdapter.evaluate`."""
        batch_of = self._library.EvaluationBatch
        proposed, problem = self._candidate(candidate)
        if proposed is not None and self._is_new(proposed):
            if proposed.id not in self._checked:
                self._checked[proposed.id] = self._bridge.call(self._lab.check(proposed))
            problem = self._checked[proposed.id]
        if proposed is not None and not problem and tuple(task.id for task in batch) == self._val:
            # It did well on a minibatch and is about to cost a full evaluation.
            problem = self._bridge.call(self._lab.test(proposed)) if self._is_new(proposed) else ""
        if proposed is None:
            step = f"gepa/{self._asked - 1:06d}"
            self._bridge.do(lambda: self._lab.coach.unusable(step, problem))
        elif self._is_new(proposed) and not problem:
            self._bridge.do(self._lab.coach.usable)
        if proposed is None or problem:
            self._problem = problem
            # It costs no rollout, and the coach is shown the fault.
            return batch_of(
                outputs=[problem] * len(batch),
                scores=[0.0] * len(batch),
                trajectories=[_Trajectory(None, (), problem) for _ in batch],
                num_metric_calls=0,
            )
        evaluations, spans = self._bridge.call(self._run(proposed, batch, capture_traces))
        value = mean(evaluations)
        if tuple(task.id for task in batch) == self._val:
            self._on_val.setdefault(proposed.id, (value, proposed))
        else:
            self._on_train.setdefault(proposed.id, {}).update(scores_of(evaluations))
            if self._is_new(proposed):
                self._ran += 1
                self._child = (proposed, value, len(batch))
        return batch_of(
            outputs=[evaluation.rollout.output for evaluation in evaluations],
            scores=[evaluation.worth for evaluation in evaluations],
            trajectories=[
                _Trajectory(evaluation, trace)
                for evaluation, trace in zip(evaluations, spans, strict=True)
            ]
            if capture_traces
            else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Implements `gepa.GEPAAdapter.make_reflective_dataset`."""
        records = [_record(trajectory) for trajectory in eval_batch.trajectories]
        return dict.fromkeys(components_to_update, records)

    # The language model.

    def reflect(self, prompt: Any) -> str:
        """Call the coach; raises in the library if the answer is unusable."""
        messages = (
            [Message(role="user", content=prompt)]
            if isinstance(prompt, str)
            else [Message(role=message["role"], content=message["content"]) for message in prompt]
        )
        question = messages[-1].content
        if question in self._unusable:  # the library retries, which would cost another call
            raise ValueError(self._unusable.pop(question))
        step = f"gepa/{self._asked:06d}"
        self._asked += 1
        reply = self._bridge.call(self._lab.coach.ask(messages, step=step))
        if reply.problem:
            self._bridge.do(lambda: self._lab.coach.credit(reply, survived=False))
            self._bridge.do(lambda: self._lab.coach.unusable(step, reply.problem))
            self._unusable[question] = self._problem = reply.problem
            raise ValueError(reply.problem)
        self._replies.append(reply)
        return reply.text

    # Termination and callbacks.

    def stops(self, state: Any) -> bool:
        """Whether to end the search before another iteration."""
        self._settle(None)
        iteration = self._iterations
        self._iterations += 1
        spent = (self._lab.spent.rollouts, self._asked)
        self._idle = self._idle + 1 if spent == self._spent else 0
        if self._ran != self._ran_before:
            self._fruitless = 0
        elif spent[1] > max(0, self._spent[1]):
            self._fruitless += 1
        self._ran_before = self._ran
        self._spent = spent
        if not self._bridge.do(lambda: self._lab.may_continue(f"gepa/{iteration:06d}")):
            self.end = SPENT
        elif self._max_iterations is not None and iteration >= self._max_iterations:
            self.end = SearchEnd(
                "limit", f"the limit of {self._max_iterations} iterations was reached"
            )
        elif any(
            value >= 1.0 and self._solves_train(id) for id, (value, _) in self._on_val.items()
        ):
            self.end = SearchEnd("solved", "a candidate solves every train and val task")
        elif self._idle >= IDLE:
            self.end = SearchEnd("idle", f"{IDLE} iterations in a row tried nothing new")
        elif self._fruitless >= FRUITLESS:
            last = f" (the last: {self._problem.rstrip('.')})" if self._problem else ""
            why = f"{FRUITLESS} answers from the coach in a row could not be used{last}"
            self.end = SearchEnd("idle", why)
        else:
            return False
        return True

    def on_candidate_selected(self, event: Mapping[str, Any]) -> None:
        """Callback: the parent of the next mutation was selected."""
        self._parent = self._candidate(event["candidate"])[0] or self._lab.baseline

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        """Callback: a candidate was accepted into the pool."""
        proposed, _ = self._candidate(event["candidate"])
        if event["iteration"] and proposed is not None and proposed.id in self._on_val:
            self._settle(proposed)

    def finding(self, end: SearchEnd) -> Finding:
        """The result of the search."""
        baseline = self._lab.baseline
        if baseline.id not in self._on_val:
            raise BudgetExhausted("The budget did not cover the baseline on val.")
        baseline_val = self._on_val[baseline.id][0]
        best_val, best = max(
            self._on_val.values(), key=lambda entry: (entry[0], self._train_gain(entry[1]))
        )
        return Finding(
            best=best,
            baseline_val=baseline_val,
            best_val=best_val,
            proposals=self._judged,
            sentence=(
                f"{counted(self._judged, 'candidate')} by reflection, {len(self._on_val) - 1} of "
                f"them kept; {end.why}."
            ),
            ended=end.cause,
        )

    def _solves_train(self, candidate_id: str) -> bool:
        scores = self._on_train.get(candidate_id, {})
        return len(scores) == len(self._lab.train) and min(scores.values()) >= 1.0

    def _train_gain(self, candidate: Candidate) -> float:
        """Sum of its gains over the baseline on the train tasks that both have run."""
        own = self._on_train.get(self._lab.baseline.id, {})
        scores = self._on_train.get(candidate.id, {})
        return math.fsum(scores[task] - own[task] for task in own.keys() & scores.keys())

    async def _run(
        self, candidate: Candidate, tasks: Sequence[Task], with_spans: bool
    ) -> tuple[list[Evaluation], list[list[Span]]]:
        evaluations = await self._lab.evaluate(candidate, tasks)
        if not with_spans:
            return evaluations, [[] for _ in evaluations]
        return evaluations, [await self._lab.spans(evaluation) for evaluation in evaluations]

    def _candidate(self, texts: Mapping[str, str]) -> tuple[Candidate | None, str]:
        """The candidate of these texts, or the reason why there is none."""
        changed: dict[str, Any] = {}
        try:
            for name, text in texts.items():
                resource = with_text(self._lab.targets[name], text)
                if resource != self._lab.targets[name]:
                    changed[name] = resource
        except InputError as error:
            return None, error.message
        if not changed:
            return self._lab.baseline, ""
        names = ", ".join(sorted(changed))
        proposed = self._lab.propose(
            changed, algorithm=GEPA.name, reason=f"A reflection on train tasks rewrote {names}."
        )
        if proposed.id in self._on_val:
            return self._on_val[proposed.id][1], ""
        parent = (self._parent.id,) if self._parent.id != proposed.id else proposed.parents
        return msgspec.structs.replace(proposed, parents=parent), ""

    def _is_new(self, candidate: Candidate) -> bool:
        return candidate.id not in self._on_val and candidate.id != self._lab.baseline.id

    def _settle(self, better: Candidate | None) -> None:
        """Report the outcome of the pending mutation, if it was not reported yet."""
        child, self._child = self._child, None
        replies, self._replies = self._replies, []
        for reply in replies:
            self._bridge.do(partial(self._lab.coach.credit, reply, better is not None))
        if child is None and better is None:
            return
        best = max(value for value, _ in self._on_val.values())
        if better is not None:
            value, tasks = self._on_val[better.id][0], len(self._val)
            candidate = better
            accepted = f"It scored better on its train tasks; on val its mean is {value:.3f}."
        else:
            assert child is not None
            candidate, value, tasks = child
            accepted = ""
        number, self._judged = self._judged, self._judged + 1
        self._bridge.do(
            lambda: self._lab.judged(
                Proposal(
                    number=number,
                    candidate_id=candidate.id,
                    value=value,
                    tasks=tasks,
                    pruned=not accepted,
                    best=best,
                    rollouts=self._lab.spent.rollouts,
                    accepted=accepted,
                )
            )
        )


class _Quiet:
    """Silences the library's log, which prints every prompt."""

    def log(self, message: str) -> None:
        _log.debug("%s", message)


def _record(trajectory: _Trajectory) -> dict[str, str]:
    """A train rollout in the form of the library's reflection prompt."""
    evaluation = trajectory.evaluation
    if evaluation is None:
        return {"Feedback": f"The text could not be used, and nothing ran. {trajectory.problem}"}
    rollout = evaluation.rollout
    rationales = [f"{s.rationale or s.error}" for s in evaluation.scores.values()]
    score = "unknown" if evaluation.value is None else f"{evaluation.value:.3f}"
    feedback = [f"The score is {score}.", *(rationale for rationale in rationales if rationale)]
    if rollout.expected is not None and evaluation.worth < 1.0:
        feedback.append(f"Expected was: {text_of(rollout.expected)}")
    if rollout.status != "succeeded":
        feedback.append(f"The agent {rollout.status.replace('_', ' ')}: {rollout.error}")
    record = {
        "Inputs": cut(text_of(rollout.input), MAX_FIELD),
        "Generated Outputs": cut(text_of(rollout.output), MAX_FIELD),
    }
    if len(trajectory.spans) > 1:
        repeated = {text_of(rollout.input).strip(), text_of(rollout.output).strip()}
        record["Steps"] = cut("\n".join(steps_of(trajectory.spans, repeated)), MAX_STEPS)
    record["Feedback"] = cut("\n".join(feedback), MAX_FIELD)
    return record


def with_text(resource: Resource, text: str) -> Resource:
    """The prompt or function with another text; respelt placeholders are normalised.

    Raises:
        InputError: The text is invalid: a placeholder is missing, or the code does not parse.
    """
    if isinstance(resource, Code):
        return Code(source=text, function=resource.function)
    assert isinstance(resource, PromptTemplate)
    template, problem = mended(text, resource) if text.strip() else (None, "The prompt is empty.")
    if template is None:
        raise InputError(problem)
    return template


def _check_budget(lab: Lab, minibatch: int) -> None:
    needed = 2 * len(lab.val) + 2 * minibatch
    left = None if lab.budget.rollouts is None else lab.budget.rollouts - lab.spent.rollouts
    if left is not None and left < needed:
        raise too_few_rollouts(
            f"The budget of {left} rollouts does not cover one round of gepa: {needed}, for the"
            f" baseline and one candidate on {counted(len(lab.val), 'val task')} and"
            f" {counted(minibatch, 'train task')}.",
        )


def _library() -> Any:
    try:
        return import_module("gepa")
    except ImportError:
        raise ConfigError(
            "The algorithm gepa needs the package gepa, which is not installed.",
            hint="pip install 'agent-ratchet[gepa]'",
        ) from None
