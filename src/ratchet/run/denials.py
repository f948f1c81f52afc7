"""What a contained agent tried to do outside its sandbox, as spans of its attempt and in words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ratchet.observe.ids import attempt_span_id, attempt_trace_id, new_span_id
from ratchet.observe.project_paths import folder_with_config
from ratchet.run.reachable import model_hosts
from ratchet.sandbox.acts import Act
from ratchet.sandbox.executables import portable_name
from ratchet.types import Outcome, Span

_PROVIDERS = {host for host, _ in model_hosts({})}

HTTPS = 443
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

MAX_NAMED = 10
"""Maximum number of denied acts that an error message names; the spans name all of them."""


def with_denials(outcome: Outcome, acts: Sequence[Act]) -> Outcome:
    """An outcome with what was denied in its attempt: a span for each act, and its error names
    them.

    An attempt that succeeded all the same has spans alone.

    Args:
        outcome: The attempt's outcome.
        acts: What the agent tried.
    """
    notable = [act for act in acts if act.end != "allowed"]
    if not notable:
        return outcome
    roots = [span for span in outcome.spans if span.parent_id is None]
    trace = roots[0].trace_id if roots else attempt_trace_id(outcome.rollout_id, outcome.fence)
    parent = roots[0].span_id if roots else attempt_span_id(outcome.rollout_id, outcome.fence)
    at = int((outcome.ended_at or outcome.started_at) * 1e9)
    spans = [
        Span(
            trace_id=trace,
            span_id=f"{new_span_id():016x}",
            parent_id=parent,
            name=act.end,
            start_ns=at,
            end_ns=at,
            status="error" if act.end == "denied" else "ok",
            message=sentence([act], went_well=outcome.status == "succeeded"),
            attributes={
                "ratchet.act.kind": act.kind,
                "ratchet.act.subject": act.subject,
                "ratchet.act.port": act.port,
                "ratchet.act.count": act.count,
            },
        )
        for act in notable
    ]
    error = outcome.error
    denied = [act for act in notable if act.end == "denied"]
    if denied and outcome.status != "succeeded":
        error = f"{error}\n{sentence(denied)}".strip()
    return msgspec.structs.replace(outcome, error=error, spans=(*outcome.spans, *spans))


def kept_of(spans: Iterable[Span]) -> list[Act]:
    """The acts that an attempt's spans record as denied, or as done in copies."""
    acts = []
    for span in spans:
        if "ratchet.act.kind" in span.attributes:
            values = {
                name.removeprefix("ratchet.act."): value for name, value in span.attributes.items()
            }
            acts.append(msgspec.convert({**values, "end": span.name}, Act))
    return acts


def sentence(acts: Sequence[Act], *, went_well: bool = False) -> str:
    """What was denied, how to allow it, and what was done in copies, as sentences.

    Args:
        acts: What was tried.
        went_well: Whether the agent answered all the same.
    """
    texts = []
    denied = [act for act in acts if act.end == "denied"]
    if denied:
        texts.append(f"It tried {_listed([described(act) for act in denied])}; this was denied.")
    keys: dict[str, list[str]] = {}
    for act in denied:
        key, value = allowing(act)
        if key and value not in keys.setdefault(key, []):
            keys[key].append(value)
    if keys:
        what = "it" if len(denied) == 1 else "them"
        settings = _listed([f"{key} = {json.dumps(values)}" for key, values in keys.items()])
        lack = (
            f"It answered without {what}; if the answer is incomplete, allow"
            if went_well
            else "Allow"
        )
        texts.append(f"{lack} {what} with {settings} under [agent.allow] in ratchet.toml.")
        connects = [act for act in denied if act.kind == "connect"]
        if any(act.port == HTTPS or act.subject in _LOOPBACK for act in connects):
            texts.append(
                "If a model answers there, name its host in model_hosts under [agent], or in "
                "model_base_url the variable that holds its address."
            )
    if copied := [act for act in acts if act.end == "copied"]:
        deeds = {"write": "wrote", "delete": "deleted"}
        changes = _listed([f"{deeds[act.kind]} {act.subject}" for act in copied])
        texts.append(f"It {changes} in its own copy, which was discarded.")
    return " ".join(texts)


def described(act: Act) -> str:
    """An act, as the object of `It tried`."""
    match act.kind:
        case "connect":
            return _place(act)
        case "lookup":
            return f"to look up {act.subject}"
        case "socket":
            return f"the unix socket {act.subject}"
        case "program":
            return f"to start {os.path.basename(act.subject)}"
        case "write":
            return f"to write {act.subject}"
        case "delete":
            return f"to delete {act.subject}"
        case "signal":
            return f"to send a signal to process {act.subject}"
        case "process":
            return (
                f"to make the system call {act.subject}"
                if act.subject[0] != "/"
                else (f"to change the memory of another process ({act.subject})")
            )


def allowing(act: Act, root: Path | None = None) -> tuple[str, str]:
    """The key under [agent.allow] that allows an act, and its value; empty if none does.

    Args:
        act: What was denied.
        root: The project's folder; by default the one around a program that was started.
    """
    match act.kind:
        case "connect" if act.subject in _PROVIDERS:
            return "", ""  # model calls go through the gateway; what else it is sent are reports
        case "connect":
            return "hosts", _place(act)
        case "socket" if act.subject.startswith("/"):
            return "hosts", act.subject
        case "program":
            root = root or folder_with_config(Path(act.subject).parent)
            return "programs", portable_name(act.subject, None if root is None else str(root))
        case "write" | "delete":
            folder = os.path.dirname(act.subject)
            is_broad = folder in ("/", os.path.expanduser("~"))
            return "folders", act.subject if is_broad else folder
        case _:
            return "", ""


def _place(act: Act) -> str:
    host = f"[{act.subject}]" if ":" in act.subject else act.subject
    return f"{host}:{act.port}"


def _listed(parts: Sequence[str]) -> str:
    names = list(dict.fromkeys(parts))
    if (more := len(names) - MAX_NAMED) > 0:
        names = [*names[:MAX_NAMED], f"{more} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
