"""Migrate: moves an agent to another model, and learns its prompts again if its score drops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ratchet.learn.algorithm import Algorithm, Finding, require_tasks
from ratchet.learn.budget import Budget, BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.work import Proposal, failure_sentence, mean, require_scores
from ratchet.stats.gain import may_gain
from ratchet.types import AgentError, Candidate, InputError, Model
from ratchet.types.wording import counted

FIRST_VAL_TASKS = 2
"""Val tasks that show whether the new model answers at all."""


class LearnsPrompts:
    """The algorithm with which one that changes the model learns the prompts for the new model.

    Args:
        learn: Name of the algorithm that learns the prompts for another model; empty to leave them.
        learn_options: The options of that algorithm.
    """

    def __init__(self, learn: str, learn_options: Mapping[str, Any]) -> None:
        self.learn_by = learn
        self.learn_options = learn_options
        self.inner: Callable[[], Algorithm] | None = None
        """Makes that algorithm; None to keep the prompts. Set by the code that makes algorithms by
        name."""


class Migrate(LearnsPrompts):
    """Moves an agent to another model.

    First the new model gets the old prompts. If it scores lower on val, by more than a standard
    error, the prompts are learned for it, starting from the old ones.

    Args:
        to: The new model, as the agent's client names it.
        old: The model that it takes the place of; without it, all of the agent's models.
        margin: How much lower the new model may score; by default the tightest margin that the
            test tasks can prove.
        learn: As for `LearnsPrompts`.
        learn_options: As for `LearnsPrompts`.
    """

    name = "migrate"
    goal = "not worse"
    needs_coach = None
    """Uses a coach if one is configured."""

    def __init__(
        self,
        *,
        to: str,
        old: str = "",
        margin: float | None = None,
        learn: str = "auto",
        learn_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if not isinstance(to, str) or not to:
            raise InputError(
                "Migrate needs the name of the new model.", hint="ratchet migrate --to MODEL"
            )
        if margin is not None and not 0.0 < margin < 1.0:
            raise InputError(f"Migrate(margin={margin!r}): expected a number between 0 and 1.")
        self._to = to
        self._old = old
        self.margin = margin
        super().__init__(learn, learn_options)

    async def learn(self, lab: Lab) -> Finding:
        """Move the lab's baseline to the new model.

        Raises:
            InputError: The agent has no model that could be replaced.
            AgentError: The agent fails with the new model.
            BudgetExhausted: The budget does not cover the new model on val.
        """
        require_tasks(lab)
        moved = self._moved(lab)
        before = await lab.evaluate(lab.baseline, lab.val)
        require_scores(before, "val")
        first = await lab.evaluate(moved, lab.val[:FIRST_VAL_TASKS])
        if all(evaluation.rollout.status != "succeeded" for evaluation in first):
            error = failure_sentence(first[0].rollout, await lab.spans(first[0]))
            raise AgentError(
                f"With the model {self._to} the agent fails: {error}",
                hint="Check the model's name and its provider's key. For a model served "
                "elsewhere, add a section [upstreams.NAME] that lists it.",
            )
        after = await lab.evaluate(moved, lab.val)
        gains = [new.worth - old.worth for old, new in zip(before, after, strict=True)]
        lab.judged(
            Proposal(
                number=0,
                candidate_id=moved.id,
                value=mean(after),
                tasks=len(after),
                best=max(mean(before), mean(after)),
                rollouts=lab.spent.rollouts,
            )
        )
        with_old = (
            f"With the old prompts {self._to} scores {mean(after):.3f}, compared with "
            f"{mean(before):.3f} before, on"
        )
        finding = Finding(
            best=moved,
            baseline_val=mean(before),
            best_val=mean(after),
            proposals=1,
            sentence=f"{with_old} {counted(len(after), 'val task')}.",
            ended="solved",
        )
        if self.inner is None or not any(gains) or may_gain(gains):
            return finding
        lab.note(f"{finding.sentence} Its prompts are learned next.")
        try:
            others = [name for name, r in lab.targets.items() if not isinstance(r, Model)]
            most = lab.budget.rollouts
            left = None if most is None else max(1, most - lab.spent.rollouts)
            budget = Budget(rollouts=left)
            part = lab.part("prompts", baseline=moved, only=others, budget=budget)
            learned = await self.inner().learn(part)
        except (BudgetExhausted, InputError) as error:
            sentence = f"{finding.sentence} Its prompts were not learned: {error.message}"
            return msgspec.structs.replace(finding, sentence=sentence)
        return msgspec.structs.replace(
            learned,
            baseline_val=mean(before),
            proposals=learned.proposals + 1,
            sentence=f"{finding.sentence} {learned.sentence}",
        )

    def _moved(self, lab: Lab) -> Candidate:
        models = {
            name: resource
            for name, resource in lab.targets.items()
            if isinstance(resource, Model) and self._old in ("", resource.model)
        }
        if not models:
            names = sorted(r.model for r in lab.targets.values() if isinstance(r, Model))
            raise InputError(
                f"The agent has no model {self._old or 'that could be replaced'}"
                f"{'; it has ' + ', '.join(names) if names else ''}.",
                hint="Name the model that it uses: ratchet migrate --from MODEL",
            )
        changed = {
            name: msgspec.structs.replace(model, model=self._to)
            for name, model in models.items()
            if model.model != self._to
        }
        if not changed:
            raise InputError(f"The agent already uses {self._to}.")
        listed = ", ".join(sorted({models[name].model for name in changed}))
        return lab.propose(changed, algorithm=self.name, reason=f"{self._to} replaces {listed}.")
