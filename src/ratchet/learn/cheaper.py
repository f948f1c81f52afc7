"""Cheaper: the cheapest model that is no worse, and then the shortest prompts that are no worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ratchet.learn.algorithm import Algorithm, Finding, require_tasks
from ratchet.learn.budget import Budget, BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.migrate import LearnsPrompts, Migrate
from ratchet.learn.shorten import Shorten
from ratchet.learn.work import Evaluation, Proposal, mean, require_scores
from ratchet.stats.gain import may_gain
from ratchet.types import Candidate, InputError, Model, PromptTemplate
from ratchet.types.wording import counted


class Cheaper(LearnsPrompts):
    """Lowers cost, time or tokens at the same score.

    The models that may take a model's place are tried as they are listed, the cheapest first: with
    the old prompts, then with prompts that are learned for it. The first that is no worse stays.
    Where an answer is checked, a cheaper model may also be asked first. Then the prompts are
    shortened.

    Args:
        metric: The evaluator whose value to lower: cost, latency or tokens.
        margin: How much lower candidates may score; by default the tightest margin that the test
            tasks can prove.
        learn: As for `LearnsPrompts`.
        learn_options: As for `LearnsPrompts`.
    """

    name = "cheaper"
    goal = "not worse"
    needs_coach = None
    """Uses a coach if one is configured."""

    def __init__(
        self,
        *,
        metric: str = "cost",
        margin: float | None = None,
        learn: str = "auto",
        learn_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(learn, learn_options)
        self._metric = metric
        self.margin = margin

    async def learn(self, lab: Lab) -> Finding:
        """Make the lab's baseline cheaper.

        Raises:
            InputError: It has neither a prompt nor a choice of models, or the metric is not
                known.
            BudgetExhausted: The budget does not cover the baseline on val.
        """
        require_tasks(lab)
        choices = {
            name: resource
            for name, resource in lab.targets.items()
            if isinstance(resource, Model) and resource.choices
        }
        has_prompts = any(isinstance(r, PromptTemplate) for r in lab.targets.values())
        if not choices and not has_prompts:
            raise InputError(
                "There is nothing to make cheaper: the agent has neither a prompt nor a choice "
                "of models.",
                hint='Declare one: ratchet.model("answers", "NAME", choices=["CHEAPER"]).',
            )
        source = await lab.evaluate(lab.baseline, lab.val)
        require_scores(source, "val")
        self._check_known(source)
        parts = sum(len(model.choices) for model in choices.values()) + has_prompts
        search = _Search(lab, self._metric, self.margin or 0.0, source, parts)
        for name, model in choices.items():
            await self._other_model(search, name, model)
        if has_prompts:
            await search.part("shorten", Shorten(margin=self.margin))
        return search.finding()

    def _check_known(self, source: Sequence[Evaluation]) -> None:
        scores = [evaluation.scores.get(self._metric) for evaluation in source]
        values = [score.value for score in scores if score is not None and score.value is not None]
        if not values:
            errors = [score.error for score in scores if score is not None and score.error]
            why = errors[0] if errors else "no evaluator measures it."
            raise InputError(f"The agent's {self._metric} is not known on any val task: {why}")
        if not any(values):
            raise InputError(
                f"The agent's {self._metric} is 0 on every val task: its model calls are not "
                "recorded, or its model is free.",
                hint="Route its calls through the gateway with [[agent.models]] in ratchet.toml; "
                "docs/tracing.md lists the libraries that are recorded without it.",
            )

    async def _other_model(self, search: _Search, name: str, model: Model) -> None:
        cheaper = [choice for choice in model.choices if choice != model.model]
        for choice in cheaper:
            migrate = Migrate(to=choice, old=model.model)
            migrate.inner = self.inner
            if await search.part(f"{name}/{choice}", migrate):
                return
        for choice in cheaper if model.first is not None else ():
            first = msgspec.structs.replace(model, first=choice)
            reason = f"{choice} is asked first, and {model.model} if its answer fails the check."
            candidate = search.lab.propose(
                {name: first}, algorithm=self.name, reason=reason, parent=search.best
            )
            if await search.accepts(candidate, reason):
                return


class _Search:
    """The cheapest candidate so far that is no worse than the source."""

    def __init__(
        self, lab: Lab, metric: str, margin: float, source: list[Evaluation], parts: int
    ) -> None:
        self.lab = lab
        self.best: Candidate = lab.baseline
        self._metric = metric
        self._margin = margin
        self._source = source
        self._best_val = source
        self._parts = parts
        """Number of algorithms that may still run; they share the rest of the budget."""
        self._kept = 0
        self._tried = 0

    async def part(self, name: str, algorithm: Algorithm) -> bool:
        """Let an algorithm continue from the best; returns whether its result replaces it."""
        rollouts = self.lab.budget.rollouts
        if rollouts is not None:
            rollouts = max(1, (rollouts - self.lab.spent.rollouts) // max(1, self._parts))
        self._parts -= 1
        lab = self.lab.part(name, baseline=self.best, budget=Budget(rollouts=rollouts))
        try:
            finding = await algorithm.learn(lab)
        except BudgetExhausted as error:
            self.lab.note(f"{name} was skipped: {error.message}")
            return False
        self._tried += finding.proposals
        if finding.best.id == self.best.id:
            self.lab.note(finding.sentence)
            return False
        return await self.accepts(finding.best, finding.sentence)

    async def accepts(self, candidate: Candidate, sentence: str) -> bool:
        """Whether a candidate is cheaper than the best one, and no worse than the source."""
        try:
            evaluations = await self.lab.evaluate(candidate, self.lab.val)
        except BudgetExhausted as error:
            self.lab.note(f"A candidate was not compared: {error.message}")
            return False
        gains = [
            after.worth - before.worth + self._margin
            for before, after in zip(self._source, evaluations, strict=True)
        ]
        no_worse = not any(gains) or may_gain(gains)
        before, after = self._value(self._best_val), self._value(evaluations)
        # What is unknown could not be proved to fall.
        falls = before is not None and after is not None and after < before
        change = "unknown" if before is None or after is None else f"{before:.4g} → {after:.4g}"
        self.lab.note(
            f"{'Kept' if no_worse and falls else 'Not kept'}: the score changes by "
            f"{mean(evaluations) - mean(self._source):+.3f}, {self._metric} is {change}. "
            f"{sentence}"
        )
        self.lab.judged(
            Proposal(
                number=self._tried,
                candidate_id=candidate.id,
                value=mean(evaluations),
                tasks=len(evaluations),
                best=max(mean(self._best_val), mean(evaluations)),
                rollouts=self.lab.spent.rollouts,
                accepted=f"Less {self._metric} at the same score." if no_worse and falls else "",
            )
        )
        self._tried += 1
        if no_worse and falls:
            self.best, self._best_val = candidate, evaluations
            self._kept += 1
        return no_worse and falls

    def finding(self) -> Finding:
        """The result of the search."""
        return Finding(
            best=self.best,
            baseline_val=mean(self._source),
            best_val=mean(self._best_val),
            proposals=self._tried,
            sentence=f"{counted(self._tried, 'candidate')} tried, {self._kept or 'none'} kept.",
            ended="limit",
        )

    def _value(self, evaluations: list[Evaluation]) -> float | None:
        """Mean of the metric to lower; None if it is not known for every task."""
        values = [
            score.value if (score := evaluation.scores.get(self._metric)) else None
            for evaluation in evaluations
        ]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(values) else None
