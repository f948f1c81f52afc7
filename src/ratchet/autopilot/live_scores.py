"""Scores of live answers by the evaluator of [autopilot], for the search for problems."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.autopilot.cycle.live_traffic import live_evaluator
from ratchet.autopilot.problem_scan import ScoreTrace
from ratchet.autopilot.project import Project
from ratchet.autopilot.recorded_scores import RecordedScores
from ratchet.store import Store
from ratchet.types import Score
from ratchet.types.trace import TraceRecording


def live_scores(project: Project, store: Store) -> tuple[ScoreTrace | None, float]:
    """What scores live answers of a project, and the highest score that is low.

    None where [autopilot] names no evaluator, or one that is paid for each answer: then feedback
    and imported scores count.

    Raises:
        ConfigError: [autopilot] evaluator names none.
    """
    evaluator = live_evaluator(project)
    if evaluator is None or getattr(evaluator, "is_judge", False):
        return None, project.config.autopilot.low_score
    scores = RecordedScores(store, evaluator)

    async def score(recording: TraceRecording) -> Sequence[Score]:
        found = await scores.score(recording)
        return () if found is None else (found,)

    return score, project.config.autopilot.low_score
