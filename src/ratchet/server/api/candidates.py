"""Candidates: sets of resource versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.api.fields import Name, Request, ShortText, Version
from ratchet.server.problems import Problem
from ratchet.server.routes import READ, RUN, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Candidate, InputError, Resource

group = RouteGroup("candidates")


class NewCandidate(Request, frozen=True, kw_only=True):
    """A set of resources, keyed by their names in the agent's source."""

    resources: Annotated[dict[Name, Resource], Meta(max_length=1_000)]
    parents: Annotated[list[Version], Meta(max_length=100)] = []
    algorithm: ShortText = "api"
    reason: ShortText = ""


class CandidateId(msgspec.Struct, frozen=True):
    """Id of the stored candidate."""

    id: str
    """Content hash of the resource versions."""


@group.route("POST", "/v1/candidates", RUN, audited=True)
async def publish_candidate(server: Services, body: NewCandidate) -> CandidateId:
    """Publish a candidate with its resources. Repeating the call changes nothing."""
    candidate = Candidate.of(
        body.resources,
        parents=tuple(body.parents),
        algorithm=body.algorithm,
        reason=body.reason,
    )
    return CandidateId(await server.in_thread(server.store.candidates.put, candidate))


class CandidateView(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate; fetch its resources by their versions."""

    id: str
    versions: dict[str, str]
    """Version by resource name."""
    parents: list[str]
    algorithm: str
    reason: str


@group.route("GET", "/v1/candidates/{id}", READ)
async def get_candidate(server: Services, id: str) -> CandidateView:
    """Get a candidate."""
    candidate = await find(server, id)
    return CandidateView(
        id=candidate.id,
        versions=candidate.versions(),
        parents=list(candidate.parents),
        algorithm=candidate.algorithm,
        reason=candidate.reason,
    )


async def find(server: Services, id: str) -> Candidate:
    """Get a candidate.

    Raises:
        Problem: It does not exist (404).
    """
    try:
        return await server.in_thread(server.store.candidates.get, id)
    except InputError as error:
        raise Problem(404, error.message, field="id") from None
