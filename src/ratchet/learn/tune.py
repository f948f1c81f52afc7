"""Tune: searches the knobs of all params jointly with Optuna, pruning poor trials early.

Trials are requested in batches and reported in order, so that the same seed gives the same search
regardless of rollout latency. Each trial starts on a small subset of the train tasks, the same for
all; only the better part of the trials continues to larger ones (successive halving: Jamieson &
Talwalkar 2016, Li et al. 2018). Trials are proposed by the tree-structured Parzen estimator
(Bergstra et al. 2011) over all knobs jointly. The best few on train are compared on val.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ratchet.learn.algorithm import SPENT, Finding, SearchEnd, require_tasks
from ratchet.learn.budget import BudgetExhausted, too_few_rollouts
from ratchet.learn.lab import Lab
from ratchet.learn.race import Race, RaceEntry
from ratchet.learn.race import RaceResult as Chosen
from ratchet.learn.work import Proposal, mean, require_scores, scores_of
from ratchet.types import (
    Bool,
    Candidate,
    Choice,
    Float,
    InputError,
    Int,
    Knob,
    Model,
    Resource,
    Task,
    Value,
    search_space,
)
from ratchet.types.wording import counted

if TYPE_CHECKING:
    import optuna


STALE_BATCHES = 5
"""Number of batches in a row without a new candidate after which the search ends."""


class Tune:
    """Bayesian optimisation of params.

    Args:
        max_trials: Maximum number of trials; None for no limit but the budget.
        batch: Number of trials evaluated concurrently.
        eta: One in `eta` trials continues to the next subset, which is `eta` times as large.
        first_tasks: Minimum number of tasks in the smallest subset.
        finalists: Number of candidates compared on val at the end.
        patience: Number of batches in a row without a better best after which the search ends.
    """

    name = "tune"

    def __init__(
        self,
        *,
        max_trials: int | None = None,
        batch: int = 8,
        eta: int = 3,
        first_tasks: int = 16,
        finalists: int = 6,
        patience: int | None = None,
    ) -> None:
        limits = {"max_trials": max_trials, "batch": batch, "first_tasks": first_tasks}
        for name, value in {**limits, "finalists": finalists, "patience": patience}.items():
            if value is not None and not (type(value) is int and value >= 1):
                raise InputError(f"Tune({name}={value!r}): expected a positive whole number.")
        if type(eta) is not int or eta < 2:
            raise InputError(f"Tune(eta={eta!r}): expected a whole number of at least 2.")
        self._max_trials = max_trials
        self._batch = batch
        self._eta = eta
        self._first_tasks = first_tasks
        self._finalists = finalists
        self._patience = patience

    async def learn(self, lab: Lab) -> Finding:
        """Search the params of the lab's baseline.

        Raises:
            InputError: The agent has no params, or there are no tasks.
            BudgetExhausted: The budget does not cover the baseline and one trial, including the
                comparison on val; raised before any is run if rollouts are limited.
        """
        require_tasks(lab)
        search = _Search(lab, self._batch, _rungs(lab, self._eta, self._first_tasks), self._eta)
        reserve = len(lab.val) * self._finalists
        if _affordable(lab, reserve + len(lab.val)) < len(lab.train):
            raise _too_small(lab, reserve)
        before = await lab.evaluate(lab.baseline, lab.val)
        require_scores(before, "val")
        val = {lab.baseline.id: scores_of(before)}
        end = await self._search(lab, search, reserve)
        chosen = await self._choose(lab, search, val)
        return Finding(
            best=chosen.entry.candidate,
            baseline_val=chosen.first_val,
            best_val=chosen.best_val,
            proposals=search.asked,
            sentence=f"{counted(search.seen, 'combination')} in {counted(search.asked, 'trial')}, "
            f"{search.pruned} of them stopped early; {end.why}.",
            ended=end.cause,
        )

    async def _search(self, lab: Lab, search: _Search, reserve: int) -> SearchEnd:
        quiet = 0
        while lab.may_continue(f"tune/{search.asked:06d}"):
            if self._max_trials is not None and search.asked >= self._max_trials:
                return SearchEnd("limit", f"the limit of {self._max_trials} trials was reached")
            if search.best >= 1.0:
                return SearchEnd("solved", "a candidate solves every train task")
            if self._patience is not None and quiet >= self._patience:
                return SearchEnd("idle", f"{counted(quiet, 'batch')} without anything better")
            if search.stale >= STALE_BATCHES:
                return SearchEnd(
                    "idle", f"{counted(search.stale, 'batch')} without anything new to try"
                )
            if search.seen >= search.points:
                return SearchEnd("idle", f"all {search.points:g} combinations were tried")
            count = min(self._batch, _affordable(lab, reserve) // len(lab.train))
            if self._max_trials is not None:
                count = min(count, self._max_trials - search.asked)
            if count < 1:
                if not search.asked:
                    raise _too_small(lab, reserve)
                return SPENT
            before = search.best
            await search.step(count)
            quiet = 0 if search.best > before else quiet + 1
        return SPENT

    async def _choose(
        self, lab: Lab, search: _Search, val: dict[str, dict[str, float]]
    ) -> Chosen[RaceEntry]:
        finalists = search.finalists(self._finalists)
        judged = await asyncio.gather(
            *(lab.evaluate(entry.candidate, lab.val) for entry in finalists),
            return_exceptions=True,
        )
        for entry, evaluations in zip(finalists, judged, strict=True):
            if isinstance(evaluations, BudgetExhausted):
                continue
            if isinstance(evaluations, BaseException):
                raise evaluations
            val[entry.id] = scores_of(evaluations)
        return search.race.choose(search.source, finalists, val)


class _Search:
    """The state of a search: the requested trials and their scores on each subset."""

    def __init__(self, lab: Lab, batch: int, rungs: Sequence[Sequence[Task]], eta: int) -> None:
        self._lab = lab
        self._rungs = rungs
        self._eta = eta
        self._at_rung: list[list[float]] = [[] for _ in rungs]
        """Scores of all trials so far, by subset."""
        self.race: Race[RaceEntry] = Race()
        self.source = RaceEntry(0, lab.baseline)
        self._entries = {self.source.id: self.source}
        self._params = {
            name: params
            for name, resource in lab.targets.items()
            if (params := search_space(resource)) is not None
        }
        if not self._params:
            raise InputError(
                "The agent has no params to tune, and no choice of models.",
                hint='Declare some: KNOBS = ratchet.params("name", k=ratchet.Int(5, 1, 20)).',
            )
        self._study = _study(lab.seed, batch)
        self._distributions = {
            f"{name}.{knob}": _distribution(domain)
            for name, params in self._params.items()
            for knob, domain in params.space.items()
        }
        # The source's own point is the first trial, as the reference.
        self._study.enqueue_trial(
            {
                f"{name}.{knob}": _coordinate(domain, params.values[knob])
                for name, params in self._params.items()
                for knob, domain in params.space.items()
            }
        )
        # Then each model by itself, the cheapest first.
        for name, params in self._params.items():
            if isinstance(lab.targets[name], Model):
                for number in range(len(_options(params.space["model"]))):
                    self._study.enqueue_trial({f"{name}.model": number}, skip_if_exists=True)
        self.points = math.prod(_points(k) for p in self._params.values() for k in p.space.values())
        """Number of combinations of knob values."""
        self.stale = 0
        """Number of batches in a row without a new candidate."""
        self._complete: dict[str, RaceEntry] = {}
        self.asked = 0
        self.pruned = 0
        self.best = float("-inf")

    async def step(self, count: int) -> None:
        """Request a batch of trials, race them up the subsets, and report their scores."""
        trials = [self._study.ask(self._distributions) for _ in range(count)]
        before = self.seen
        entries = [self._entry(self._candidate(trial.params)) for trial in trials]
        self.stale = 0 if self.seen > before else self.stale + 1
        values: list[list[float]] = [[] for _ in trials]
        racing = list(range(count))
        for rung, tasks in enumerate(self._rungs):
            judged = await asyncio.gather(
                *(self._lab.evaluate(entries[i].candidate, tasks) for i in racing),
                return_exceptions=True,
            )
            if any(isinstance(outcome, BudgetExhausted) for outcome in judged):
                break  # dollars: these rollouts cost more than earlier ones
            for i, evaluations in zip(racing, judged, strict=True):
                if isinstance(evaluations, BaseException):
                    raise evaluations
                self.race.add(entries[i], evaluations)
                if entries[i] is self.source:
                    require_scores(evaluations, "train")
                values[i].append(mean(evaluations))
            reached = self._at_rung[rung]
            reached.extend(values[i][rung] for i in racing)
            if reached and rung < len(self._rungs) - 1:
                keep = sorted(reached, reverse=True)[: max(1, len(reached) // self._eta)][-1]
                racing = [i for i in racing if values[i][rung] >= keep or entries[i] is self.source]
        for i, trial in enumerate(trials):
            self._tell(trial, entries[i], values[i])

    def finalists(self, count: int) -> list[RaceEntry]:
        """Candidates by their mean over all train tasks, best first, without the source."""
        tuned = [entry for entry in self._complete.values() if entry is not self.source]
        return sorted(tuned, key=lambda entry: (-entry.mean(), entry.number))[:count]

    @property
    def seen(self) -> int:
        """Number of different candidates evaluated."""
        return len(self._entries)

    def _entry(self, candidate: Candidate) -> RaceEntry:
        """The candidate's entry; a new one if it has none."""
        new = RaceEntry(len(self._entries), candidate, self.source)
        return self._entries.setdefault(candidate.id, new)

    def _tell(self, trial: Any, entry: RaceEntry, values: Sequence[float]) -> None:
        from optuna.trial import TrialState

        number = self.asked
        self.asked += 1
        if not values:
            self.pruned += 1
            self._study.tell(trial, state=TrialState.FAIL)
            return
        pruned = len(values) < len(self._rungs)
        for rung, value in enumerate(values):
            trial.report(value, rung)
        if pruned:
            self.pruned += 1
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, values[-1])
            self._complete[entry.id] = entry
            self.best = max(self.best, values[-1])
        self._lab.judged(
            Proposal(
                number=number,
                candidate_id=entry.id,
                value=values[-1],
                tasks=len(self._rungs[len(values) - 1]),
                pruned=pruned,
                best=self.best if self._complete else values[-1],
                rollouts=self._lab.spent.rollouts,
            )
        )

    def _candidate(self, point: Mapping[str, Value]) -> Candidate:
        chosen: dict[str, Resource] = {}
        moved = 0
        for name, params in self._params.items():
            prefix = f"{name}."
            values = {
                knob: _value(domain, point[prefix + knob], params.values[knob])
                for knob, domain in params.space.items()
            }
            point_of_resource = params.replace(**values)
            source = self._lab.targets[name]
            chosen[name] = (
                source.at(point_of_resource) if isinstance(source, Model) else point_of_resource
            )
            moved += sum(
                point_of_resource.values[knob] != params.values[knob] for knob in params.space
            )
        if not moved:
            return self._lab.baseline
        total = len(self._distributions)
        knobs = "1 knob" if total == 1 else f"{total} knobs"
        reason = f"A trial of a search over {knobs}, which changes {'it' if total == 1 else moved}."
        return self._lab.propose(chosen, algorithm=Tune.name, reason=reason)


