"""Model APIs: the requests and responses of each provider as span attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias

from ratchet.observe.model_apis import (
    chat,
    completions,
    embeddings,
    gemini,
    messages,
    ollama,
    ollama_generate,
    responses,
)
from ratchet.observe.model_apis.engine_tokens import ChoiceTokens
from ratchet.observe.model_apis.request_texts import PromptTexts, TextPath

__all__ = [
    "MODEL_APIS",
    "MODEL_IN_PATH",
    "PASSED_THROUGH",
    "Assembly",
    "ChoiceTokens",
    "DialectName",
    "ModelApi",
    "TextPath",
]

DialectName: TypeAlias = Literal["openai", "anthropic", "ollama", "gemini"]
"""The provider whose API an endpoint speaks."""


class Assembly(Protocol):
    """Accumulates the events of a streamed response."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add the decoded data of one event."""

    @property
    def begun(self) -> bool:
        """Whether the model has begun to answer; an error alone does not count."""

    @property
    def complete(self) -> bool:
        """Whether the response has its end, so that the usage it reports is complete."""

    def response(self) -> dict[str, Any]:
        """The response so far, in the shape of a response that was not streamed."""


class ModelApi(Protocol):
    """Interface of each module of this package. Its functions accept any JSON and never raise."""

    @property
    def OPERATION(self) -> str:  # noqa: N802 - a module's constant
        """The value of `gen_ai.operation.name`."""

    def request_attributes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Span attributes of a decoded request."""

    def response_attributes(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """Span attributes of a decoded response."""

    def assembly(self) -> Assembly:
        """A new assembly for a streamed response."""

    def prompt_texts(self, request: Mapping[str, Any]) -> PromptTexts:
        """The texts of a decoded request that may contain prompts, with the path of each."""

    def with_texts(self, request: dict[str, Any], texts: Mapping[TextPath, str]) -> dict[str, Any]:
        """A copy of the request with new texts at the given paths."""

    def training_request(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The request for tokens, sampled from the model's own distribution; None if the API has
        no such request."""

    def choice_tokens(self, response: Mapping[str, Any]) -> list[ChoiceTokens]:
        """Tokens of each choice of a decoded response; empty if the API has none."""


MODEL_APIS: dict[tuple[DialectName, str], ModelApi] = {
    ("openai", "chat/completions"): chat,
    ("openai", "responses"): responses,
    ("openai", "completions"): completions,
    ("openai", "embeddings"): embeddings,
    ("anthropic", "messages"): messages,
    ("ollama", "api/chat"): ollama,
    ("ollama", "api/generate"): ollama_generate,
    ("ollama", "api/embed"): embeddings,
    # Its server speaks OpenAI's protocol too, below the same base URL.
    ("ollama", "chat/completions"): chat,
    ("ollama", "completions"): completions,
    ("ollama", "embeddings"): embeddings,
    ("gemini", "models/{model}:generateContent"): gemini,
    ("gemini", "models/{model}:streamGenerateContent"): gemini,
}
"""Recorded POST calls, by the provider's dialect and the path below its version."""

MODEL_IN_PATH: Final = re.compile(
    r"(?:^|(?<=/))models/([^/:]+):(generateContent|streamGenerateContent)$"
)
"""The end of a path that names the model, and the operation: Gemini's."""

PASSED_THROUGH: dict[tuple[DialectName, str], str] = {
    ("openai", "models"): "GET",
    ("anthropic", "models"): "GET",
    ("anthropic", "messages/count_tokens"): "POST",
    ("ollama", "api/tags"): "GET",
    ("ollama", "api/show"): "POST",
    ("ollama", "api/version"): "GET",
    ("ollama", "models"): "GET",
    ("gemini", "models"): "GET",
    ("gemini", "models/{model}:embedContent"): "POST",
    ("gemini", "models/{model}:batchEmbedContents"): "POST",
    ("gemini", "models/{model}:countTokens"): "POST",
}
"""Paths that are relayed without recording, with their method: no model generates text."""
