"""Makes upstream requests from client requests, with the candidate's prompts, model and weights."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ratchet.llm import load, loaded
from ratchet.observe.capture import readable
from ratchet.observe.model_apis import MODEL_IN_PATH, ModelApi
from ratchet.server.body import Content
from ratchet.server.gateway.adapter_loading import AdapterLoader, NamedWeights
from ratchet.server.gateway.call_tokens import TokenKeeping
from ratchet.server.gateway.call_translation import CallTranslator
from ratchet.server.gateway.gateway_request import GatewayRequest
from ratchet.server.gateway.headers import addressed_headers, brings_key, request_headers
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.relay import UpstreamRequest
from ratchet.server.gateway.stripping import ResponseStripper
from ratchet.server.gateway.substitution import Substitute, Substitution
from ratchet.server.gateway.target import GatewayTarget, trace_context
from ratchet.server.gateway.training import CallSeeds, ReadTraining, role_of
from ratchet.server.gateway.translating import RefusedSettings
from ratchet.server.gateway.translation import Translation, upstream_dialects
from ratchet.server.gateway.units import CallUnit, conversation_of, unit_of
from ratchet.server.gateway.upstream import choose_upstream, is_providers_own, provider_elsewhere
from ratchet.server.http_problems import HttpProblem
from ratchet.server.metrics import Metrics
from ratchet.types import RatchetError

SUBSTITUTE_S = 5.0
"""Timeout for finding a prompt's replacement, in seconds."""

_log = logging.getLogger(__name__)


class PreparedCall(NamedTuple):
    """A model call that is ready to be sent."""

    outgoing: UpstreamRequest
    recording: CallRecording
    streams: bool
    """Whether the response is streamed."""


