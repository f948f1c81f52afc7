"""Candidates: sets of resource versions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.server.agent_limits import NO_AGENT
from ratchet.server.api.fields import Name, Request, ShortText, Version
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, READ_BY_RUNNERS, RouteGroup
from ratchet.server.services import Services
from ratchet.types import Candidate, InputError, Resource, kind_of, resource_text

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


@group.route("POST", "/v1/candidates", DEVELOP, audited=True, agents=NO_AGENT)
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


@group.route("GET", "/v1/candidates/{id}", READ_BY_RUNNERS, agents=NO_AGENT)
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


class ChangeQuery(Request, frozen=True, kw_only=True):
    """The candidate to compare with."""

    since: Version | None = None
    """Another candidate; by default the first parent, or nothing when it has none."""


class ResourceChange(msgspec.Struct, frozen=True, kw_only=True):
    """One resource that differs."""

    name: str
    kind: str
    before: str | None
    """Its changeable part, as text; None if the other candidate lacks the resource."""
    after: str | None


class CandidateChanges(msgspec.Struct, frozen=True):
    """What a candidate changed."""

    since: str
    """Id of the other candidate; empty when there is none."""
    changes: list[ResourceChange]


@group.route("GET", "/v1/candidates/{id}/changes", READ)
async def get_changes(server: Services, id: str, query: ChangeQuery) -> CandidateChanges:
    """Get what a candidate changed: each differing resource, before and after."""
    candidate = await find(server, id)
    since = query.since or next(iter(candidate.parents), "")
    original = (await find(server, since)).resources if since else {}
    names = sorted({*candidate.resources, *original})
    changes = []
    for name in names:
        before, after = original.get(name), candidate.resources.get(name)
        either = after or before
        if either is None or before == after:
            continue
        changes.append(
            ResourceChange(
                name=name,
                kind=kind_of(either),
                before=None if before is None else resource_text(before),
                after=None if after is None else resource_text(after),
            )
        )
    return CandidateChanges(since, changes)


async def find(server: Services, id: str) -> Candidate:
    """Get a candidate.

    Raises:
        HttpProblem: It does not exist (404).
    """
    try:
        return await server.in_thread(server.store.candidates.get, id)
    except InputError as error:
        raise HttpProblem(404, error.message, field="id") from None
