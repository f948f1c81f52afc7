"""The look at groups of live traffic: finds a group that is harmed despite a gain overall.

Each group has an e-process against "no worse in this group". Which groups are called harmed is
decided by e-BH: among them, the expected share of groups that are not is at most the plan's
`subgroup_alpha`, however many groups there are. Of a stage that ends at any time this holds, too,
since all e-processes advance with the same traffic.
"""

from __future__ import annotations

import msgspec

from ratchet.stats.eprocess import EProcess
from ratchet.stats.multiple import e_bh
from ratchet.stats.weighted_effect import Moments
from ratchet.types import SubgroupResult

MAX_GROUPS = 100
"""Groups that are kept apart; those that appear later are counted together."""

OTHER_GROUPS = "(others)"
"""Name of the later groups together."""


class Subgroup(msgspec.Struct):
    """One group's evidence and means so far."""

    harm: EProcess
    baseline: Moments
    candidate: Moments


class Subgroups(msgspec.Struct, kw_only=True):
    """Evidence of harm by group."""

    alpha: float
    horizon: int
    """Observations of a group within which its test aims to find harm."""
    groups: dict[str, Subgroup] = {}

    def name_of(self, group: str) -> str:
        """The name under which a group is counted; empty for no group."""
        if not group or group in self.groups or len(self.groups) < MAX_GROUPS:
            return group
        return OTHER_GROUPS

    def observe(
        self, group: str, observation: float, baseline: float | None, candidate: float | None
    ) -> None:
        """Add one observation of the candidate's gain to its group.

        Args:
            group: As `name_of` gives it; empty for none, and then nothing is done.
            observation: In [-1, 1]; its mean has the sign of the gain.
            baseline: Score; None if the observation is of the other side.
            candidate: Score; None if the observation is of the other side.
        """
        if not group:
            return
        subgroup = self.groups.get(group)
        if subgroup is None:
            threshold = (MAX_GROUPS + 1) / self.alpha  # enough for e-BH, however many there are
            harm = EProcess(threshold=threshold, horizon=self.horizon)
            subgroup = self.groups[group] = Subgroup(harm, Moments(), Moments())
        subgroup.harm.observe(-observation)
        if baseline is not None:
            subgroup.baseline.add(baseline)
        if candidate is not None:
            subgroup.candidate.add(candidate)

    def results(self, paired: bool) -> tuple[SubgroupResult, ...]:
        """All groups, by name.

        Args:
            paired: Whether an observation is a pair, and not a unit of one side.
        """
        harmed = e_bh(
            {name: subgroup.harm.value for name, subgroup in self.groups.items()}, self.alpha
        )
        return tuple(
            SubgroupResult(
                group=name,
                count=subgroup.baseline.count + (0 if paired else subgroup.candidate.count),
                baseline=subgroup.baseline.mean,
                candidate=subgroup.candidate.mean,
                e_value=subgroup.harm.value,
                harmed=name in harmed,
            )
            for name, subgroup in sorted(self.groups.items())
        )
