"""Dialects: what the gateway understands, and the path of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ratchet.server.gateway.dialects import chat, completions, embeddings, messages, responses
from ratchet.server.gateway.dialects.request_texts import Path
from ratchet.server.gateway.upstream import DialectName

__all__ = ["DIALECTS", "PASSED_THROUGH", "Assembly", "GatewayDialect", "Path"]


class Assembly(Protocol):
    """The pieces of a streamed answer, as they become one."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in the decoded data of one event."""

    def response(self) -> dict[str, Any]:
        """The answer as far as it came, in the shape of one that was not streamed."""


class GatewayDialect(Protocol):
    """What each module of this folder has. All of it takes any JSON, and none of it raises."""

    @property
    def OPERATION(self) -> str:  # noqa: N802 - a module's constant
        """The value of `gen_ai.operation.name`."""

    def request_attributes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a decoded request asks for, as attributes of its span."""

    def response_attributes(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """What a decoded answer says, as attributes of its span."""

    def assembly(self) -> Assembly:
        """A place where the pieces of a streamed answer become one."""

    def system_texts(self, request: Mapping[str, Any]) -> list[tuple[Path, str]]:
        """The instructions in a decoded request, with the path of each."""

    def with_texts(self, request: dict[str, Any], texts: Mapping[Path, str]) -> dict[str, Any]:
        """A copy of the request with other texts at some of these paths."""


DIALECTS: dict[tuple[DialectName, str], GatewayDialect] = {
    ("openai", "chat/completions"): chat,
    ("openai", "responses"): responses,
    ("openai", "completions"): completions,
    ("openai", "embeddings"): embeddings,
    ("anthropic", "messages"): messages,
}
"""What is recorded: calls by POST, by provider's dialect and path below its version."""

PASSED_THROUGH: dict[tuple[DialectName, str], str] = {
    ("openai", "models"): "GET",
    ("anthropic", "models"): "GET",
    ("anthropic", "messages/count_tokens"): "POST",
}
"""What is relayed and not recorded, with its method: no model is called."""
