"""Evolve: the search for functions, by mutation of syntax trees and a coach's rewrites.

Mutants are drawn from the best candidates (Thompson sampling) and raced on shared tasks (F-Race:
Birattari et al. 2002). Prompts are searched too, by the coach alone, as `APO` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.learn.algorithm import Finding, require_tasks
from ratchet.learn.apo.apo import check_budget
from ratchet.learn.lab import Lab
from ratchet.learn.search import numbers
from ratchet.learn.search.coaching import Coaching, RewriteSettings
from ratchet.learn.search.comparison import compared
from ratchet.learn.search.plan import SearchPlan, make_plan, rollouts_left
from ratchet.learn.search.search import Search
from ratchet.llm import CoachUnavailable
from ratchet.llm.hosted_model import HOSTED_MODEL
from ratchet.types import Code, InputError, PromptTemplate, kind_of

COACH = "llm"
"""Name of the coach among the proposers."""

MUTATION = "ast"
"""Name of mutation among the proposers."""


class Evolve:
    """Evolution of functions, and of prompts.

    Args:
        proposers: What drafts changes: `llm` asks the coach, `ast` mutates code without one.
        first_tasks: Number of tasks on which a change is first evaluated.
        finalists: Number of candidates compared on val; derived from the budget by default.
        max_candidates: Maximum number of candidates judged; None for no limit but the budget.
        patience: Number of candidates in a row without a better best after which the search ends.
        max_growth: Maximum length of a prompt or function, as a multiple of the source's own.
        model: The coach's model; that of `[coach]` by default.
        base_url: The coach's endpoint; that of `[coach]` by default.
    """

    name = "evolve"
    needs_coach = None
    """Uses a coach if one is configured; without one, it can still change functions."""

    def __init__(
        self,
        *,
        proposers: Sequence[str] = (COACH, MUTATION),
        first_tasks: int = numbers.FIRST_TASKS,
        finalists: int | None = None,
        max_candidates: int | None = None,
        patience: int | None = None,
        max_growth: float = 4.0,
        model: str | None = None,
        base_url: str | None = None,
    ) -> None:
        limits: Mapping[str, Any] = {
            "first_tasks": first_tasks,
            "finalists": finalists,
            "max_candidates": max_candidates,
            "patience": patience,
        }
        optional = {"finalists", "max_candidates", "patience"}
        for name, value in limits.items():
            if value is None and name in optional:
                continue
            if not (type(value) is int and value >= 1):
                raise InputError(f"Evolve({name}={value!r}): expected a positive whole number.")
        if type(max_growth) not in (int, float) or not 1 <= max_growth < float("inf"):
            raise InputError(f"Evolve(max_growth={max_growth!r}): expected a number of at least 1.")
        kinds = (COACH, MUTATION)
        if isinstance(proposers, str) or not proposers or not {*proposers} <= {*kinds}:
            raise InputError(
                f"Evolve(proposers={proposers!r}): expected a list of {' and '.join(kinds)}."
            )
        self._proposers = tuple(proposers)
        options = {"model": model, "base_url": base_url}
        self.coach_options = {name: value for name, value in options.items() if value}
        self._first = first_tasks
        self._finalists = finalists
        self._max_candidates = max_candidates
        self._patience = patience
        self._max_growth = float(max_growth)
        self._coach = RewriteSettings(algorithm=self.name, max_growth=self._max_growth)

    async def learn(self, lab: Lab) -> Finding:
        """Search the prompts and functions of the lab's baseline.

        Raises:
            InputError: No resource can be changed, or there are no tasks.
            BudgetExhausted: The budget does not cover one candidate; nothing was run.
            CoachUnavailable: Only the coach can change these resources, and it is unavailable.
        """
        require_tasks(lab)
        coaching, functions = self._useful(lab)
        check_budget(lab)

        def plan() -> SearchPlan:
            return make_plan(
                rollouts_left(lab),
                train=len(lab.train),
                val=len(lab.val),
                slots=lab.concurrency,
                first=self._first,
                finalists=self._finalists,
            )

        search = Search(
            lab,
            self.name,
            plan,
            coaching=coaching,
            mutates=functions,
            max_candidates=self._max_candidates,
            patience=self._patience,
            max_growth=self._max_growth,
        )
        return await compared(lab, search, await search.run())

    def _useful(self, lab: Lab) -> tuple[Coaching | None, list[str]]:
        """The coach, if it can change a resource of this baseline; and the functions to mutate."""
        texts = [n for n, r in lab.targets.items() if isinstance(r, PromptTemplate | Code)]
        functions = [name for name in texts if isinstance(lab.targets[name], Code)]
        if MUTATION not in self._proposers:
            functions = []
        asks = COACH in self._proposers and bool(texts)
        if asks and lab.coach.is_configured:
            alone = msgspec.structs.replace(self._coach, required=not functions)
            return Coaching(lab, alone, texts), functions
        if functions:
            return None, functions
        if not asks:
            kinds = sorted({kind_of(resource) for resource in lab.targets.values()})
            raise InputError(
                f"The agent has nothing that {', '.join(self._proposers)} can change: it has"
                f" {' and '.join(kinds) or 'no resources'}.",
                hint="Declare a prompt (ratchet.prompt) or a function (@ratchet.evolve).",
            )
        what = " and ".join(repr(name) for name in lab.targets)
        raise CoachUnavailable(
            f"Evolve has no proposer for {what}: prompts need a coach model, and none is "
            "configured; without one, only functions can be changed.",
            hint=f'Name one under [coach] in ratchet.toml: model = "{HOSTED_MODEL}".',
        )
