"""`ratchet feedback`: rate a trace, a conversation or a rollout."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from ratchet.cli.backend import Backend, ServerUrl, StoreBackend, open_backend
from ratchet.cli.console import Folder, Json, out, print_json
from ratchet.cli.keys import StoreUrl
from ratchet.types import Feedback, FeedbackKind, InputError, fault
from ratchet.types.trace import TraceDetail


def feedback(
    identity: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Start of a trace's id, or the id of a conversation or a rollout in the store.",
        ),
    ],
    thumbs: Annotated[Literal["up", "down"] | None, typer.Option(help="Good or not.")] = None,
    rating: Annotated[float | None, typer.Option(min=0, max=1, help="Rating from 0 to 1.")] = None,
    correction: Annotated[
        str | None, typer.Option(help="The correct answer, as text or JSON.")
    ] = None,
    comment: Annotated[str, typer.Option(help="Free text.")] = "",
    span: Annotated[
        str, typer.Option(help="Start of the id of the step (span) that the feedback is about.")
    ] = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """Give feedback on a trace, a conversation or a rollout.

    Examples:

      ratchet feedback 4bf92f35 --thumbs down --comment "It is on page 3."

      ratchet feedback 4bf92f35 --correction "Elm is free."
    """
    given_kinds = [
        name for name, answer in (("thumbs", thumbs), ("rating", rating)) if answer is not None
    ]
    if correction is not None:
        given_kinds.append("correction")
    if len(given_kinds) > 1:
        raise InputError(f"Give either --{' or --'.join(given_kinds)}.")
    if not given_kinds and not comment:
        raise InputError("The feedback is empty.", hint="Give for example --thumbs or --rating.")
    kinds: dict[str, FeedbackKind] = {
        "thumbs": "thumbs",
        "rating": "rating",
        "correction": "correction",
    }
    with open_backend(folder, store, server) as backend:
        item = Feedback(
            id=uuid.uuid4().hex,
            kind=kinds[given_kinds[0]] if given_kinds else "comment",
            value=rating if thumbs is None else float(thumbs == "up"),
            comment=comment,
            content=None if correction is None else _value(correction),
            created_at=time.time(),
            **_about(backend, identity, span),
        )
        wrong = fault(item)
        if wrong is not None:
            raise InputError(wrong[1])
        backend.give_feedback(item)
    if json:
        print_json(item)
        return
    abouts = (
        ("trace", item.trace_id),
        ("conversation", item.conversation_id),
        ("rollout", item.rollout_id),
    )
    out.print(f"Recorded for {next(f'{noun} {id}' for noun, id in abouts if id)}.", markup=False)


def _about(backend: Backend, identity: str, span: str) -> dict[str, str]:
    detail = backend.trace(identity) if len(identity) >= 4 else None
    if detail is not None:
        return {"trace_id": detail.trace.trace_id, "span_id": _step(detail, span)}
    if span:
        raise InputError(
            f"--span needs a trace, and there is no trace {identity!r} in {backend.label}.",
            hint="See: ratchet traces.",
        )
    log = backend.conversation(identity)
    if log is not None:
        return {"conversation_id": log.conversation.id}
    if isinstance(backend, StoreBackend) and len(identity) >= 4:
        rollouts = backend.store.rollouts.find(identity)
        if len(rollouts) == 1:
            return {"rollout_id": rollouts[0].id}
    raise InputError(
        f"There is no trace, conversation or rollout {identity!r} in {backend.label}.",
        hint="See: ratchet traces. -C, --store and --server look elsewhere.",
    )


def _step(detail: TraceDetail, start: str) -> str:
    """The full id of a step of the trace, from its prefix."""
    if not start:
        return ""
    matches = {span.span_id for span in detail.spans if span.span_id.startswith(start.lower())}
    if len(matches) != 1:
        how_many = "several steps" if matches else "no step"
        raise InputError(
            f"{how_many.capitalize()} of the trace {'have' if matches else 'has'} an id that begins"
            f" with {start!r}.",
            hint=f"See: ratchet show {detail.trace.trace_id[:8]} --full.",
        )
    return matches.pop()


def _value(text: str) -> Any:
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
    return text
