"""Labels: people's verdicts on outputs, against which evaluators are measured."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from ratchet.evaluate.labelling import label_cases, most_instructive
from ratchet.server.api.fields import Request, UnixTime
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Drawn, Label, label_fault

group = RouteGroup("labels")

LabelId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,200}$")]
Reference = Annotated[str, Meta(max_length=200)]


class NewLabel(Request, frozen=True, kw_only=True):
    """One person's verdict on one rollout or trace."""

    id: LabelId
    """Chosen by the sender; a later label of the same id replaces the earlier."""
    value: Annotated[float, Meta(ge=0, le=1)]
    """1 is right, 0 is wrong."""
    rollout_id: Reference = ""
    trace_id: Reference = ""
    criterion: Annotated[str, Meta(max_length=2_000)] = ""
    """What was judged; empty for the output as a whole."""
    labeller: Reference = ""
    drawn: Drawn = "imported"
    """`random` only if the subject was drawn uniformly from all."""
    comment: Annotated[str, Meta(max_length=20_000)] = ""
    created_at: UnixTime = 0.0
    """Unix seconds; the server's clock when omitted."""


class NewLabels(Request, frozen=True, kw_only=True):
    """Labels to store."""

    labels: Annotated[list[NewLabel], Meta(max_length=1_000)]


class LabelsStored(msgspec.Struct, frozen=True):
    """Number of stored labels."""

    stored: int


@group.route("POST", "/v1/labels", DEVELOP)
async def add_labels(server: Services, body: NewLabels) -> LabelsStored:
    """Store people's labels of rollouts or traces."""
    items = [Label(**msgspec.structs.asdict(new)) for new in body.labels]
    for number, item in enumerate(items):
        if (wrong := label_fault(item)) is not None:
            raise HttpProblem(422, wrong[1], field=f"labels[{number}].{wrong[0]}")
    await server.in_thread(_store, server, items)
    return LabelsStored(len(items))


def _store(server: Services, items: list[Label]) -> None:
    redacted = [
        msgspec.structs.replace(item, comment=server.redactor.text(item.comment)) for item in items
    ]
    server.store.labels.add(redacted, time.time())


class LabelFilter(Request, frozen=True, kw_only=True):
    """Filter for labels."""

    criterion: Annotated[str, Meta(max_length=2_000)] | None = None
    rollout_id: Reference | None = None
    trace_id: Reference | None = None


class LabelList(msgspec.Struct, frozen=True):
    """Labels, oldest first."""

    labels: list[Label]


@group.route("GET", "/v1/labels", READ)
async def list_labels(server: Services, query: LabelFilter) -> LabelList:
    """List labels, oldest first."""
    filters = msgspec.structs.asdict(query)
    return LabelList(await server.in_thread(server.store.labels.list, **filters))


MAX_ROLLOUTS_READ = 5_000
"""How many of the newest rollouts are considered, as in `ratchet label`."""


class LabellingQuery(Request, frozen=True, kw_only=True):
    """Who labels, and what is judged."""

    labeller: Reference = ""
    criterion: Annotated[str, Meta(max_length=2_000)] = ""


class RolloutsToLabel(msgspec.Struct, frozen=True):
    """Rollouts without a label of this person, most informative first, as `ratchet label` asks."""

    rollout_ids: list[str]
    labelled: int
    """Number of rollouts and traces with a label of this person."""


@group.route("GET", "/v1/labelling", READ)
async def list_rollouts_to_label(server: Services, query: LabellingQuery) -> RolloutsToLabel:
    """List the rollouts that a person should label next."""
    return await server.in_thread(_to_label, server.store, query)


def _to_label(store: Store, query: LabellingQuery) -> RolloutsToLabel:
    mine = [
        label
        for label in store.labels.list(criterion=query.criterion)
        if label.labeller == query.labeller
    ]
    known = {label.rollout_id for label in mine}
    rollouts, _ = store.rollouts.list(status="succeeded", limit=MAX_ROLLOUTS_READ)
    cases = most_instructive(label_cases(rollouts, store.scores.of([r.id for r in rollouts])))
    ids = [case.rollout.id for case in cases if case.rollout.id not in known]
    return RolloutsToLabel(ids, len(mine))


class LabelRemoved(msgspec.Struct, frozen=True):
    """Whether there was such a label."""

    removed: bool


@group.route("DELETE", "/v1/labels/{id}", DEVELOP)
async def remove_label(server: Services, id: str) -> LabelRemoved:
    """Delete a label, such as one given by mistake."""
    return LabelRemoved(await server.in_thread(server.store.labels.remove, id))
