"""Translation of model calls into another provider's API, as pure functions.

Chat completions are the hub: a request of responses becomes one of chat completions on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.chat_answers import ChatChunks, completion_of
from ratchet.server.gateway.translation.chat_to_messages import message_request
from ratchet.server.gateway.translation.content import json_bytes
from ratchet.server.gateway.translation.errors import chat_error, message_error
from ratchet.server.gateway.translation.features import Findings, Untranslatable
from ratchet.server.gateway.translation.message_answers import MessageEvents, message_of
from ratchet.server.gateway.translation.messages_to_chat import chat_request
from ratchet.server.gateway.translation.response_answers import ResponseEvents, response_of
from ratchet.server.gateway.translation.responses_to_chat import chat_request_of_response
from ratchet.server.gateway.translation.settings import refused_settings, without_settings

__all__ = [
    "EventTranslator",
    "Translate",
    "Translation",
    "Untranslatable",
    "json_bytes",
    "refused_settings",
    "translation_of",
    "upstream_dialects",
    "without_settings",
]

Json: TypeAlias = dict[str, Any]


class EventTranslator(Protocol):
    """Translates the events of a streamed answer, one by one."""

    def add(self, event: Mapping[str, Any]) -> list[Json]:
        """Take an event of the upstream; return those for the client."""

    def end(self) -> list[Json]:
        """The upstream has ended; return the last events."""


class Translation(Protocol):
    """One call between two APIs."""

    path: str
    """Path of the upstream's API, below its version."""
    request: Json
    """The request to send."""
    left_out: list[str]
    """Parts of the client's request that have no equivalent and were left out."""
    named_events: bool
    """Whether the client's streams name their events, rather than end with `[DONE]`."""

    def answer(self, body: Mapping[str, Any], created: int) -> Json:
        """The answer for the client.

        Raises:
            ValueError: It is not an answer of the upstream's API.
        """

    def error(self, body: Any, status: int) -> Json:
        """The error for the client, from a decoded body or a text."""

    def events(self, created: int) -> EventTranslator:
        """A translator for the events of one streamed answer."""


Translate: TypeAlias = Callable[[Json], Translation]


class _ChatToMessages:
    path = "messages"
    named_events = False

    def __init__(self, request: Json) -> None:
        findings = Findings()
        self.request = message_request(request, findings)
        findings.check()
        self.left_out = findings.left_out
        self._with_usage = mapping(request.get("stream_options")).get("include_usage") is True

    def answer(self, body: Mapping[str, Any], created: int) -> Json:
        return completion_of(body, created)

    def error(self, body: Any, status: int) -> Json:
        return chat_error(body, status)

    def events(self, created: int) -> EventTranslator:
        return ChatChunks(created, self._with_usage)


class _ResponsesToMessages:
    path = "messages"
    named_events = True

    def __init__(self, request: Json) -> None:
        findings = Findings()
        chat = chat_request_of_response(request, findings)
        self.request = message_request(chat, findings)
        findings.check()
        self.left_out = findings.left_out
        self._asked = request
        thinking = mapping(self.request.get("thinking"))
        if mapping(request.get("reasoning")).get("summary") and thinking.get("type") == "adaptive":
            thinking["display"] = "summarized"

    def answer(self, body: Mapping[str, Any], created: int) -> Json:
        return response_of(completion_of(body, created), self._asked, created)

    def error(self, body: Any, status: int) -> Json:
        return chat_error(body, status)

    def events(self, created: int) -> EventTranslator:
        return _Chain(ChatChunks(created, False), ResponseEvents(self._asked, created))


class _MessagesToChat:
    path = "chat/completions"
    named_events = True

    def __init__(self, request: Json) -> None:
        findings = Findings()
        self.request = chat_request(request, findings)
        findings.check()
        self.left_out = findings.left_out
        self._thinks = mapping(request.get("thinking")).get("type") not in (None, "disabled")

    def answer(self, body: Mapping[str, Any], created: int) -> Json:
        return message_of(body, self._thinks)

    def error(self, body: Any, status: int) -> Json:
        return message_error(body, status)

    def events(self, created: int) -> EventTranslator:
        return MessageEvents(self._thinks)


class _Chain:
    """Two translations in a row."""

    def __init__(self, first: EventTranslator, second: EventTranslator) -> None:
        self._first, self._second = first, second

    def add(self, event: Mapping[str, Any]) -> list[Json]:
        return [event for chunk in self._first.add(event) for event in self._second.add(chunk)]

    def end(self) -> list[Json]:
        events = [event for chunk in self._first.end() for event in self._second.add(chunk)]
        return [*events, *self._second.end()]


_TRANSLATIONS: dict[tuple[str, str, str], Translate] = {
    ("openai", "chat/completions", "anthropic"): _ChatToMessages,
    ("openai", "responses", "anthropic"): _ResponsesToMessages,
    ("anthropic", "messages", "openai"): _MessagesToChat,
}


def translation_of(client: str, path: str, upstream: str) -> Translate | None:
    """What translates a request; None where the APIs are the same, or there is no translation.

    Args:
        client: Dialect of the client.
        path: Path that it calls, below the version.
        upstream: Dialect of the upstream.
    """
    return _TRANSLATIONS.get((client, path, upstream))


def upstream_dialects(client: str, path: str) -> tuple[str, ...]:
    """Dialects of other upstreams that a call can be translated for.

    Args:
        client: Dialect of the client.
        path: Path that it calls, below the version.
    """
    return _UPSTREAMS.get((client, path), ())


_UPSTREAMS = {(client, path): (upstream,) for client, path, upstream in _TRANSLATIONS}
