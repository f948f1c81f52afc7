"""Runs: one execution of `ratchet improve`, and the stage it has reached."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ratchet.types.notebook import table_html

Stage: TypeAlias = Literal[
    "baseline", "learn", "prove", "ship", "shipped", "no_gain", "not_proved", "failed"
]

STAGE_TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    "baseline": frozenset({"learn", "failed"}),
    "learn": frozenset({"prove", "no_gain", "failed"}),
    "prove": frozenset({"ship", "no_gain", "not_proved", "failed"}),
    "ship": frozenset({"shipped", "failed"}),
    "shipped": frozenset(),
    "no_gain": frozenset(),
    # Test tasks that are added later continue its comparison.
    "not_proved": frozenset({"prove"}),
    # The user can fix the cause (a dirty tree, failing tests): the same command resumes the run
    # there.
    "failed": frozenset({"baseline", "learn", "prove", "ship"}),
}
"""Allowed stage transitions. A stage without successors is final."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """An execution of the improvement loop; its id is the hash of its determining settings."""

    id: str
    agent: str
    """The agent's entry, MODULE:FUNCTION."""
    seed: int
    stage: Stage
    failed_at: str = ""
    """The stage to resume from, if the stage is `failed`."""
    created_at: float
    updated_at: float
    dataset_version: str = ""
    earlier_versions: tuple[str, ...] = ()
    """Versions of the dataset before tasks were added to its comparison, oldest first."""
    baseline_id: str = ""
    best_id: str = ""
    """Id of the best candidate on val; empty until learning has ended."""
    experiment_id: str = ""
    release_id: str = ""
    message: str = ""
    """How it ended, in one sentence."""
    project: str = ""
    """The project, among others in the same store."""
    conditions: str = ""
    """Hash of what a rollout depends on besides candidate and task: the agent's source, its
    limits and where it runs. Rollouts of the baseline are paid once for all runs that share it."""
    rules: str = ""
    """Hash of what a comparison depends on besides the candidate and the tasks: conditions,
    baseline, evaluators, the rules of the proof and the seed."""

    def _repr_html_(self) -> str:
        return table_html(
            f"Run {self.id[:8]}",
            {
                "agent": self.agent,
                "stage": self.stage,
                "message": self.message,
                "best candidate": self.best_id,
                "experiment": self.experiment_id,
                "release": self.release_id,
            },
        )
