"""Repository of transitions: the model calls of rollouts as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, and_, func, select

from ratchet.store.call_tree import ID_BYTES, base_of, call_of, digest_of, in_order
from ratchet.store.columns import clean
from ratchet.store.engine import Database, chunks
from ratchet.store.keys import keys_of
from ratchet.store.tables import rollouts, spans, transitions
from ratchet.types import (
    REWARD_CALL,
    REWARD_SPAN,
    REWARD_VALUE,
    InputError,
    KeptTokens,
    SamplingSettings,
    Transition,
)

BATCH_BYTES = 67_108_864
"""About how many bytes of tokens `batches` returns at once."""

_BYTES_PER_TOKEN = 8
"""An id, and a log-probability."""


class _Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What no query looks at."""

    role: str = ""
    model: str = ""
    response_id: str = ""
    version_first: str = ""
    version_last: str | None = None
    """None: the same as the first."""
    tokenizer: str = ""
    template: str = ""
    sampling: SamplingSettings = SamplingSettings()
    finish_reason: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Details).decode
_AS_THEY_ARE = (
    *("role", "model", "response_id", "version_first", "tokenizer", "template"),
    *("sampling", "finish_reason"),
)


class Transitions:
    """Transitions by rollout; each is stored once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = database.insert_new(transitions, "rollout_seq", "fence", "id")

    def add(self, items: Sequence[Transition]) -> None:
        """Store transitions in one transaction; those already stored are skipped.

        Raises:
            InputError: A rollout is unknown, or a transition is malformed: it has not as many
                log-probabilities as response ids, or is dropped and has tokens.
        """

        def work(connection: Connection) -> None:
            keys = keys_of(connection, (one.rollout_id for one in items))
            self.add_all(connection, ((keys[one.rollout_id], one) for one in items))

        self._database.write(work)

    def add_all(self, connection: Connection, items: Iterable[tuple[int, Transition]]) -> None:
        """Store transitions by their rollouts' keys in an open transaction."""
        of_attempt: dict[tuple[int, int], list[Transition]] = {}
        for key, one in items:
            _check(one)
            of_attempt.setdefault((key, one.fence), []).append(one)
        if not of_attempt:
            return
        ids: dict[tuple[int, int], set[str]] = {}
        bases: dict[tuple[int, int], dict[tuple[int, bytes], str]] = {}
        for chunk in chunks(sorted({key for key, _ in of_attempt})):
            query = select(
                transitions.c.rollout_seq,
                transitions.c.fence,
                transitions.c.id,
                transitions.c.size,
                transitions.c.digest,
            ).where(transitions.c.rollout_seq.in_(chunk))
            for key, fence, id, size, digest in connection.execute(query):
                ids.setdefault((key, fence), set()).add(id)
                bases.setdefault((key, fence), {})[size, digest] = id
        rows: list[dict[str, Any]] = []
        for attempt, given in of_attempt.items():
            stored, known = ids.get(attempt, set()), bases.get(attempt, {})
            for one in sorted(given, key=lambda each: each.started_ns):
                id = clean(one.id)
                if id in stored:
                    continue
                stored.add(id)
                rows.append(row := _row(attempt, one, known))
                known[row["size"], row["digest"]] = id
        if rows:
            connection.execute(self._insert, rows)

    def of(self, rollout_ids: Sequence[str]) -> dict[str, list[Transition]]:
        """Return the transitions of each rollout's newest attempt, in the order of their calls.

        Those that were dropped are left out; `kept` counts them.

        Returns:
            For every requested id.
        """
        stored = {id: clean(id) for id in rollout_ids}

        def work(connection: Connection) -> dict[str, list[Transition]]:
            found: dict[str, list[Transition]] = {id: [] for id in stored.values()}
            for chunk in chunks(list(found)):
                query = _of_newest(transitions).where(rollouts.c.id.in_(chunk))
                prompts: dict[tuple[int, str], bytes] = {}
                for row in connection.execute(query.order_by(transitions.c.seq)):
                    found[row.rollout_id].append(_transition(row, prompts))
            return found

        found = self._database.read(work)
        ordered = {id: in_order(some) for id, some in found.items()}
        return {
            id: [one for one in ordered[as_stored] if not one.drop]
            for id, as_stored in stored.items()
        }

    def batches(
        self, rollout_ids: Sequence[str], size: int = BATCH_BYTES
    ) -> Iterator[dict[str, list[Transition]]]:
        """Read the transitions of many rollouts, as many rollouts at a time as fit into memory.

        Args:
            rollout_ids: The rollouts, in any order.
            size: About how many bytes of tokens to return at once; a rollout with more comes alone.

        Yields:
            What `of` returns for the next rollouts, in the order given.
        """
        kept = self.kept(rollout_ids)
        some: list[str] = []
        room = size
        for id in dict.fromkeys(rollout_ids):
            needed = (kept[id].prompt_tokens + kept[id].response_tokens) * _BYTES_PER_TOKEN
            if some and (needed > room or len(some) >= 1_000):
                yield self.of(some)
                some, room = [], size
            some.append(id)
            room -= needed
        if some:
            yield self.of(some)

    def kept(self, rollout_ids: Sequence[str]) -> dict[str, KeptTokens]:
        """Count what is kept of each rollout's newest attempt.

        Returns:
            For every requested id.
        """
        stored = {id: clean(id) for id in rollout_ids}
        query = (
            select(
                rollouts.c.id,
                transitions.c.drop_reason,
                func.count(),
                func.sum(transitions.c.size),
                func.sum(transitions.c.written),
            )
            .join_from(rollouts, transitions, _NEWEST)
            .group_by(rollouts.c.id, transitions.c.drop_reason)
            .order_by(rollouts.c.id, transitions.c.drop_reason)
        )

        def work(connection: Connection) -> dict[str, KeptTokens]:
            found: dict[str, KeptTokens] = {}
            for chunk in chunks(list(dict.fromkeys(stored.values()))):
                rows = connection.execute(query.where(rollouts.c.id.in_(chunk)))
                for id, reason, count, size, written in rows:
                    one = found.get(id, KeptTokens())
                    if reason:
                        found[id] = msgspec.structs.replace(
                            one, dropped={**one.dropped, reason: count}
                        )
                    else:
                        found[id] = msgspec.structs.replace(
                            one,
                            transitions=count,
                            prompt_tokens=int(size) - int(written),
                            response_tokens=int(written),
                        )
            return found

        found = self._database.read(work)
        return {id: found.get(as_stored, KeptTokens()) for id, as_stored in stored.items()}

    def call_rewards(self, rollout_ids: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the rewards of single calls in each rollout's newest attempt.

        A reward belongs to the call whose response it names; without a name, to the latest call
        that started before it. Several of a call add up. A call with several choices has its reward
        at the first.

        Returns:
            Reward by transition id, for every requested rollout. Calls without one are omitted; one
            that was dropped may have one.
        """
        stored = {id: clean(id) for id in rollout_ids}
        calls = _of_newest(
            transitions.c.id, transitions.c.started_ns, transitions.c.details
        ).order_by(transitions.c.started_ns, transitions.c.id)
        given = (
            select(rollouts.c.id.label("rollout_id"), spans.c.start_ns, spans.c.attributes)
            .join_from(
                rollouts,
                spans,
                and_(spans.c.rollout_seq == rollouts.c.seq, spans.c.fence == rollouts.c.fence),
            )
            .where(spans.c.name == REWARD_SPAN)
            .order_by(spans.c.start_ns, spans.c.seq)
        )

        def work(connection: Connection) -> dict[str, dict[str, float]]:
            found: dict[str, dict[str, float]] = {id: {} for id in stored.values()}
            for chunk in chunks(list(found)):
                rewards = connection.execute(given.where(rollouts.c.id.in_(chunk))).all()
                rewarded = sorted({row.rollout_id for row in rewards})
                made: dict[str, list[Any]] = {}
                if rewarded:
                    for row in connection.execute(calls.where(rollouts.c.id.in_(rewarded))):
                        made.setdefault(row.rollout_id, []).append(row)
                for row in rewards:
                    id = _rewarded(row, made.get(row.rollout_id, ()))
                    value = row.attributes.get(REWARD_VALUE)
                    if id is not None and isinstance(value, (int, float)):
                        mine = found[row.rollout_id]
                        mine[id] = mine.get(id, 0.0) + value
            return found

        found = self._database.read(work)
        return {id: found[as_stored] for id, as_stored in stored.items()}


_NEWEST = and_(transitions.c.rollout_seq == rollouts.c.seq, transitions.c.fence == rollouts.c.fence)


def _of_newest(*columns: Any) -> Select[Any]:
    """Select transitions of newest attempts, with `rollout_id`."""
    chosen = select(rollouts.c.id.label("rollout_id"), *columns)
    return chosen.join_from(rollouts, transitions, _NEWEST)


def _check(one: Transition) -> None:
    if len(one.response_ids) != len(one.logprobs) or len(one.prompt_ids) % ID_BYTES:
        raise InputError(
            f"The transition {one.id!r} has {len(one.response_ids) // ID_BYTES} response ids and"
            f" {len(one.logprobs) // ID_BYTES} log-probabilities.",
            hint="Pack ids with pack_ids and log-probabilities with pack_floats, one for each id.",
        )
    if one.drop and (one.prompt_ids or one.response_ids):
        raise InputError(f"The transition {one.id!r} is dropped ({one.drop}) and has tokens.")


def _row(
    attempt: tuple[int, int], one: Transition, known: dict[tuple[int, bytes], str]
) -> dict[str, Any]:
    whole = one.prompt_ids + one.response_ids
    base = base_of(one.prompt_ids, known)
    details = _Details(
        **{name: getattr(one, name) for name in _AS_THEY_ARE},
        version_last=None if one.version_last == one.version_first else one.version_last,
    )
    return {
        "rollout_seq": attempt[0],
        "fence": attempt[1],
        "id": clean(one.id),
        "drop_reason": one.drop,
        "started_ns": one.started_ns,
        "ended_ns": one.ended_ns,
        "size": len(whole) // ID_BYTES,
        "digest": digest_of(whole),
        "written": len(one.response_ids) // ID_BYTES,
        "base": "" if base is None else base.id,
        "details": _encode(details).decode(),
        "prompt": one.prompt_ids[base.size * ID_BYTES :] if base is not None else one.prompt_ids,
        "response": one.response_ids,
        "logprobs": one.logprobs,
    }


def _transition(row: Any, wholes: dict[tuple[int, str], bytes]) -> Transition:
    """Build a transition; `wholes` has the prompt and response of the attempt's earlier rows."""
    prompt = row.prompt
    if row.base:
        prompt = wholes[row.rollout_seq, row.base] + prompt
    wholes[row.rollout_seq, row.id] = prompt + row.response
    details = _decode(row.details)
    version_last = details.version_last
    return Transition(
        id=row.id,
        rollout_id=row.rollout_id,
        fence=row.fence,
        started_ns=row.started_ns,
        ended_ns=row.ended_ns,
        prompt_ids=prompt,
        response_ids=row.response,
        logprobs=row.logprobs,
        drop=row.drop_reason,
        version_last=details.version_first if version_last is None else version_last,
        **{name: getattr(details, name) for name in _AS_THEY_ARE},
    )


def _rewarded(reward: Any, calls: Sequence[Any]) -> str | None:
    """Id of the transition that a reward belongs to; None when there is none."""
    named = reward.attributes.get(REWARD_CALL)
    found = None
    for row in calls:
        if named:
            if _decode(row.details).response_id == named:
                return call_of(row.id)
        elif row.started_ns <= reward.start_ns:
            found = call_of(row.id)
    return found
