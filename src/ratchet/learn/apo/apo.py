"""APO: optimises prompts by critiques of low-scoring rollouts and edits based on them.

Automatic prompt optimisation as in ProTeGi (Pryzant et al. 2023, "Automatic Prompt Optimization
with Gradient Descent and Beam Search") and in Agent Lightning 0.3, whose option names it uses.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.learn.algorithm import Finding, SearchEnd
from ratchet.learn.apo.budget import SearchSizes, SizeOptions, least, sizes
from ratchet.learn.apo.coaching import CALLS_AN_EDIT, Coaching
from ratchet.learn.apo.search import PromptSearch
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.race import Race, RaceEntry
from ratchet.learn.work import Evaluation, require_scores, scores_of
from ratchet.llm import CoachUnavailable
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import InputError, PromptTemplate, Task

FEW_SHOT_SHARE = 0.3
"""Share of the budget for demonstrations, with `few_shot`."""


class APO:
    """Automatic prompt optimisation.

    Args:
        async_openai_client: A client as passed to Agent Lightning; its base URL and key are used.
        model: The coach's model; that of `[coach]` by default.
        gradient_model: Model that writes critiques; `model` by default.
        apply_edit_model: Model that writes edits; `model` by default.
        base_url: OpenAI-compatible endpoint of the coach.
        diversity_temperature: Sampling temperature of the coach.
        gradient_batch_size: Number of low-scoring rollouts per critique.
        val_batch_size: Number of val tasks on which finalists are first compared; all val tasks are
            used in the end if the budget allows.
        beam_width: Number of prompts in the beam.
        branch_factor: Number of edits of each prompt per round.
        beam_rounds: Number of rounds.
        run_initial_validation: Run the source's prompt on val at the start, concurrently with the
            first train tasks, instead of at the end.
        while_better: Add rounds while they bring improvements and the budget allows.
        few_shot: Add demonstrations to the best prompt at the end, as `FewShot` does.
    """

    name = "apo"
    needs_coach = True

    def __init__(
        self,
        async_openai_client: Any = None,
        *,
        model: str | None = None,
        gradient_model: str | None = None,
        apply_edit_model: str | None = None,
        base_url: str | None = None,
        diversity_temperature: float = 1.0,
        gradient_batch_size: int = 4,
        val_batch_size: int = 16,
        beam_width: int = 4,
        branch_factor: int = 4,
        beam_rounds: int = 3,
        run_initial_validation: bool = True,
        while_better: bool = True,
        few_shot: bool = False,
    ) -> None:
        whole = {
            "gradient_batch_size": gradient_batch_size,
            "val_batch_size": val_batch_size,
            "beam_width": beam_width,
            "branch_factor": branch_factor,
            "beam_rounds": beam_rounds,
        }
        for name, value in whole.items():
            if type(value) is not int or value < 1:
                raise InputError(f"APO({name}={value!r}): a whole number from 1 up is needed.")
        _check_temperature(diversity_temperature)
        for name, text in {
            "model": model,
            "gradient_model": gradient_model,
            "apply_edit_model": apply_edit_model,
            "base_url": base_url,
        }.items():
            if text is not None and not (isinstance(text, str) and text):
                raise InputError(f"APO({name}={text!r}): a name is needed, or None.")
        if isinstance(async_openai_client, str):
            raise InputError(
                f"APO(async_openai_client={async_openai_client!r}):"
                " a client is needed, not a string.",
                hint='Name a model with model="...".',
            )
        self._options = SizeOptions(**whole)
        self._temperature = float(diversity_temperature)
        self._gradient_model = gradient_model or model
        self._apply_edit_model = apply_edit_model or model
        self._initial_validation = bool(run_initial_validation)
        self._while_better = bool(while_better)
        self._few_shot = bool(few_shot)
        self.coach_options = _coach_options(
            async_openai_client, [model, gradient_model, apply_edit_model], base_url
        )
        """Overrides of `[coach]`; empty if there are none."""

    def __class_getitem__(cls, item: Any) -> type[APO]:
        """Support `APO[Task]`, as in Agent Lightning; the type argument is ignored."""
        return cls

    async def learn(self, lab: Lab) -> Finding:
        """Improve the prompts of the lab's baseline.

        Raises:
            InputError: The agent has no prompt, or there are no tasks.
            BudgetExhausted: The budget does not cover one round. Raised before anything is spent if
                rollouts and coach calls are limited, else once the price of a rollout is known.
            CoachUnavailable: No coach is configured, or it cannot be reached.
        """
        self._check(lab)
        if not self._few_shot:
            return await self._improve(lab)
        from ratchet.learn.few_shot import FewShot, with_demonstrations

        return await with_demonstrations(
            lab, self._improve, FewShot(), name="apo", share=FEW_SHOT_SHARE
        )

    def _check(self, lab: Lab) -> None:
        """Check that there is a prompt to improve, and budget for one round."""
        if not any(isinstance(r, PromptTemplate) for r in lab.targets.values()):
            raise InputError(
                "The agent has no prompt to improve.",
                hint='Name one: SYSTEM = ratchet.prompt("system", "You are ...").',
            )
        for split, tasks in (("train", lab.train), ("val", lab.val)):
            if not tasks:
                raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")
        if not lab.has_coach:
            raise CoachUnavailable(
                "APO needs a coach LLM, and none is configured.",
                hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
            )
        self._check_budget(lab, _rollouts_left(lab))
        calls = lab.budget.coach_calls
        fewest = 1 + CALLS_AN_EDIT
        if calls is not None and calls - lab.spent.coach_calls < fewest:
            raise BudgetExhausted(
                f"The budget of {calls} coach calls does not cover one edit: a critique, the"
                f" edit and its repair are {fewest}.",
                hint="Raise coach_calls under [improve.budget].",
            )

    def _check_budget(self, lab: Lab, left: int | None, dollars: str = "") -> None:
        fewest = least(len(lab.train), len(lab.val))
        if self._few_shot and left is not None:
            left = int(left * (1 - FEW_SHOT_SHARE))
        if left is None or left >= fewest:
            return
        raise BudgetExhausted(
            f"The budget does not cover one round of APO: {fewest} rollouts are needed at least"
            f" (the source and one edit on a few train tasks, both on a few val tasks), and"
            f" {max(0, left)} are left{dollars}.",
            hint=f"Raise {'dollars' if dollars else 'rollouts'} under [improve.budget]"
            f"{f' to what {8 * fewest} rollouts cost' if dollars else ''};"
            " a few hundred rollouts are usual.",
        )

    async def _improve(self, lab: Lab) -> Finding:
        plan = self._plan(lab, _rollouts_left(lab))
        panel, val = lab.shuffled("apo/train", lab.train), lab.shuffled("apo/val", lab.val)
        race: Race[RaceEntry] = Race()
        source = RaceEntry(0, lab.baseline)
        first_val = asyncio.ensure_future(self._validate_first(lab, val[: plan.val]))
        try:
            race.add(source, await lab.evaluate(lab.baseline, panel[: plan.panel]))
            require_scores(source.evaluations.values(), "train")
            plan = self._afford(lab, plan, source)
            search = PromptSearch(
                lab,
                self._coaching(lab),
                options=self._options,
                sizes=plan,
                panel=panel,
                val=val[: plan.val],
                race=race,
                source=source,
                reserve=plan.reserve + (0 if self._initial_validation else plan.val),
                while_better=self._while_better,
            )
            end = await search.run()
            known = await first_val
        finally:
            first_val.cancel()
            await asyncio.gather(first_val, return_exceptions=True)
        return await self._finish(lab, race, search, plan, val, known, end)

    def _coaching(self, lab: Lab) -> Coaching:
        return Coaching(
            lab,
            algorithm=self.name,
            temperature=self._temperature,
            gradient_model=self._gradient_model,
            apply_edit_model=self._apply_edit_model,
        )

    async def _validate_first(self, lab: Lab, tasks: Sequence[Task]) -> list[Evaluation]:
        return await lab.evaluate(lab.baseline, tasks) if self._initial_validation else []

    def _plan(self, lab: Lab, rollouts: int | None) -> SearchSizes:
        return sizes(
            self._options,
            rollouts=rollouts,
            train=len(lab.train),
            val=len(lab.val),
            concurrency=lab.concurrency,
        )

    def _afford(self, lab: Lab, plan: SearchSizes, source: RaceEntry) -> SearchSizes:
        """The sizes recomputed with the measured price of a rollout.

        Raises:
            BudgetExhausted: The dollars do not cover one round.
        """
        price = math.fsum(e.rollout.cost.known_usd for e in source.evaluations.values())
        if lab.budget.dollars is None or price <= 0:
            return plan
        price /= len(source.evaluations)
        reach = int(lab.budget.dollars / price)
        self._check_budget(lab, reach, f" at ${price:.4f} each")
        if reach >= plan.rollouts:
            return plan
        return self._plan(lab, reach)

    async def _finish(
        self,
        lab: Lab,
        race: Race[RaceEntry],
        search: PromptSearch,
        plan: SearchSizes,
        val: Sequence[Task],
        known: Sequence[Evaluation],
        end: SearchEnd,
    ) -> Finding:
        """Compare the finalists on val and select one."""
        finalists = search.finalists()
        ran = len(known)
        if search.validated in [c.number for c in finalists]:
            ran += plan.val
        tasks = val[: self._val_tasks(lab, plan, len(finalists), len(val), ran)]
        judged = await asyncio.gather(
            *(lab.evaluate(c.candidate, tasks) for c in (search.source, *finalists)),
            return_exceptions=True,
        )
        measured = {lab.baseline.id: known}
        for entry, evaluations in zip((search.source, *finalists), judged, strict=True):
            if isinstance(evaluations, BudgetExhausted):
                continue  # more expensive than the earlier ones
            if isinstance(evaluations, BaseException):
                raise evaluations
            measured[entry.id] = evaluations
        require_scores(measured[lab.baseline.id], "val")
        scores = {one: scores_of(evaluations) for one, evaluations in measured.items()}
        choice = race.choose(search.source, finalists, scores, is_last=lab.is_last)
        return Finding(
            best=choice.entry.candidate,
            baseline_val=choice.first_val,
            best_val=choice.best_val,
            proposals=search.proposals,
            sentence=_sentence(search, end),
            ended=end.cause,
        )

    def _val_tasks(self, lab: Lab, plan: SearchSizes, finalists: int, most: int, ran: int) -> int:
        """Number of val tasks for the comparison: as planned, or more if rollouts are left.

        `ran` is the number of its rollouts that are already paid for.
        """
        if not finalists:
            return max(ran, min(most, plan.val))
        left = _rollouts_left(lab)
        if left is None:
            return most if lab.budget.dollars is None else plan.val
        return max(1, min(most, (left + ran) // (finalists + 1)))


def _coach_options(
    client: Any, models: Sequence[str | None], base_url: str | None
) -> Mapping[str, Any]:
    options: dict[str, Any] = {}
    names = [name for name in dict.fromkeys(models) if name]
    if len(names) == 1:
        options["model"] = names[0]
    elif names:
        options["models"] = [{"name": name} for name in names]
    address = base_url or getattr(client, "base_url", None)
    if address:
        options["base_url"] = str(address)
    return options


def _check_temperature(value: Any) -> None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known or not 0 <= value <= 2:
        raise InputError(f"APO(diversity_temperature={value!r}): a number from 0 to 2 is needed.")


def _rollouts_left(lab: Lab) -> int | None:
    if lab.budget.rollouts is None:
        return None
    return lab.budget.rollouts - lab.spent.rollouts


def _sentence(search: PromptSearch, end: SearchEnd) -> str:
    count = f"{search.proposals} edits" if search.proposals != 1 else "1 edit"
    parts = [f"{search.accepted} accepted", f"{search.pruned} given up"]
    if search.refused:
        reasons = max(set(search.problems), key=search.problems.count, default="")
        parts.append(f"{search.refused} not usable ({reasons.rstrip('.')})")
    if search.unchanged:
        parts.append(f"{search.unchanged} declined by the coach, who would change nothing")
    if search.untried:
        parts.append(f"{search.untried} not tried, since nothing was left")
    return f"{count} ({', '.join(parts)}); {end.why}."