class OutgoingCalls:
    """Makes upstream requests.

    Args:
        pool: Connections to the upstreams.
        leads_all: Whether the upstreams answer for all hosts.
        substitute: Replaces prompts; None to send requests unchanged.
        training: Reads whether a rollout trains a model; None if none does.
        adapters: Loads trained weights; None to leave that to people.
        metrics: Counts calls.
        body_limit: Limit of a request body, in bytes.
    """

    def __init__(
        self,
        pool: UpstreamPool,
        *,
        leads_all: bool,
        substitute: Substitute | None,
        training: ReadTraining | None,
        adapters: AdapterLoader | None,
        metrics: Metrics | None,
        body_limit: int,
    ) -> None:
        self._pool = pool
        self._leads_all = leads_all
        self._names_matter = any(map(is_providers_own, pool.upstreams))
        self._substitute = substitute
        self._training = training
        self._adapters = adapters
        self._metrics = metrics
        self._body_limit = body_limit
        self._translator = CallTranslator(pool)
        self._seeds = CallSeeds()

    def forget(self, target: GatewayTarget) -> None:
        """Forget an attempt that is over."""
        self._seeds.forget(target)

    def note(self, outgoing: UpstreamRequest, refusal: RefusedSettings) -> None:
        """Remember settings that a model refuses, to leave them out of its next request."""
        self._translator.note(outgoing, refusal)

    async def prepare(
        self, request: GatewayRequest, dialect: ModelApi, body: Content
    ) -> PreparedCall:
        """The upstream request of a model call, and its recording.

        Raises:
            HttpProblem: The request cannot be sent.
        """
        target, headers = request.target, request.headers
        encoding, parent = "", b""
        for key, value in headers:
            if key == b"content-encoding":
                encoding = value.decode("latin-1").strip().lower()
            elif key == b"traceparent":
                parent = value
        plain = await request.plain(body, encoding, self._body_limit)
        payload = await request.decoded(plain)
        with_model = request.named_in_path
        if payload is not None and with_model is not None:
            payload = {
                **payload,
                "model": with_model[1],
                "stream": with_model[2].startswith("stream"),
            }
        requested = payload.get("model") if payload is not None else None
        requested_model = requested if isinstance(requested, str) else None
        generates = dialect.OPERATION != "embeddings"
        training = generates and target.is_attempt and await self._trains(target)
        if (self._names_matter or request.address) and not loaded():
            await asyncio.get_running_loop().run_in_executor(None, load)
        endpoint, sent = self.choose(request, requested_model)
        attributes: dict[str, Any] = dict(endpoint.attributes)
        context = trace_context(parent) if parent else None
        stripper: ResponseStripper | None = None
        weights: NamedWeights | None = None
        if payload is not None:
            changed = payload
            conversation = conversation_of(headers)
            if conversation:
                attributes["gen_ai.conversation.id"] = readable(conversation)
            if self._substitute is not None:
                unit = unit_of(payload, conversation, context)
                substitution = await self._substituted(target, payload, dialect, unit)
                if generates and substitution.adapter is not None and self._adapters is not None:
                    substitution, weights = self._served(request, payload, substitution)
                changed = substitution.request
                own_model = changed.get("model")
                if generates and own_model != requested:  # the candidate's own model
                    own_endpoint, own_sent = self.choose(request, own_model)
                    fault = "" if target.is_attempt else self._fault(request, own_endpoint, changed)
                    if fault:
                        substitution = Substitution(
                            payload, {"ratchet.substitution.error": fault[:500]}
                        )
                        changed, weights = payload, None
                    else:
                        endpoint, sent = own_endpoint, own_sent
                        attributes.update(endpoint.attributes)
                attributes.update(substitution.attributes)
            if sent is not None and sent != requested:
                attributes["ratchet.asked_model"] = requested
                changed = {**changed, "model": sent}
            elif changed.get("model") != requested:
                changed = {**changed, "model": requested}
            translated = endpoint.upstream.dialect != request.provider
            trained = dialect.training_request(changed) if training and not translated else None
            if trained is not None:
                stripper = ResponseStripper(changed)
                changed = {**trained, "seed": self._seeds.next(target, plain)}
            if changed is not payload:
                body = rewritten(plain, payload, _without_model(request, payload, changed))
                payload = changed
                headers = [header for header in headers if header[0] != b"content-encoding"]
        keeping: TokenKeeping | None = None
        if target.is_attempt and generates:
            keeping = TokenKeeping(training, role_of(headers, attributes))
        recording = CallRecording(
            target, dialect, payload, plain, attributes, context, endpoint.sellers, keeping
        )
        self.check_key(request, endpoint)
        if payload is not None and endpoint.upstream.dialect != request.provider:
            translation = self._translation(request, endpoint, payload)
            outgoing = await self._translator.outgoing(
                translation, endpoint, request.headers, attributes
            )
        else:
            model = _model_of(payload)
            outgoing = self.outgoing(endpoint, request, headers, body, stripper, model)
        outgoing.weights = weights
        streams = payload is not None and payload.get("stream") is True
        return PreparedCall(outgoing, recording, streams)

    def _served(
        self, request: GatewayRequest, payload: dict[str, Any], substitution: Substitution
    ) -> tuple[Substitution, NamedWeights | None]:
        """The request to send for a candidate with trained weights, and the weights.

        While they cannot be served, a live agent's call is sent as it came.

        Raises:
            HttpProblem: They cannot be served, and the call is an attempt's.
        """
        assert self._adapters is not None
        assert substitution.adapter is not None
        endpoint, sent = self.choose(request, substitution.request.get("model"))
        upstream, name = endpoint.upstream, str(sent)
        fault = self._adapters.fault(upstream, name)
        if not fault:
            return substitution, self._adapters.named(upstream, substitution.adapter, name)
        if request.target.is_attempt:
            raise HttpProblem(503, fault, headers={"retry-after": "1"})
        if self._metrics is not None:
            self._metrics.adapter("replaced")
        return Substitution(payload, {"ratchet.substitution.error": fault[:500]}), None

    async def _trains(self, target: GatewayTarget) -> bool:
        """Whether an attempt's rollout trains a model."""
        if self._training is None:
            return False
        try:
            return await self._training(target.rollout_id)
        except RatchetError as error:
            raise HttpProblem(
                503,
                f"The purpose of the rollout cannot be read: {error}",
                headers={"retry-after": "1"},
            ) from error

    async def _substituted(
        self,
        target: GatewayTarget,
        payload: dict[str, Any],
        dialect: ModelApi,
        unit: CallUnit,
    ) -> Substitution:
        """The request to send instead."""
        assert self._substitute is not None
        try:
            async with asyncio.timeout(SUBSTITUTE_S):
                substitution = await self._substitute(target, payload, dialect, unit)
        except (RatchetError, TimeoutError) as error:
            why = str(error) or f"It took longer than {SUBSTITUTE_S:g} s."
            if target.is_attempt:
                raise HttpProblem(
                    503,
                    f"The prompts of the rollout's candidate cannot be read: {why}",
                    headers={"retry-after": "1"},
                ) from error
            _log.warning("Prompts of %s were not replaced: %s", target, why)
            return Substitution(payload, {"ratchet.substitution.error": why[:500]})
        return substitution or Substitution(payload)

    def choose(
        self, request: GatewayRequest, requested: str | None, *, translates: bool = True
    ) -> tuple[UpstreamEndpoint, str | None]:
        """The endpoint of a request, and the model name to send.

        Raises:
            HttpProblem: No upstream has the client's API.
        """
        dialect, upstreams = request.provider, self._pool.upstreams
        others = upstream_dialects(dialect, request.api_path) if translates else ()
        if request.address and not self._leads_all:
            endpoint = self._pool.addressed(dialect, request.address)
            translated = [upstream for upstream in upstreams if upstream.dialect in others]
            if requested is not None:
                elsewhere = provider_elsewhere(translated, endpoint.upstream, requested)
                if elsewhere is not None:
                    return self._pool.endpoint(elsewhere), requested
            return endpoint, requested
        choice = choose_upstream(upstreams, dialect, requested, others)
        if choice is None:
            raise HttpProblem(
                404,
                f"No upstream has the dialect {dialect!r}.",
                hint=f'Add one to ratchet.toml: [upstreams.NAME] with dialect = "{dialect}".',
            )
        return self._pool.endpoint(choice[0]), choice[1]

    def check_key(self, request: GatewayRequest, endpoint: UpstreamEndpoint) -> None:
        """Refuse a request to an upstream for which neither the server nor the client has a key.

        Raises:
            HttpProblem: Neither has one.
        """
        upstream = endpoint.upstream
        if endpoint.addressed:
            return  # what the client sends by itself
        # A client's key is for the provider whose API it uses.
        translated = upstream.dialect != request.provider
        brings = not translated and brings_key(request.headers)
        if upstream.key_env and not endpoint.key and not brings:
            instead = "" if translated else ", or let the client send the provider's key"
            raise HttpProblem(
                401,
                f"There is no key for the upstream {upstream.name!r}.",
                hint=f"Set {upstream.key_env} where Ratchet is started, and start it again"
                f"{instead}.",
            )

    def _fault(
        self, request: GatewayRequest, endpoint: UpstreamEndpoint, payload: dict[str, Any]
    ) -> str:
        """Why a candidate's own model cannot be called; empty if it can."""
        try:
            self.check_key(request, endpoint)
            if endpoint.upstream.dialect != request.provider:
                self._translation(request, endpoint, payload)
        except HttpProblem as problem:
            return problem.detail
        return ""

    def _translation(
        self, request: GatewayRequest, endpoint: UpstreamEndpoint, payload: dict[str, Any]
    ) -> Translation:
        return self._translator.translation(request.provider, request.api_path, endpoint, payload)

    def outgoing(
        self,
        endpoint: UpstreamEndpoint,
        request: GatewayRequest,
        headers: Sequence[tuple[bytes, bytes]],
        body: Content | None,
        stripper: ResponseStripper | None = None,
        model: str = "",
    ) -> UpstreamRequest:
        """A request to an upstream of the client's API."""
        if endpoint.addressed:
            sent = addressed_headers(headers, endpoint.key)
        else:
            sent = request_headers(headers, endpoint.key, endpoint.key_header)
        if stripper is not None:
            sent["Accept-Encoding"] = "identity"
        path = request.path
        if model and (with_model := MODEL_IN_PATH.search(path)):
            path = f"{path[: with_model.start(1)]}{quote(model)}{path[with_model.end(1) :]}"
        url = endpoint.url(path, request.scope["query_string"])
        return UpstreamRequest(endpoint, request.scope["method"], url, sent, body, stripper)

    async def load_weights(self, outgoing: UpstreamRequest, refused: list[NamedWeights]) -> None:
        """Load what an upstream does not know; `refused` are the weights it refused so far."""
        assert self._adapters is not None
        assert outgoing.weights is not None
        if any(weights.name == outgoing.weights.name for weights in refused):
            self._adapters.refuse(outgoing.endpoint.upstream, outgoing.weights)
        else:
            refused.append(outgoing.weights)
            await self._adapters.load(
                self._pool, outgoing.endpoint, outgoing.headers, outgoing.weights
            )


def rewritten(body: Content, before: dict[str, Any], after: dict[str, Any]) -> bytes:
    """The body with changed values replaced; everything else as the client wrote it."""
    changed = {key: value for key, value in after.items() if before.get(key) is not value}
    try:
        raw: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):  # valid for Python's json alone
        raw = dict(after)
    raw.update(changed)
    for key in before:
        if key not in after:
            raw.pop(key, None)
    try:
        try:
            return msgspec.json.encode(raw)
        except UnicodeEncodeError:  # a lone surrogate, which only JSON escapes can represent
            return json.dumps(after).encode()
    except (TypeError, ValueError, RecursionError):
        raise HttpProblem(400, "The body is not JSON that the gateway can rewrite.") from None


def _without_model(
    request: GatewayRequest, payload: dict[str, Any], changed: dict[str, Any]
) -> dict[str, Any]:
    """The changed request for the body: what the path states stays as the client sent it."""
    if request.named_in_path is None:
        return changed
    return {**changed, "model": payload["model"], "stream": payload["stream"]}


def _model_of(changed: dict[str, Any] | None) -> str:
    model = changed.get("model") if changed is not None else None
    return model if isinstance(model, str) else ""
