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
"""Bytes of a token's id and of its log-probability together."""


class _Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """Columns that no query uses."""

    role: str = ""
    model: str = ""
    response_id: str = ""
    version_first: str = ""
    version_last: str | None = None
    """None: equal to the first."""
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
            keys = keys_of(connection, (transition.rollout_id for transition in items))
            self.add_all(
                connection, ((keys[transition.rollout_id], transition) for transition in items)
            )

        self._database.write(work)

    def add_all(self, connection: Connection, items: Iterable[tuple[int, Transition]]) -> None:
        """Store transitions by their rollouts' keys in an open transaction."""
        of_attempt: dict[tuple[int, int], list[Transition]] = {}
        for key, transition in items:
            _check(transition)
            of_attempt.setdefault((key, transition.fence), []).append(transition)
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
        for attempt, attempt_transitions in of_attempt.items():
            stored, by_digest = ids.get(attempt, set()), bases.get(attempt, {})
            for transition in sorted(
                attempt_transitions, key=lambda transition: transition.started_ns
            ):
                id = clean(transition.id)
                if id in stored:
                    continue
                stored.add(id)
                rows.append(row := _row(attempt, transition, by_digest))
                by_digest[row["size"], row["digest"]] = id
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
            by_id: dict[str, list[Transition]] = {id: [] for id in stored.values()}
            for chunk in chunks(list(by_id)):
                query = _of_newest(transitions).where(rollouts.c.id.in_(chunk))
                prompts: dict[tuple[int, str], bytes] = {}
                for row in connection.execute(query.order_by(transitions.c.seq)):
                    by_id[row.rollout_id].append(_transition(row, prompts))
            return by_id

        by_id = self._database.read(work)
        ordered = {id: in_order(some) for id, some in by_id.items()}
        return {
            id: [transition for transition in ordered[as_stored] if not transition.drop]
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
        kept_tokens = self.kept(rollout_ids)
        some: list[str] = []
        room = size
        for id in dict.fromkeys(rollout_ids):
            needed = (
                kept_tokens[id].prompt_tokens + kept_tokens[id].response_tokens
            ) * _BYTES_PER_TOKEN
            if some and (needed > room or len(some) >= 1_000):
                yield self.of(some)
                some, room = [], size
            some.append(id)
            room -= needed
        if some:
            yield self.of(some)

    def kept(self, rollout_ids: Sequence[str]) -> dict[str, KeptTokens]:
        """Count the calls and tokens that are kept of each rollout's newest attempt.

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
            by_id: dict[str, KeptTokens] = {}
            for chunk in chunks(list(dict.fromkeys(stored.values()))):
                rows = connection.execute(query.where(rollouts.c.id.in_(chunk)))
                for id, reason, count, size, response_size in rows:
                    kept_tokens = by_id.get(id, KeptTokens())
                    if reason:
                        by_id[id] = msgspec.structs.replace(
                            kept_tokens, dropped={**kept_tokens.dropped, reason: count}
                        )
                    else:
                        by_id[id] = msgspec.structs.replace(
                            kept_tokens,
                            transitions=count,
                            prompt_tokens=int(size) - int(response_size),
                            response_tokens=int(response_size),
                        )
            return by_id

        by_id = self._database.read(work)
        return {id: by_id.get(as_stored, KeptTokens()) for id, as_stored in stored.items()}

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
        reward_query = (
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
            rewards_by_id: dict[str, dict[str, float]] = {id: {} for id in stored.values()}
            for chunk in chunks(list(rewards_by_id)):
                rewards = connection.execute(reward_query.where(rollouts.c.id.in_(chunk))).all()
                rewarded = sorted({row.rollout_id for row in rewards})
                calls_by_id: dict[str, list[Any]] = {}
                if rewarded:
                    for row in connection.execute(calls.where(rollouts.c.id.in_(rewarded))):
                        calls_by_id.setdefault(row.rollout_id, []).append(row)
                for row in rewards:
                    id = _rewarded(row, calls_by_id.get(row.rollout_id, ()))
                    value = row.attributes.get(REWARD_VALUE)
                    if id is not None and isinstance(value, (int, float)):
                        mine = rewards_by_id[row.rollout_id]
                        mine[id] = mine.get(id, 0.0) + value
            return rewards_by_id

        rewards_by_id = self._database.read(work)
        return {id: rewards_by_id[as_stored] for id, as_stored in stored.items()}


_NEWEST = and_(transitions.c.rollout_seq == rollouts.c.seq, transitions.c.fence == rollouts.c.fence)


def _of_newest(*columns: Any) -> Select[Any]:
    """Select transitions of newest attempts, with `rollout_id`."""
    chosen = select(rollouts.c.id.label("rollout_id"), *columns)
    return chosen.join_from(rollouts, transitions, _NEWEST)


def _check(transition: Transition) -> None:
    if (
        len(transition.response_ids) != len(transition.logprobs)
        or len(transition.prompt_ids) % ID_BYTES
    ):
        raise InputError(
            f"The transition {transition.id!r} has {len(transition.response_ids) // ID_BYTES}"
            f" response ids and {len(transition.logprobs) // ID_BYTES} log-probabilities.",
            hint="Pack ids with pack_ids and log-probabilities with pack_floats, one for each id.",
        )
    if transition.drop and (transition.prompt_ids or transition.response_ids):
        raise InputError(
            f"The transition {transition.id!r} is dropped ({transition.drop}), but has tokens."
        )


def _row(
    attempt: tuple[int, int], transition: Transition, by_digest: dict[tuple[int, bytes], str]
) -> dict[str, Any]:
    token_ids = transition.prompt_ids + transition.response_ids
    base = base_of(transition.prompt_ids, by_digest)
    details = _Details(
        **{name: getattr(transition, name) for name in _AS_THEY_ARE},
        version_last=None
        if transition.version_last == transition.version_first
        else transition.version_last,
    )
    return {
        "rollout_seq": attempt[0],
        "fence": attempt[1],
        "id": clean(transition.id),
        "drop_reason": transition.drop,
        "started_ns": transition.started_ns,
        "ended_ns": transition.ended_ns,
        "size": len(token_ids) // ID_BYTES,
        "digest": digest_of(token_ids),
        "written": len(transition.response_ids) // ID_BYTES,
        "base": "" if base is None else base.id,
        "details": _encode(details).decode(),
        "prompt": transition.prompt_ids[base.size * ID_BYTES :]
        if base is not None
        else transition.prompt_ids,
        "response": transition.response_ids,
        "logprobs": transition.logprobs,
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
    """Id of the transition that a reward belongs to; None if there is none."""
    response_id = reward.attributes.get(REWARD_CALL)
    call_id = None
    for row in calls:
        if response_id:
            if _decode(row.details).response_id == response_id:
                return call_of(row.id)
        elif row.started_ns <= reward.start_ns:
            call_id = call_of(row.id)
    return call_id
