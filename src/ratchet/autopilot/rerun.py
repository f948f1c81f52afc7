"""Makes a new rollout that runs a rollout or a live trace again."""

from __future__ import annotations

import re

from ratchet.autopilot.recorded_rollout import (
    Unusable,
    recorded_input,
    recording_of,
)
from ratchet.curate.capture import PROVES
from ratchet.store import Store
from ratchet.types import InputError, NotFound, Rollout, content_hash
from ratchet.types.trace import Trace

RERUN_MARK = "rerun"
FALLBACK = "default"
"""Queue of an agent whose name cannot name a queue."""

_PURPOSE = re.compile(rf"(?:{PROVES})?{RERUN_MARK}/(rollout|trace)/(.+)")
_QUEUE = re.compile(r"[A-Za-z0-9._:@%/-]{1,300}")


def original_of(rerun: Rollout) -> tuple[str, str] | None:
    """What a rollout repeats: `rollout` or `trace`, and its id; None if it is not a rerun."""
    about = _PURPOSE.fullmatch(rerun.purpose)
    return None if about is None else (about[1], about[2])


def rerun_of_rollout(store: Store, id: str) -> Rollout:
    """A new rollout with the input, answer, candidate and seed of another.

    Its own id is empty. That of an experiment says so in its purpose: learning must not see it.

    Raises:
        NotFound: There is no such rollout.
    """
    old = store.rollouts.get([id]).get(id)
    if old is None:
        raise NotFound(f"There is no rollout {id[:200]!r}.")
    proves = old.purpose.removeprefix("fleet/").startswith(PROVES)
    return Rollout(
        id="",
        queue=old.queue,
        candidate_id=old.candidate_id,
        task_id=old.task_id,
        input=old.input,
        expected=old.expected,
        metadata=old.metadata,
        seed=old.seed,
        purpose=f"{PROVES if proves else ''}{RERUN_MARK}/rollout/{old.id}",
        max_attempts=1,
    )


def rerun_of_trace(store: Store, id: str) -> Rollout:
    """A new rollout with the recorded input of a live trace, or that of a rollout's trace.

    Raises:
        NotFound: There is no such trace.
        InputError: Its input was not recorded, was cut, or redacted.
    """
    skeleton = store.traces.skeleton(id, limit=1)
    if skeleton is None:
        raise NotFound(f"There is no trace {id[:200]!r}.")
    if skeleton.trace.rollout_id:
        return rerun_of_rollout(store, skeleton.trace.rollout_id)
    try:
        return _of_trace(store, skeleton.trace)
    except Unusable as error:
        raise InputError(f"This trace cannot run again: {error}.") from None


def _of_trace(store: Store, trace: Trace) -> Rollout:
    recording = recording_of(store, trace)
    if recording is None:
        raise Unusable("its spans have been deleted since")
    task_input = recorded_input(recording)
    candidate = str(recording.attributes.get("ratchet.candidate_id", ""))
    is_stored = candidate and store.candidates.known({candidate})
    return Rollout(
        id="",
        queue=trace.agent if _QUEUE.fullmatch(trace.agent) else FALLBACK,
        candidate_id=candidate if is_stored else "",
        task_id=content_hash(task_input),
        input=task_input,
        purpose=f"{RERUN_MARK}/trace/{trace.trace_id}",
        max_attempts=1,
    )
