"""Evolve: an asynchronous evolutionary search over one or several prompts and functions.

Combines reflective mutation from traces and feedback with a Pareto front over tasks (GEPA: Agrawal
et al. 2025), islands and a quality–diversity archive (AlphaEvolve: Novikov et al. 2025; MAP-Elites:
Mouret & Clune 2015), merges of different candidates' changes, racing on shared tasks (F-Race:
Birattari et al. 2002), and a final selection corrected for the bias of the maximum. Each part is a
module of this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.learn.algorithm import Finding, SearchEnd
from ratchet.learn.evidence import cut
from ratchet.learn.evolve.budget import make_plan
from ratchet.learn.evolve.engine import Engine
from ratchet.learn.evolve.settings import SearchSettings
from ratchet.learn.lab import Lab
from ratchet.learn.proposers import PROPOSERS, Proposer, make_proposer
from ratchet.learn.wording import counted
from ratchet.llm import CoachUnavailable
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import InputError, kind_of


class Evolve:
    """Evolution of prompts and functions.

    Args:
        proposers: Proposers to use: `llm` calls the coach, `ast` mutates code without one.
            Instances of custom proposers are accepted too.
        first_tasks: Number of tasks on which a coach's change is first evaluated; half as many for
            changes that are free to make and seldom help.
        examples: Maximum number of rollouts shown to a critique.
        crossover: Share of the coach's proposals that combine two candidates.
        islands: Number of populations; derived from the budget by default.
        migrate_every: Number of accepted candidates between migrations of each island's best to the
            next.
        finalists: Number of candidates compared on val; derived from the budget by default.
        max_candidates: Maximum number of candidates judged; None for no limit but the budget.
        patience: Number of candidates in a row without a better best after which the search ends.
        max_growth: Maximum length of a prompt or function, as a multiple of the source's own.
        model: The coach's model; that of `[coach]` by default.
        base_url: The coach's endpoint; that of `[coach]` by default.
    """

    name = "evolve"
    needs_coach = None
    """Uses a coach if one is configured; functions can be changed without."""

    def __init__(
        self,
        *,
        proposers: Sequence[str | Proposer] = ("llm", "ast"),
        first_tasks: int = 6,
        examples: int = 6,
        crossover: float = 0.2,
        islands: int | None = None,
        migrate_every: int = 10,
        finalists: int | None = None,
        max_candidates: int | None = None,
        patience: int | None = None,
        max_growth: float = 4.0,
        model: str | None = None,
        base_url: str | None = None,
    ) -> None:
        limits: Mapping[str, Any] = {
            "first_tasks": first_tasks,
            "examples": examples,
            "islands": islands,
            "migrate_every": migrate_every,
            "finalists": finalists,
            "max_candidates": max_candidates,
            "patience": patience,
        }
        optional = {"islands", "finalists", "max_candidates", "patience"}
        for name, value in limits.items():
            if value is None and name in optional:
                continue
            if not (type(value) is int and value >= 1):
                raise InputError(f"Evolve({name}={value!r}): a whole number from 1 up is needed.")
        if type(crossover) not in (int, float) or not 0 <= crossover <= 1:
            raise InputError(f"Evolve(crossover={crossover!r}): a share from 0 to 1 is needed.")
        if type(max_growth) not in (int, float) or not 1 <= max_growth < float("inf"):
            raise InputError(f"Evolve(max_growth={max_growth!r}): a number from 1 up is needed.")
        if isinstance(proposers, str) or not proposers:
            raise InputError(
                f"Evolve(proposers={proposers!r}): a list of {', '.join(PROPOSERS)} is needed."
            )
        self._proposers = [make_proposer(one) for one in proposers]
        options = {"model": model, "base_url": base_url}
        self.coach_options = {name: value for name, value in options.items() if value}
        self._first = first_tasks
        self._islands = islands
        self._finalists = finalists
        self._settings = SearchSettings(
            examples=examples,
            crossover=float(crossover),
            migrate_every=migrate_every,
            max_candidates=max_candidates,
            patience=patience,
            max_growth=float(max_growth),
        )

    async def learn(self, lab: Lab) -> Finding:
        """Search the prompts and functions of the lab's baseline.

        Raises:
            InputError: No resource can be changed, or there are no tasks.
            BudgetExhausted: The budget does not cover one round; nothing was run.
            CoachUnavailable: Only the coach can change these resources, and it is unavailable.
        """
        for split, tasks in (("train", lab.train), ("val", lab.val)):
            if not tasks:
                raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")
        proposers = self._useful(lab)
        left = float("inf")
        if lab.budget.rollouts is not None:
            left = lab.budget.rollouts - lab.spent.rollouts
        plan = make_plan(
            left,
            train=len(lab.train),
            val=len(lab.val),
            first=self._first,
            finalists=self._finalists,
            islands=self._islands,
            at_once=lab.concurrency,
        )
        engine = Engine(lab, plan, self._settings, proposers)
        end = await engine.run()
        best, baseline_val, best_val = engine.final.result()
        return Finding(
            best=best,
            baseline_val=baseline_val,
            best_val=best_val,
            proposals=engine.judging.tried,
            sentence=_sentence(engine, end),
            ended=end.cause,
        )

    def _useful(self, lab: Lab) -> list[Proposer]:
        """The proposers that can change a resource of this baseline."""
        suited = {
            proposer.name: proposer
            for proposer in self._proposers
            if any(proposer.suits(resource) for resource in lab.targets.values())
        }
        if not suited:
            kinds = sorted({kind_of(resource) for resource in lab.targets.values()})
            names = ", ".join(proposer.name for proposer in self._proposers)
            raise InputError(
                f"The agent has nothing that {names} can change: it has"
                f" {' and '.join(kinds) or 'no resources'}.",
                hint="Declare a prompt (ratchet.prompt) or a function (@ratchet.evolve).",
            )
        able = [p for p in suited.values() if lab.has_coach or not p.coach_calls]
        if not able:
            what = " and ".join(repr(name) for name in lab.targets)
            raise CoachUnavailable(
                f"Evolve has no proposer for {what}: prompts need a coach LLM, and none is"
                " configured; without one only functions can be changed.",
                hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
            )
        return able


def _sentence(engine: Engine, end: SearchEnd) -> str:
    judging, breeding = engine.judging, engine.breeding
    made = ", ".join(f"{count} by {name}" for name, count in sorted(breeding.made.items()))
    parts = [f"Candidates: {made or 'none'}; {judging.tried} tried, {judging.kept} kept"]
    if breeding.repeated:
        parts.append(f"{counted(breeding.repeated, 'draft')} brought nothing new")
    if breeding.unusable:
        last = breeding.last_problem.rstrip(".")
        parts.append(f"{counted(breeding.unusable, 'draft')} could not be used (the last: {last})")
    if breeding.unchanged:
        parts.append(f"the coach would change nothing in {counted(breeding.unchanged, 'answer')}")
    if judging.turned_away:
        last = cut(judging.last_refusal.rstrip("."), 200)
        parts.append(f"the checks refused {judging.turned_away} (the last: {last})")
    if judging.failed_tests:
        parts.append(f"the repository's own tests refused {judging.failed_tests}")
    lost = engine.roster.coach_lost
    if lost is not None and end.cause != "coach":
        parts.append(f"the coach was lost ({lost.message})")
    return f"{', '.join(parts)}; {end.why}."
