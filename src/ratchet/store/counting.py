"""Counting: which records of model calls count, so that each call counts once.

A call may be recorded several times: by the framework, by the client library beneath it, and by the
gateway that it went through. The rule:

1. Spans that sum up the calls beneath them, such as an agent's, count only where no call is
   recorded.
2. Of a call's record and the records below it, at whatever depth, those below count: they are
   nearest to what was sent. The one above counts when it knows its price and one below does not,
   or when no price is known and it knows the tokens.
3. The gateway's record of a call lies below the client's record of it. Where the client did not
   pass its trace context on, the two are matched: the same attempt, the same model, and as many
   tokens of output. Each gateway record matches one client record at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ratchet.types.trace import ModelCall


class Used(NamedTuple):
    """What a span of a trace used."""

    span_id: str
    parent_id: str | None
    call: ModelCall
    whole: bool
    """Whether it sums up what others used."""
    gateway: bool = False
    """Whether the gateway recorded it."""


def counted_once(used: Sequence[Used], parents: Mapping[str, str | None]) -> list[Used]:
    """The records that count, in their order.

    Args:
        used: All records of one trace or attempt, with the prices that are known.
        parents: The parent of each span, also of those that used nothing.
    """
    calls = [one for one in used if not one.whole] or list(used)
    if len(calls) < 2:
        return calls
    by_id = {one.span_id: one for one in calls}
    above = _above(by_id, parents)
    _match(by_id, above)
    order = _outermost_first(by_id, above)
    wins: dict[str, bool] = {}
    rank: dict[str, int] = {}
    lowest: dict[str, int] = {}
    """The lowest rank of what counts below a record; absent where nothing lies below."""
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
    return [one for one in by_id.values() if wins[one.span_id] and not covered[one.span_id]]


def _rank(call: ModelCall) -> int:
    """How much a record knows: 2 its price, 1 its tokens, 0 neither."""
    if call.cost_usd is not None:
        return 2
    return 1 if call.input_tokens or call.output_tokens else 0


def _above(by_id: Mapping[str, Used], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """The nearest record above each one, through whatever spans lie between."""
    nearest: dict[str, str | None] = {}
    for one in by_id.values():
        path = [one.span_id]
        seen = {one.span_id}
        at = one.parent_id
        while at is not None and at not in by_id and at not in nearest and at not in seen:
            seen.add(at)
            path.append(at)
            at = parents.get(at)
        # Parents that form a ring lead nowhere; they come from a faulty library.
        found = None if at is None or at in seen else at if at in by_id else nearest[at]
        for id in path[1:]:
            nearest[id] = found
        nearest[one.span_id] = found
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
    """Put each gateway record that stands alone below the client's record of the same call."""
    has_below = set(above.values())
    clients = [one for one in by_id.values() if not one.gateway and one.span_id not in has_below]
    alone = [one for one in by_id.values() if one.gateway and above[one.span_id] is None]
    for same in (_same_output, _one_without_tokens):
        left: list[Used] = []
        for record in alone:
            fitting = (
                one
                for one in clients
                if same(one.call, record.call) and not _lies_below(one, record, above)
            )
            # The tokens of the input break a tie; libraries count what came from a cache apart.
            client = min(
                fitting,
                key=lambda one: one.call.input_tokens != record.call.input_tokens,
                default=None,
            )
            if client is None:
                left.append(record)
                continue
            clients.remove(client)
            above[record.span_id] = client.span_id
        alone = left


def _lies_below(one: Used, other: Used, above: Mapping[str, str | None]) -> bool:
    at = above[one.span_id]
    while at is not None and at != other.span_id:
        at = above[at]
    return at is not None


def _same_output(one: ModelCall, other: ModelCall) -> bool:
    return one.output_tokens == other.output_tokens and _same_model(one.model, other.model)


def _one_without_tokens(one: ModelCall, other: ModelCall) -> bool:
    return (not _has_tokens(one) or not _has_tokens(other)) and _same_model(one.model, other.model)


def _has_tokens(call: ModelCall) -> bool:
    return bool(call.input_tokens or call.output_tokens)


def _same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: an answer names the version that a request leaves out."""
    one, other = (_VERSION.sub("", name.rpartition("/")[2]) for name in (one, other))
    return one == other or not one or not other


_VERSION = re.compile(r"[-@:](latest|[0-9]{3}[0-9-]*)$")
"""The end of a model's name that says which version it is, mostly by its date."""
