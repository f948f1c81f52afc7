"""The effect of a random assignment on a number, unit by unit, adjusted by what was predicted.

A unit is treated with probability p. Its number Y in [0, 1] is compared with a prediction g that
was made without it and without its assignment:

    treated: (Y - g) / p        not treated: -(Y - g) / (1 - p)

Given all earlier units, the mean of this is the mean effect, exactly and whatever g is: a poor
prediction costs power, never validity. With a good one it varies less, by the share of the variance
that is explained. Source: Horvitz and Thompson, "A generalization of sampling without replacement
from a finite universe", JASA 1952; the adjustment as in Waudby-Smith et al., "Time-uniform central
limit theory and asymptotic confidence sequences", Annals of Statistics 2024.

A unit whose number is not known has an effect between two bounds: that of 0 and that of 1 (Manski,
"Nonparametric bounds on treatment effects", American Economic Review 1990). Their means lie below
and above the mean effect, whatever the reason why numbers are missing.

The prediction is the running mean of earlier numbers of both arms, in the unit's group if it has
one, shrunk towards the mean of all; and if the unit has a covariate, a regression on it with one
slope. Only IEEE-exact operations are used, so that replaying the units gives the same bits.
"""

from __future__ import annotations

import msgspec

MEAN, MEAN_WEIGHT = 0.5, 2.0
"""Prediction before the first unit, and its weight as a number of units."""

GROUP_WEIGHT = 10.0
"""Weight of the mean of all units in a group's mean, as a number of units."""

RIDGE = 1.0
"""Added to the covariate's sum of squares: the slope is 0 at first."""


class Moments(msgspec.Struct):
    """Count and sum of numbers."""

    count: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """None without numbers."""
        return self.total / self.count if self.count else None

    def add(self, number: float) -> None:
        """Add a number."""
        self.count += 1
        self.total += number

    def towards(self, mean: float, weight: float) -> float:
        """The mean of the numbers and of `mean`, which weighs as much as `weight` numbers."""
        return (weight * mean + self.total) / (weight + self.count)


class Spread(msgspec.Struct):
    """Count, sum and sum of squares of numbers."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, number: float) -> None:
        """Add a number."""
        self.count += 1
        self.total += number
        self.squares += number * number

    def moments(self) -> tuple[float, float]:
        """Mean and variance; there must be numbers."""
        mean = self.total / self.count
        return mean, max(self.squares / self.count - mean * mean, 0.0)


class OutcomeModel(msgspec.Struct, kw_only=True):
    """Predicts a unit's number from earlier units, in both arms alike."""

    numbers: Moments = msgspec.field(default_factory=Moments)
    covariates: Moments = msgspec.field(default_factory=Moments)
    numbers_by_group: dict[str, Moments] = {}
    covariates_by_group: dict[str, Moments] = {}
    squares: float = RIDGE
    products: float = 0.0

    def predict(self, group: str = "", covariate: float | None = None) -> float:
        """The prediction, in [0, 1]."""
        base, center = self._centers(group)
        if covariate is not None:
            base += self.products / self.squares * (covariate - center)
        return 0.0 if base < 0.0 else 1.0 if base > 1.0 else base

    def add(self, number: float, group: str = "", covariate: float | None = None) -> None:
        """Add a unit's number in [0, 1]; `group` is empty for none."""
        if covariate is not None:
            base, center = self._centers(group)
            self.squares += (covariate - center) * (covariate - center)
            self.products += (covariate - center) * (number - base)
            self.covariates.add(covariate)
            if group:
                self.covariates_by_group.setdefault(group, Moments()).add(covariate)
        self.numbers.add(number)
        if group:
            self.numbers_by_group.setdefault(group, Moments()).add(number)

    def _centers(self, group: str) -> tuple[float, float]:
        """Mean number and mean covariate."""
        number = self.numbers.towards(MEAN, MEAN_WEIGHT)
        covariate = self.covariates.towards(MEAN, MEAN_WEIGHT)
        if group:
            if (numbers := self.numbers_by_group.get(group)) is not None:
                number = numbers.towards(number, GROUP_WEIGHT)
            if (covariates := self.covariates_by_group.get(group)) is not None:
                covariate = covariates.towards(covariate, GROUP_WEIGHT)
        return number, covariate


class WeightedEffect(msgspec.Struct, kw_only=True):
    """The effect on one number, as observations in [-1, 1] for an e-process."""

    share: float
    """Probability of being treated, in (0, 1)."""
    model: OutcomeModel = msgspec.field(default_factory=OutcomeModel)
    treated: Moments = msgspec.field(default_factory=Moments)
    untreated: Moments = msgspec.field(default_factory=Moments)
    lowest: Spread = msgspec.field(default_factory=Spread)
    """Observations at the lower bounds of the effects."""
    highest: Spread = msgspec.field(default_factory=Spread)
    """Observations at the upper bounds of the effects."""

    @property
    def known(self) -> int:
        """Units whose number is known."""
        return self.treated.count + self.untreated.count

    @property
    def bound(self) -> float:
        """Largest magnitude of a unit's effect: an observation of 1 is an effect of this size."""
        return max(1.0 / self.share, 1.0 / (1.0 - self.share))

    def observe(
        self, number: float | None, treated: bool, group: str = "", covariate: float | None = None
    ) -> tuple[float, float]:
        """Add a unit; returns the bounds of its effect divided by `bound`, equal if it is known.

        Args:
            number: In [0, 1]; None when it is not known.
            treated: Its assignment.
            group: Empty for none.
            covariate: A number in [0, 1] known before the assignment; None without one.
        """
        predicted = self.model.predict(group, covariate)
        if number is None:
            worst, best = (0.0, 1.0) if treated else (1.0, 0.0)
            low = self._effect(worst, predicted, treated)
            high = self._effect(best, predicted, treated)
        else:
            low = high = self._effect(number, predicted, treated)
            self.model.add(number, group, covariate)
            (self.treated if treated else self.untreated).add(number)
        self.lowest.add(low)
        self.highest.add(high)
        return low, high

    def _effect(self, number: float, predicted: float, treated: bool) -> float:
        weight = 1.0 / self.share if treated else 1.0 / (1.0 - self.share)
        # Dividing weight by bound first keeps the result within [-1, 1] after rounding.
        effect = (number - predicted) * (weight / self.bound)
        return effect if treated else -effect
