"""`ratchet feedback`: say how good a trace, a conversation or a rollout was."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from ratchet.cli.console import Folder, Json, out, print_json
from ratchet.cli.keys import StoreUrl
from ratchet.cli.looking import Place, ServerUrl, look
from ratchet.types import Feedback, FeedbackKind, InputError, fault


def feedback(
    identity: Annotated[
        str,
        typer.Argument(metavar="ID", help="A trace, by the start of its id; or a conversation."),
    ],
    thumbs: Annotated[Literal["up", "down"] | None, typer.Option(help="Good or not.")] = None,
    rating: Annotated[
        float | None, typer.Option(min=0, max=1, help="How good, from 0 to 1.")
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="The answer that would have been right; text or JSON.")
    ] = None,
    comment: Annotated[str, typer.Option(help="In words.")] = "",
    span: Annotated[str, typer.Option(help="The step of the trace that it is about.")] = "",
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """Say how good something was that an agent did.

    Examples:

      ratchet feedback 4bf92f35 --thumbs down --comment "It is on page 3."

      ratchet feedback 4bf92f35 --correction "Elm is free."
    """
    said = [name for name, given in (("thumbs", thumbs), ("rating", rating)) if given is not None]
    if correction is not None:
        said.append("correction")
    if len(said) > 1:
        raise InputError(f"Say either --{' or --'.join(said)}.")
    if not said and not comment:
        raise InputError("It says nothing.", hint="Give --thumbs, --rating, --correction, …")
    kinds: dict[str, FeedbackKind] = {
        "thumbs": "thumbs",
        "rating": "rating",
        "correction": "correction",
    }
    with look(folder, store, server) as place:
        item = Feedback(
            id=uuid.uuid4().hex,
            kind=kinds[said[0]] if said else "comment",
            value=rating if thumbs is None else float(thumbs == "up"),
            comment=comment,
            content=None if correction is None else _value(correction),
            created_at=time.time(),
            span_id=span,
            **_about(place, identity),
        )
        wrong = fault(item)
        if wrong is not None:
            raise InputError(wrong[1])
        place.tell(item)
    if json:
        print_json(item)
        return
    about = f"trace {item.trace_id}" if item.trace_id else f"conversation {item.conversation_id}"
    out.print(f"Noted on {about}.", markup=False)


def _about(place: Place, identity: str) -> dict[str, str]:
    detail = place.trace(identity) if len(identity) >= 4 else None
    if detail is not None:
        return {"trace_id": detail.trace.trace_id}
    log = place.conversation(identity)
    if log is not None:
        return {"conversation_id": log.conversation.id}
    raise InputError(
        f"There is no trace and no conversation {identity!r}.", hint="See: ratchet traces."
    )


def _value(text: str) -> Any:
    if text[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
    return text
