"""Scores that evaluators gave to rollouts."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import of_rollouts
from ratchet.server.api.fields import MAX_ITEMS, Request, RolloutId
from ratchet.server.api.rollouts import ReportedScore
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Score

group = RouteGroup("scores")


class NewScore(Request, frozen=True, kw_only=True):
    """One evaluator's score of one rollout."""

    rollout_id: RolloutId
    score: ReportedScore


class NewScores(Request, frozen=True, kw_only=True):
    """Scores; a later score of the same evaluator and version replaces the earlier."""

    scores: Annotated[list[NewScore], Meta(max_length=MAX_ITEMS)]


class ScoresStored(msgspec.Struct, frozen=True):
    """Number of stored scores."""

    stored: int


@group.route(
    "POST",
    "/v1/scores",
    DEVELOP,
    agents=of_rollouts(lambda arguments: [score.rollout_id for score in arguments["body"].scores]),
)
async def add_scores(server: Services, body: NewScores) -> ScoresStored:
    """Store scores."""
    for number, new in enumerate(body.scores):
        if (new.score.value is None) == (not new.score.error):
            raise HttpProblem(
                422, "A score has either a value or an error.", field=f"scores[{number}].score"
            )
    items = [(new.rollout_id, Score(**msgspec.structs.asdict(new.score))) for new in body.scores]
    await server.in_thread(server.store.scores.add, items, time.time())
    return ScoresStored(len(items))
