"""Reads the agent's input and output from what a trace recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ratchet.observe.dialects import names
from ratchet.store.messages import messages_in, texts_of
from ratchet.types import Span
from ratchet.types.trace import TraceRecording

_CUT = re.compile(r"(?:…|\\u2026) \[\d+ more (?:characters|items)\]")
"""The note that capture appends to a value that it truncates."""

_LEADING = frozenset({"system", "developer"})


class Incomplete(Exception):
    """The value was recorded only in part."""


def input_of(recording: TraceRecording) -> Any:
    """The input of the root span, or of the agent's call below it, or the user's text in the first
    model call.

    A call's arguments are the input, or if there is one argument its value. Of messages it is the
    user's text; with more than that, all messages up to the user's last.

    Returns:
        The input, or None when nothing is recorded.

    Raises:
        Incomplete: It was recorded in part only.
    """
    stated = _stating(recording).attributes.get(names.INPUT)
    if stated not in (None, ""):
        return _argument(_whole(stated))
    for span in _calls(recording, recording.first_call):
        if (input := _asked(span)) is not None:
            return input
    return None


def output_of(recording: TraceRecording) -> Any:
    """The output: of the span with the input, or the text of the last model call's answer.

    Returns:
        The output, or None when nothing is recorded.

    Raises:
        Incomplete: It was recorded in part only.
    """
    stated = _stating(recording).attributes.get(names.OUTPUT)
    if stated not in (None, ""):
        return _whole(stated)
    for span in _calls(recording, recording.last_call):
        messages, cut = messages_in(span.attributes.get(names.OUTPUT_MESSAGES))
        answers = [text for message in messages for text in texts_of(message)]
        if answers:
            if cut or _CUT.search(answers[-1]):
                raise Incomplete
            return answers[-1]
    return None


def _stating(recording: TraceRecording) -> Span:
    """The span whose input and output are the agent's."""
    return recording.call if recording.call is not None else recording.root


def user_of(recording: TraceRecording) -> str:
    """The user named in the trace; empty if there is none."""
    user = recording.root.attributes.get("user.id")
    return user if isinstance(user, str) else ""


def _calls(recording: TraceRecording, call: Span | None) -> Iterator[Span]:
    if call is not None:
        yield call
    # A failed call has no usage, by which calls are found.
    if call is not recording.root:
        yield recording.root


def _asked(span: Span) -> Any:
    messages, cut = messages_in(span.attributes.get(names.INPUT_MESSAGES))
    conversation = [message for message in messages if message["role"] not in _LEADING]
    user_places = [at for at, message in enumerate(conversation) if message["role"] == "user"]
    if not user_places:
        if cut:
            raise Incomplete
        return None
    conversation = conversation[: user_places[-1] + 1]
    if cut or _CUT.search(msgspec.json.encode(conversation).decode()):
        raise Incomplete
    only = conversation[user_places[-1]]
    texts = list(texts_of(only))
    if len(user_places) == 1 and len(texts) == len(only["parts"]) == 1:
        return texts[0]
    return conversation


def _argument(value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _whole(stated: Any) -> Any:
    """A captured value, parsed."""
    if not isinstance(stated, str):
        return stated
    if _CUT.search(stated):
        raise Incomplete
    try:
        return msgspec.json.decode(stated)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return stated