def _options(knob: Knob) -> tuple[Value, ...]:
    return knob.options if isinstance(knob, Choice) else ()


def _rungs(lab: Lab, eta: int, first_tasks: int) -> list[Sequence[Task]]:
    """Nested subsets of the train tasks, smallest first, each `eta` times the previous one."""
    tasks = list(lab.train)
    lab.rng.shuffle(tasks)
    sizes = [len(tasks)]
    while sizes[0] // eta >= first_tasks:
        sizes.insert(0, sizes[0] // eta)
    return [tasks[:size] for size in sizes]


def _study(seed: int, batch: int) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.logging.disable_default_handler()  # it would print to the terminal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed % 2**32,
            multivariate=True,
            constant_liar=batch > 1,
            n_startup_trials=2 * batch,
        )
    return optuna.create_study(direction="maximize", sampler=sampler)


def _distribution(knob: Knob) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match knob:
        case Int():
            return IntDistribution(knob.low, knob.high, log=knob.log)
        case Float():
            return FloatDistribution(knob.low, knob.high, log=knob.log)
        case Choice():
            return CategoricalDistribution(tuple(range(len(knob.options))))
        case Bool():
            return CategoricalDistribution((False, True))


def _coordinate(knob: Knob, value: Value) -> Value:
    """Position of a value in its distribution; an option's index, since True equals 1."""
    if isinstance(knob, Choice):
        return [(type(o), o) for o in knob.options].index((type(value), value))
    return value


