"""Gateway: OpenAI- and Anthropic-compatible proxy that relays and records every model call."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args
from urllib.parse import quote

import msgspec

from ratchet.llm import load, loaded
from ratchet.observe.capture import readable
from ratchet.observe.model_apis import (
    DIALECTS,
    MODEL_IN_PATH,
    PASSED_THROUGH,
    DialectName,
    ModelApi,
)
from ratchet.observe.model_apis.bounded_json import decoded
from ratchet.observe.spool import Spool
from ratchet.server.access import check_attempt
from ratchet.server.agent_limits import check_agents
from ratchet.server.body import (
    SMALL,
    BodyBudget,
    ClientDisconnected,
    Content,
    HeldBody,
    decompressed,
    read_body,
)
from ratchet.server.gateway.adapter_loading import AdapterLoader, NamedWeights
from ratchet.server.gateway.call_tokens import TokenKeeping, TokenWatch
from ratchet.server.gateway.call_translation import CallTranslator
from ratchet.server.gateway.headers import (
    ADDRESS_HEADER,
    ROLLOUT_HEADER,
    addressed_headers,
    brings_key,
    request_headers,
)
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.recording_queue import RecordingQueue, Writer
from ratchet.server.gateway.recording_spool import RecordingSpool
from ratchet.server.gateway.relay import (
    CallRelay,
    Receive,
    UnknownWeights,
    UpstreamFailure,
    UpstreamRequest,
)
from ratchet.server.gateway.stripping import ResponseStripper
from ratchet.server.gateway.substitution import Substitute, Substitution
from ratchet.server.gateway.target import (
    Addressed,
    AttemptGuard,
    GatewayTarget,
    ReadAttemptState,
    ReadToken,
    addressed,
    trace_context,
)
from ratchet.server.gateway.training import CallSeeds, ReadTraining, role_of
from ratchet.server.gateway.translating import RefusedSettings
from ratchet.server.gateway.translation import Translation, upstream_dialects
from ratchet.server.gateway.units import CallUnit, conversation_of, unit_of
from ratchet.server.gateway.upstream import (
    Upstream,
    choose_upstream,
    is_providers_own,
    provider_elsewhere,
    standard_upstreams,
)
from ratchet.server.http_problems import HttpProblem, Send, problem_of, send_problem
from ratchet.server.metrics import Metrics
from ratchet.types import RatchetError

BODY_LIMIT = 33_554_432
"""Default limit of a request body in bytes; images make requests large."""

CALLS_LIMIT = 4_096
"""Most calls in flight or waiting."""

DRAIN_S = 25.0
"""Seconds for which `close` lets calls in flight finish."""

RECORD_S = 10.0
"""Seconds for which `close` waits until the writer has taken the recordings."""

SUBSTITUTE_S = 5.0
"""Timeout of finding a prompt's replacement, in seconds."""

HANG_UP_S = 0.25
"""Seconds for which `flush_attempt` waits for open calls of an agent that has just ended."""

_PROVIDERS: tuple[str, ...] = get_args(DialectName)

_log = logging.getLogger(__name__)


def _no_token(_: bytes) -> tuple[str, int]:
    raise HttpProblem(401, "This gateway has issued no token.")


Scope = Mapping[str, Any]


