"""Variants of a wiring, tried if its model gets other texts than in the recorded run.

Something from the recorded run, or from another rollout, may be left over: in memory, in files, or
in a conversation that a database keeps. Or the model's address is taken from elsewhere than from
the variable that is set. Which of these it is shows when one is changed and the check runs again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from ratchet.cli.init_verify import NO_CALL, SECOND_RUN, WiringVerification
from ratchet.wire.deriving.derive import Wiring
from ratchet.wire.deriving.owner_input import as_text
from ratchet.wire.recording.recording import Recording
from ratchet.worker.placeholders import FRESH

MAX_FRESH = 4
"""Number of values of a request that are tried as new in each run."""

_FRESH = f"{{{FRESH}}}"
_REQUEST = ("query", "form", "body")


def variants(
    wiring: Wiring,
    verification: WiringVerification,
    recording: Recording,
    absences: Sequence[tuple[str, ...]],
) -> Iterator[Wiring]:
    """The variants of a wiring, cheapest in use first.

    Args:
        wiring: The wiring.
        verification: How it was checked.
        recording: The recorded run.
        absences: Files that each rollout may start without.
    """
    agent = wiring.agent
    hosts = sorted({call.host.lower() for call in recording.calls if call.by_hook and call.host})
    denied = [act.allow for act in verification.denied if act.allow]
    led_elsewhere = NO_CALL in verification.why or any(map(partial(_is_of, hosts), denied))
    can_lead = "model_hosts" not in agent and agent.keys() & {"entry", "command", "serve"}
    if not verification.works and hosts and can_lead and led_elsewhere:
        yield _with(wiring, model_hosts=hosts)
    if not verification.differences:
        return
    others = [msgspec.structs.replace(wiring, absent=absent) for absent in absences]
    remembers = "serve" in agent and not verification.holds(SECOND_RUN)
    yield from () if remembers else others  # its process goes on, whatever it began with
    yield from _with_fresh_values(wiring, recording)
    if remembers and not agent.get("restart"):
        yield from (_with(other, restart=True) for other in (wiring, *others))


def how(wiring: Wiring) -> str:
    """What is special about a variant, to follow its name."""
    fresh = [name for name, value in _values(wiring.agent) if value == _FRESH]
    parts = [
        f"without {', '.join(wiring.absent)}" if wiring.absent else "",
        f"with a new {' and '.join(fresh)} for each run" if fresh else "",
        "started anew for each run" if wiring.agent.get("restart") else "",
    ]
    return "".join(f", {part}" for part in parts if part)


def _is_of(hosts: Sequence[str], place: str) -> bool:
    """Whether a host with its port is one of the model's, which may have the usual port."""
    local = place.replace("localhost:", "127.0.0.1:")
    return bool({place, local, place.rpartition(":")[0]} & {*hosts})


def _with(wiring: Wiring, **settings: Any) -> Wiring:
    return msgspec.structs.replace(wiring, agent={**wiring.agent, **settings})


def _with_fresh_values(wiring: Wiring, recording: Recording) -> Iterator[Wiring]:
    """The wiring with one text of its request new in each run, if no model has got that text."""
    sent = " ".join(text.text for call in recording.calls for text in call.texts)
    tried = 0
    for name, value in _values(wiring.agent):
        field = value[len("{input.") : -1] if value.startswith("{input.") else ""
        text = as_text(wiring.task_input[field]) if field in wiring.fields else value
        is_id = text and "{" not in text and " " not in text and text not in sent
        if is_id and tried < MAX_FRESH:
            tried += 1
            yield _replaced(wiring, name, field)


def _replaced(wiring: Wiring, name: str, field: str) -> Wiring:
    """The wiring with a new value in a place of its request, which may have been a field's."""

    left = tuple(other for other in wiring.fields if other != field)
    single = bool(field) and len(left) == 1

    def filled(value: Any, path: str = "") -> Any:
        inside = f"{path}." if path else ""
        if isinstance(value, dict):
            return {key: filled(inner, f"{inside}{key}") for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner, f"{inside}{index}") for index, inner in enumerate(value)]
        if path == name:
            return _FRESH
        return "{input}" if single and value == f"{{input.{left[0]}}}" else value

    agent = dict(wiring.agent)
    for key in _REQUEST:
        if key in agent:
            request = filled(_decoded(agent[key]))
            agent[key] = json.dumps(request) if isinstance(agent[key], str) else request
    changed = msgspec.structs.replace(wiring, agent=agent)
    if not field:
        return changed
    task_input = {other: wiring.task_input[other] for other in left}
    if single:
        alone = task_input[left[0]]
        return msgspec.structs.replace(changed, task_input=alone, fields=(), parameter=left[0])
    return msgspec.structs.replace(changed, task_input=task_input, fields=left)


def _values(agent: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a request, each with the keys that lead to it."""

    def texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from texts(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, str) and path:
            yield path, value

    for key in _REQUEST:
        if key in agent:
            yield from texts(_decoded(agent[key]), "")


def _decoded(value: Any) -> Any:
    """A body, which stands in the settings as JSON text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