def _value(knob: Knob, coordinate: Any, own: Value) -> Value:
    """The value at a position; `own` is the source's, which is never rounded."""
    if isinstance(knob, Choice):
        index: int = coordinate
        return knob.options[index]
    value: Value = coordinate
    if not isinstance(knob, Float) or value == own:
        return value
    # Four significant digits: the value appears in the patch.
    return min(max(float(f"{value:.4g}"), knob.low), knob.high)


def _points(knob: Knob) -> float:
    match knob:
        case Int():
            return knob.high - knob.low + 1
        case Float():
            return 1 if knob.low == knob.high else math.inf
        case Choice():
            return len(knob.options)
        case Bool():
            return 2


def _affordable(lab: Lab, reserve: int) -> int:
    """Number of rollouts that may be spent with `reserve` left over."""
    left: float = math.inf if lab.budget.rollouts is None else lab.budget.rollouts
    left -= lab.spent.rollouts
    if lab.budget.dollars is not None and lab.spent.dollars > 0:
        dollars = lab.budget.dollars - lab.spent.dollars
        left = min(left, dollars * lab.spent.rollouts / lab.spent.dollars)
    return int(min(left, 10**12)) - reserve


def _too_small(lab: Lab, reserve: int) -> BudgetExhausted:
    return too_few_rollouts(
        f"The budget does not cover one trial: {counted(len(lab.train), 'rollout')} on train, and"
        f" {len(lab.val) + reserve} on val for the baseline and the finalists.",
    )