class _Request:
    """An admitted request."""

    __slots__ = (
        "address",
        "held",
        "path",
        "provider",
        "receive",
        "scope",
        "send",
        "target",
        "task",
    )

    held: HeldBody
    """Memory of its body."""

    def __init__(
        self,
        task: asyncio.Task[Any],
        target: GatewayTarget,
        provider: DialectName,
        path: str,
        address: str,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self.task = task
        self.target = target
        self.provider = provider
        """API that the client uses."""
        self.path = path
        """Path below the provider's version."""
        self.address = address
        """Base URL that the client calls by itself; empty where it calls the gateway."""
        self.scope = scope
        self.receive = receive
        self.send = send


class Gateway:
    """ASGI application under /gateway/.

    Args:
        upstreams: The providers; by default the standard ones.
        hosts: Further hosts, which an agent's model calls go to by themselves; None where the
            upstreams answer for all of them.
        writer: Stores spans.
        substitute: Replaces prompts; None to send requests unchanged.
        training: Reads whether a rollout trains a model; None if none does.
        adapters: Loads trained weights at upstreams that do not know them; None to leave that to
            people.
        running: Reads the state of an attempt; None to accept any attempt.
        read_token: Reads the token of an attempt.
        stream: Context manager entered for the duration of a streamed call, such as a limit per
            caller; it receives the caller.
        metrics: Counts calls.
        environ: Environment with the providers' keys.
        body_limit: Limit of a request body, in bytes.
        bodies: Memory that bodies share with those of other routes.
        spool: Holds on disk the recordings that the writer has no place for.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        writer: Writer,
        *,
        hosts: Sequence[str] | None = (),
        substitute: Substitute | None = None,
        training: ReadTraining | None = None,
        adapters: AdapterLoader | None = None,
        running: ReadAttemptState | None = None,
        read_token: ReadToken = _no_token,
        stream: Callable[[Any], AbstractContextManager[None]] | None = None,
        metrics: Metrics | None = None,
        environ: Mapping[str, str] = os.environ,
        body_limit: int = BODY_LIMIT,
        bodies: BodyBudget | None = None,
        spool: Spool | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        self._pool = UpstreamPool(tuple(upstreams) or standard_upstreams(), environ, hosts or ())
        self._leads_all = hosts is None
        self._recordings = RecordingQueue(
            writer,
            TokenWatch(metrics),
            spool=RecordingSpool(spool) if spool is not None else None,
            metrics=metrics,
        )
        self._translator = CallTranslator(self._pool)
        self._names_matter = any(map(is_providers_own, self._pool.upstreams))
        self._substitute = substitute
        self._training = training
        self._seeds = CallSeeds()
        self._adapters = adapters
        self._attempts = None if running is None else AttemptGuard(running)
        self._read_token = read_token
        self._stream = stream
        self._metrics = metrics
        self._body_limit = body_limit
        self._bodies = bodies or BodyBudget()
        self._drain_s = drain_s
        self._calls: dict[asyncio.Task[Any], GatewayTarget] = {}
        self._closing = False

    async def start(self) -> None:
        """Start the upstream pool; call in the event loop that will serve."""
        await self._pool.start()
        await self._recordings.start()

    async def close(self) -> None:
        """Refuse new calls and let calls in flight finish within a bounded time."""
        self._closing = True
        if self._calls:
            _, missing = await asyncio.wait(list(self._calls), timeout=self._drain_s)
            for task in missing:
                task.cancel()
            if missing:
                _log.warning("%d calls were cut off at shutdown.", len(missing))
                await asyncio.wait(missing, timeout=1.0)
        await self._recordings.close(min(self._drain_s, RECORD_S))
        await self._pool.close()

    async def flush_attempt(self, rollout_id: str, fence: int) -> None:
        """Wait until the finished calls of an attempt are stored, for at most ten seconds.

        Args:
            rollout_id: The rollout.
            fence: The attempt's fencing token.
        """
        target = GatewayTarget(rollout_id=rollout_id, fence=fence)
        self._seeds.forget(target)
        if self._attempts is not None:
            self._attempts.forget(rollout_id, fence)
        ending = [task for task, whose in self._calls.items() if whose == target]
        if ending:
            # The agent has ended without waiting for these calls, so their connections are about
            # to close.
            await asyncio.wait(ending, timeout=HANG_UP_S)
        await self._recordings.flush(target)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._answer(scope, receive, send)
        except ClientDisconnected:
            return
        except HttpProblem as problem:
            await send_problem(problem, send, scope["path"][:200])
        except RatchetError as error:
            await send_problem(problem_of(error), send, scope["path"][:200])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope["path"].split("/", 4)
        if len(parts) != 5 or parts[3] not in _PROVIDERS:
            raise _nothing(scope["path"])
        provider: DialectName = parts[3]
        # Clients differ in whether the version is part of their base URL.
        path = parts[4].removeprefix("v1/")
        # The base URL that it was given has a version, which its own has not: it adds one itself.
        own_version = "v1/" if path.startswith("v1/") else ""
        path = path.removeprefix("v1/")
        with_model = MODEL_IN_PATH.search(path) if provider == "gemini" else None
        if with_model is not None:
            dialect = DIALECTS.get((provider, f"models/{{model}}:{with_model[2]}"))
        else:
            dialect = DIALECTS.get((provider, path.removeprefix("v1beta/")))
        listed = PASSED_THROUGH.get((provider, path.removeprefix("v1beta/")))
        expected = "POST" if dialect is not None else listed
        if expected is None:
            raise _nothing(scope["path"])
        if scope["method"] != expected:
            raise HttpProblem(
                405,
                f"{scope['path']} supports {expected}, not {scope['method']}.",
                headers={"allow": expected},
            )
        task = asyncio.current_task()
        assert task is not None
        query = scope["query_string"]
        call = addressed(parts[2], scope["headers"], query, self._read_token)
        if call.query != query:
            scope = {**scope, "query_string": call.query}
        # Their base URLs are without a version, which the clients may have in the path.
        sent = parts[4] if provider in ("ollama", "gemini") else own_version + path
        address = next(
            (value.decode("latin-1") for key, value in scope["headers"] if key == ADDRESS_HEADER),
            "",
        )
        request = _Request(task, call.target, provider, sent, address, scope, receive, send)
        await self._admit(call, scope)
        self._calls[task] = request.target
        try:
            with self._bodies.hold() as held_body:
                request.held = held_body
                if dialect is None:
                    await self._pass_through(request)
                else:
                    await self._call(request, dialect)
        finally:
            del self._calls[task]

    async def _admit(self, call: Addressed, scope: Scope) -> None:
        target = call.target
        if self._closing:
            raise HttpProblem(503, "The server is shutting down.", headers={"retry-after": "1"})
        if len(self._calls) >= CALLS_LIMIT:
            raise HttpProblem(429, "Too many calls are in flight.", headers={"retry-after": "1"})
        caller = scope.get("ratchet.caller")
        if caller is not None:
            check_attempt(caller, target.rollout_id, target.fence, str(target))
            if not target.is_attempt:
                check_agents(caller, [target.agent])
            if target.is_attempt and caller.key_id and not call.by_token:
                raise HttpProblem(
                    403,
                    f"A key does not open the attempt {target}: what a rollout costs comes from"
                    " those who have its attempt's token.",
                    hint=f"Pass the header {ROLLOUT_HEADER.decode()} of the task on as it came, or"
                    " use the base URL that the attempt was given.",
                )
        if self._attempts is not None and target.is_attempt:
            await self._attempts.check(target)

    async def _call(self, request: _Request, dialect: ModelApi) -> None:
        """Relay and record a model call."""
        await self._recordings.place()
        body = await self._read(request)
        refused: list[NamedWeights] = []
        first: CallRecording | None = None
        while True:
            outgoing, recording, streams = await self._prepare(request, dialect, body)
            # What follows takes as long as the model does, which others need not wait for.
            request.held.release()
            if first is not None:
                recording.again(first)
            stream_slot: AbstractContextManager[None] = nullcontext()
            if streams and self._stream is not None:
                stream_slot = self._stream(request.scope.get("ratchet.caller"))
            try:
                with stream_slot:
                    if first is None:
                        first = recording
                        self._recordings.begin(recording)
                    await self._relay(
                        CallRelay(self._pool, outgoing, recording), recording, request
                    )
                break
            except UnknownWeights:
                await self._load_weights(outgoing, refused)
            except RefusedSettings as refusal:
                self._translator.note(outgoing, refusal)

    async def _load_weights(self, outgoing: UpstreamRequest, refused: list[NamedWeights]) -> None:
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

    async def _read(self, request: _Request) -> Content:
        """The body of a request, as it came."""
        length = 0
        for key, value in request.scope["headers"]:
            if key == b"content-length" and value.isdigit():
                length = int(value[:20])
        return await read_body(request.receive, self._body_limit, request.held, length=length)

    async def _decoded(self, request: _Request, plain: Content) -> dict[str, Any] | None:
        """The object that a body is; None for anything else, which the upstream will report."""
        if len(plain) <= SMALL:
            return _decoded(plain)
        await request.held.weigh(plain)
        async with self._bodies.decoding:
            payload = _decoded(plain)
            await asyncio.sleep(0)
        return payload

    async def _prepare(
        self, request: _Request, dialect: ModelApi, body: Content
    ) -> tuple[UpstreamRequest, CallRecording, bool]:
        """The outgoing request, its recording, and whether the response is streamed."""
        scope, target = request.scope, request.target
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        encoding, parent = "", b""
        for key, value in headers:
            if key == b"content-encoding":
                encoding = value.decode("latin-1").strip().lower()
            elif key == b"traceparent":
                parent = value
        plain = await _plain(body, encoding, self._body_limit, request.held)
        payload = await self._decoded(request, plain)
        with_model = MODEL_IN_PATH.search(request.path)
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
        endpoint, sent = self._choose(request, requested_model)
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
                    own_endpoint, own_sent = self._choose(request, own_model)
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
                body = _rewritten(plain, payload, _without_model(request, payload, changed))
                payload = changed
                headers = [header for header in headers if header[0] != b"content-encoding"]
        keeping: TokenKeeping | None = None
        if target.is_attempt and generates:
            keeping = TokenKeeping(training, role_of(headers, attributes))
        recording = CallRecording(
            target, dialect, payload, plain, attributes, context, endpoint.sellers, keeping
        )
        self._check_key(request, endpoint)
        if payload is not None and endpoint.upstream.dialect != request.provider:
            outgoing = await self._translated(endpoint, request, payload, attributes)
        else:
            model = _model_of(payload)
            outgoing = self._outgoing(endpoint, request, headers, body, stripper, model)
        outgoing.weights = weights
        return outgoing, recording, payload is not None and payload.get("stream") is True

    def _served(
        self, request: _Request, payload: dict[str, Any], substitution: Substitution
    ) -> tuple[Substitution, NamedWeights | None]:
        """What to send when the candidate has trained weights, and these.

        While they cannot be served, a live agent's call is sent as it came.

        Raises:
            HttpProblem: They cannot be served, and the call is an attempt's.
        """
        assert self._adapters is not None
        assert substitution.adapter is not None
        endpoint, sent = self._choose(request, substitution.request.get("model"))
        upstream, name = endpoint.upstream, str(sent)
        fault = self._adapters.fault(upstream, name)
        if not fault:
            return substitution, self._adapters.named(upstream, substitution.adapter, name)
        if request.target.is_attempt:
            raise HttpProblem(503, fault, headers={"retry-after": "1"})
        if self._metrics is not None:
            self._metrics.adapter("replaced")
        return Substitution(payload, {"ratchet.substitution.error": fault[:500]}), None

    async def _relay(self, relay: CallRelay, recording: CallRecording, request: _Request) -> None:
        counts = True
        try:
            await relay.run(request.task, request.receive, request.send)
        except (UnknownWeights, RefusedSettings):
            counts = False
            raise
        except UpstreamFailure as failure:
            self._recordings.put(recording, failure.kind, failure.detail)
            if not relay.begun:
                raise HttpProblem(failure.status, failure.detail) from failure
            # Returning before the end makes the server abort the response, so the client can tell
            # that it is incomplete.
        except HttpProblem as problem:
            self._recordings.put(recording, "overloaded", problem.detail)
            raise
        except asyncio.CancelledError:
            self._recordings.put(
                recording, "cancelled", "The server stopped before the call ended."
            )
            raise
        else:
            if relay.hung_up:
                self._recordings.put(recording, "client_disconnected", "The client disconnected.")
            else:
                self._recordings.put(recording)
        finally:
            if counts and self._metrics is not None:
                self._metrics.gateway_call(
                    request.provider,
                    relay.upstream.name,
                    recording.status,
                    recording.seconds,
                    recording.first_chunk_s,
                )

    async def _pass_through(self, request: _Request) -> None:
        """Relay a request that is not a model call."""
        body: Content | None = None
        headers = request.scope["headers"]
        endpoint, _ = self._choose(request, None, translates=False)
        if request.scope["method"] == "POST":
            body = await self._read(request)
            payload = await self._decoded(request, body)
            requested = payload.get("model") if payload is not None else None
            if payload is not None and isinstance(requested, str):
                endpoint, sent = self._choose(request, requested, translates=False)
                if sent != requested:
                    body = _rewritten(body, payload, {**payload, "model": sent})
        self._check_key(request, endpoint)
        relay = CallRelay(self._pool, self._outgoing(endpoint, request, headers, body), None)
        try:
            await relay.run(request.task, request.receive, request.send)
        except UpstreamFailure as failure:
            if not relay.begun:
                raise HttpProblem(failure.status, failure.detail) from failure

    def _choose(
        self, request: _Request, requested: str | None, *, translates: bool = True
    ) -> tuple[UpstreamEndpoint, str | None]:
        dialect, upstreams = request.provider, self._pool.upstreams
        others = upstream_dialects(dialect, _path_of(request)) if translates else ()
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

    def _check_key(self, request: _Request, endpoint: UpstreamEndpoint) -> None:
        upstream = endpoint.upstream
        if endpoint.addressed:
            return  # what the client sends by itself
        # A client's key is for the provider whose API it uses.
        translated = upstream.dialect != request.provider
        brings = not translated and brings_key(request.scope["headers"])
        if upstream.key_env and not endpoint.key and not brings:
            instead = "" if translated else ", or let the client send the provider's key"
            raise HttpProblem(
                401,
                f"There is no key for the upstream {upstream.name!r}.",
                hint=f"Set {upstream.key_env} in the environment of the server and restart it"
                f"{instead}.",
            )

    def _fault(self, request: _Request, endpoint: UpstreamEndpoint, payload: dict[str, Any]) -> str:
        """Why a candidate's own model cannot be asked; empty when it can."""
        try:
            self._check_key(request, endpoint)
            if endpoint.upstream.dialect != request.provider:
                self._translation(request, endpoint, payload)
        except HttpProblem as problem:
            return problem.detail
        return ""

    def _translation(
        self, request: _Request, endpoint: UpstreamEndpoint, payload: dict[str, Any]
    ) -> Translation:
        return self._translator.translation(request.provider, _path_of(request), endpoint, payload)

    async def _translated(
        self,
        endpoint: UpstreamEndpoint,
        request: _Request,
        payload: dict[str, Any],
        attributes: dict[str, Any],
    ) -> UpstreamRequest:
        """The request to an upstream of another API, and what translates its answer."""
        translation = self._translation(request, endpoint, payload)
        headers = request.scope["headers"]
        return await self._translator.outgoing(translation, endpoint, headers, attributes)

    def _outgoing(
        self,
        endpoint: UpstreamEndpoint,
        request: _Request,
        headers: Sequence[tuple[bytes, bytes]],
        body: Content | None,
        stripper: ResponseStripper | None = None,
        model: str = "",
    ) -> UpstreamRequest:
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
        """What to send instead of the request."""
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


async def _plain(body: Content, encoding: str, limit: int, held_body: HeldBody) -> Content:
    """The decompressed body; empty when it is damaged, which the upstream will report."""
    if not encoding:
        return body
    try:
        return await decompressed(body, encoding, limit, held_body)
    except HttpProblem as problem:
        if problem.status in (413, 429):
            raise
        return b""


def _decoded(body: Content) -> dict[str, Any] | None:
    try:
        payload = decoded(body)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _rewritten(body: Content, before: dict[str, Any], after: dict[str, Any]) -> bytes:
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
        raise HttpProblem(400, "The body is not JSON that can be rewritten.") from None


def _without_model(
    request: _Request, payload: dict[str, Any], changed: dict[str, Any]
) -> dict[str, Any]:
    """The request as it is in the body, where the model's name is not if it is in the path."""
    if MODEL_IN_PATH.search(request.path) is None:
        return changed
    return {**changed, "model": payload["model"], "stream": payload["stream"]}


def _path_of(request: _Request) -> str:
    return request.path.removeprefix("v1/")


def _model_of(changed: dict[str, Any] | None) -> str:
    model = changed.get("model") if changed is not None else None
    return model if isinstance(model, str) else ""


def _nothing(path: str) -> HttpProblem:
    below = "/gateway/{scope}"
    routes = [f"{below}/{name}/v1/{path}" for name, path in (*DIALECTS, *PASSED_THROUGH)]
    return HttpProblem(
        404,
        f"The gateway has no route {path[:300]}.",
        hint=f"Its routes: {', '.join(routes)}; {{scope}} is ROLLOUT_ID@FENCE or an agent's name.",
    )
