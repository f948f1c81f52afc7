"""Prepares calls to upstreams whose API differs from the client's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from multidict import CIMultiDict

from ratchet.server.gateway.headers import translated_headers
from ratchet.server.gateway.model_facts import SAFE_LIMIT, ModelFacts
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.relay import UpstreamRequest
from ratchet.server.gateway.translating import AnswerTranslator, RefusedSettings
from ratchet.server.gateway.translation import (
    Translation,
    Untranslatable,
    json_bytes,
    translation_of,
    without_settings,
)
from ratchet.server.gateway.upstream import is_providers_own, provider_of
from ratchet.server.http_problems import HttpProblem
from ratchet.types.trace import LEFT_OUT, TRANSLATED

_MAKERS = {"anthropic": "Anthropic", "openai": "OpenAI"}


class CallTranslator:
    """Translates requests, using what is known about the target models.

    Args:
        pool: Connections to the upstreams.
    """

    def __init__(self, pool: UpstreamPool) -> None:
        self._facts = ModelFacts(pool)

    def translation(
        self, client: str, path: str, endpoint: UpstreamEndpoint, payload: dict[str, Any]
    ) -> Translation:
        """The translation of a call.

        Args:
            client: Dialect of the client.
            path: Path that it calls, below the version.
            endpoint: Where the call goes.
            payload: The client's request.

        Raises:
            HttpProblem: 400, when the other API has no equivalent of what it asks for.
        """
        dialect = endpoint.upstream.dialect
        translate = translation_of(client, path, dialect)
        assert translate is not None, "only upstreams that can be translated for are chosen"
        try:
            return translate(payload)
        except Untranslatable as refusal:
            raise HttpProblem(
                400,
                f"The model {str(payload.get('model'))[:200]!r} is asked through"
                f" {_MAKERS[dialect]}'s API, which has no equivalent for: {refusal}.",
            ) from None
        except RecursionError:
            raise HttpProblem(400, "The request is nested too deeply to be translated.") from None

    async def outgoing(
        self,
        translation: Translation,
        endpoint: UpstreamEndpoint,
        headers: Sequence[tuple[bytes, bytes]],
        attributes: dict[str, Any],
    ) -> UpstreamRequest:
        """The request to send.

        Args:
            translation: The call.
            endpoint: Where it goes.
            headers: Headers of the client, with names in lower case.
            attributes: Attributes of the span, which takes what was left out.
        """
        upstream, sent = endpoint.upstream, translation.request
        attributes[TRANSLATED] = upstream.dialect
        refused = without_settings(sent, self._facts.refused(upstream, _model_of(translation)))
        if left_out := [*translation.left_out, *refused]:
            attributes[LEFT_OUT] = left_out
        own = translated_headers(headers, endpoint.key, endpoint.key_header, upstream.dialect)
        if upstream.dialect == "anthropic":
            await self._limit(translation, endpoint, own, attributes)
        elif "max_completion_tokens" in sent and not _is_openais(endpoint):
            # Compatible servers know the older name, and not all of them the newer.
            sent["max_tokens"] = sent.pop("max_completion_tokens")
        translator = AnswerTranslator(translation, int(time.time()))
        url = endpoint.url(translation.path, b"")
        body = json_bytes(sent)
        return UpstreamRequest(endpoint, "POST", url, own, body, translator=translator)

    def note(self, outgoing: UpstreamRequest, refusal: RefusedSettings) -> None:
        """Remember settings that a model refuses, to leave them out of its next request."""
        assert outgoing.translator is not None
        model = _model_of(outgoing.translator.translation)
        self._facts.refuse(outgoing.endpoint.upstream, model, refusal.names)

    async def _limit(
        self,
        translation: Translation,
        endpoint: UpstreamEndpoint,
        headers: CIMultiDict[str],
        attributes: dict[str, Any],
    ) -> None:
        """Set `max_tokens`, which Anthropic requires, to at most the model's limit."""
        sent = translation.request
        asked = sent.get("max_tokens")
        if asked is not None and not (isinstance(asked, int) and asked > SAFE_LIMIT):
            return
        most = await self._facts.most_tokens(endpoint, _model_of(translation), headers)
        if asked is None or (most is not None and most < asked):
            sent["max_tokens"] = attributes["ratchet.translation.max_tokens"] = most or SAFE_LIMIT


def _is_openais(endpoint: UpstreamEndpoint) -> bool:
    upstream = endpoint.upstream
    return is_providers_own(upstream) or provider_of(upstream) == "azure.ai.openai"


def _model_of(translation: Translation) -> str:
    return str(translation.request.get("model"))
