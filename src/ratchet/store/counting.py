"""Deduplicates recorded model calls, so that each call counts once.

A call may be recorded several times: by the framework, by the client library beneath it, and by the
gateway that it went through. The rule:

1. Spans that sum up the calls beneath them, such as an agent's, count only where no call is
   recorded.
2. Of a call's record and the records below it, at any depth, those below count: they are nearest
   to the actual request. The one above counts when it has a price and one below has none, or when
   no price is known and it has the tokens.
3. The gateway's record of a call lies below the client's record of it. Where the client did not
   propagate its trace context, the two are matched: same attempt, same model, and same number of
   output tokens. Each gateway record matches at most one client record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ratchet.types.trace import ModelCall


class Used(NamedTuple):
    """Usage recorded by one span."""

    span_id: str
    parent_id: str | None
    call: ModelCall
    whole: bool
    """Whether it sums up the usage of other spans."""
    gateway: bool = False
    """Whether the gateway recorded it."""


def counted_once(used: Sequence[Used], parents: Mapping[str, str | None]) -> list[Used]:
    """Return the records that count, in their order.

    Args:
        used: All records of one trace or attempt, with their known prices.
        parents: Parent of each span, including spans without usage.
    """
    calls = [record for record in used if not record.whole] or list(used)
    if len(calls) < 2:
        return calls
    by_id = {record.span_id: record for record in calls}
    above = _above(by_id, parents)
    _match(by_id, above)
    order = _outermost_first(by_id, above)
    wins: dict[str, bool] = {}
    rank: dict[str, int] = {}
    lowest: dict[str, int] = {}
    """The lowest rank of the counted records below a record; absent if there are none."""
    for id in reversed(order):
        own = _rank(by_id[id].call)
        wins[id] = id not in lowest or own > lowest[id]
        rank[id] = own if wins[id] else lowest[id]
        parent = above[id]
        if parent is not None:
            lowest[parent] = min(rank[id], lowest.get(parent, rank[id]))
    covered: dict[str, bool] = {}
    for id in order:
        parent = above[id]
        covered[id] = parent is not None and (covered[parent] or wins[parent])
    return [
        record for record in by_id.values() if wins[record.span_id] and not covered[record.span_id]
    ]


def _rank(call: ModelCall) -> int:
    """Rank a record by completeness: 2 with a price, 1 with tokens only, 0 with neither."""
    if call.cost_usd is not None:
        return 2
    return 1 if call.input_tokens or call.output_tokens else 0


def _above(by_id: Mapping[str, Used], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Nearest record above each record, across spans without usage."""
    nearest: dict[str, str | None] = {}
    for record in by_id.values():
        path = [record.span_id]
        visited = {record.span_id}
        at = record.parent_id
        while at is not None and at not in by_id and at not in nearest and at not in visited:
            visited.add(at)
            path.append(at)
            at = parents.get(at)
        # Cyclic parents come from a faulty library; treat them as having none above.
        ancestor = None if at is None or at in visited else at if at in by_id else nearest[at]
        for id in path[1:]:
            nearest[id] = ancestor
        nearest[record.span_id] = ancestor
    above = {id: nearest[id] for id in by_id}
    sound: set[str] = set()
    for id in by_id:
        passed: set[str] = set()
        on: str | None = id
        while on is not None and on not in sound and on not in passed:
            passed.add(on)
            on = above[on]
        if on is not None and on in passed:
            above[on] = None
        sound |= passed
    return above


def _outermost_first(by_id: Mapping[str, Used], above: Mapping[str, str | None]) -> list[str]:
    below: dict[str | None, list[str]] = {}
    for id in by_id:
        below.setdefault(above[id], []).append(id)
    order = list(below.get(None, ()))
    for id in order:
        order.extend(below.get(id, ()))
    return order


def _match(by_id: Mapping[str, Used], above: dict[str, str | None]) -> None:
    """Place each unmatched gateway record below the client's record of the same call."""
    has_below = set(above.values())
    clients = [
        record
        for record in by_id.values()
        if not record.gateway and record.span_id not in has_below
    ]
    alone = [
        record for record in by_id.values() if record.gateway and above[record.span_id] is None
    ]
    for same in (_same_output, _one_without_tokens):
        left: list[Used] = []
        for record in alone:
            fitting = (
                client
                for client in clients
                if same(client.call, record.call) and not _lies_below(client, record, above)
            )
            # Input tokens break a tie; libraries count cached tokens differently.
            client = min(
                fitting,
                key=lambda client: client.call.input_tokens != record.call.input_tokens,
                default=None,
            )
            if client is None:
                left.append(record)
                continue
            clients.remove(client)
            above[record.span_id] = client.span_id
        alone = left


def _lies_below(client: Used, record: Used, above: Mapping[str, str | None]) -> bool:
    at = above[client.span_id]
    while at is not None and at != record.span_id:
        at = above[at]
    return at is not None


def _same_output(client: ModelCall, gateway: ModelCall) -> bool:
    return client.output_tokens == gateway.output_tokens and _same_model(
        client.model, gateway.model
    )


def _one_without_tokens(client: ModelCall, gateway: ModelCall) -> bool:
    return (not _has_tokens(client) or not _has_tokens(gateway)) and _same_model(
        client.model, gateway.model
    )


def _has_tokens(call: ModelCall) -> bool:
    return bool(call.input_tokens or call.output_tokens)


def _same_model(first: str, second: str) -> bool:
    """Whether two names mean the same model: an answer adds the version that a request omits."""
    first, second = (_VERSION.sub("", name.rpartition("/")[2]) for name in (first, second))
    return first == second or not first or not second


_VERSION = re.compile(r"[-@:](latest|[0-9]{3}[0-9-]*)$")
"""Version suffix of a model's name, usually a date."""
