"""Gateway: OpenAI- and Anthropic-compatible proxy that relays and records every model call."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args

from ratchet._asgi import AsgiScope, Receive, Send
from ratchet.observe.model_apis import (
    MODEL_APIS,
    PASSED_THROUGH,
    DialectName,
    ModelApi,
)
from ratchet.observe.spool import Spool
from ratchet.server.access import check_attempt
from ratchet.server.agent_limits import check_agents
from ratchet.server.body import BodyBudget, ClientDisconnected, Content
from ratchet.server.gateway.adapter_loading import AdapterLoader, NamedWeights
from ratchet.server.gateway.call_tokens import TokenWatch
from ratchet.server.gateway.gateway_request import GatewayRequest
from ratchet.server.gateway.headers import ADDRESS_HEADER, ROLLOUT_HEADER
from ratchet.server.gateway.outgoing_calls import OutgoingCalls, rewritten
from ratchet.server.gateway.pool import UpstreamPool
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.recording_queue import RecordingQueue, Writer
from ratchet.server.gateway.recording_spool import RecordingSpool
from ratchet.server.gateway.relay import CallRelay, UnknownWeights, UpstreamFailure
from ratchet.server.gateway.substitution import Substitute
from ratchet.server.gateway.target import (
    Addressed,
    AttemptGuard,
    GatewayTarget,
    ReadAttemptState,
    ReadToken,
    addressed,
)
from ratchet.server.gateway.training import ReadTraining
from ratchet.server.gateway.translating import RefusedSettings
from ratchet.server.gateway.upstream import Upstream, standard_upstreams
from ratchet.server.http_problems import HttpProblem, problem_of, send_problem
from ratchet.server.metrics import Metrics
from ratchet.types import RatchetError

BODY_LIMIT = 33_554_432
"""Default limit of a request body in bytes; images make requests large."""

CALLS_LIMIT = 4_096
"""Maximum number of calls in flight or waiting."""

DRAIN_TIMEOUT_S = 25.0
"""Seconds for which `close` lets calls in flight finish."""

RECORD_S = 10.0
"""Seconds that `close` waits for the writer to take the recordings."""

HANG_UP_S = 0.25
"""Seconds for which `flush_attempt` waits for open calls of an agent that has just ended."""

_PROVIDERS: tuple[str, ...] = get_args(DialectName)
_MODEL = re.compile(r"^(?:.*/)?models/[^/:]+:")
"""The beginning of a path that names the model, and then what is asked of it: Gemini's."""

_log = logging.getLogger(__name__)


def _no_token(_: bytes) -> tuple[str, int]:
    raise HttpProblem(401, "This gateway issues no tokens.")


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
        drain_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._pool = UpstreamPool(tuple(upstreams) or standard_upstreams(), environ, hosts or ())
        self._recordings = RecordingQueue(
            writer,
            TokenWatch(metrics),
            spool=RecordingSpool(spool) if spool is not None else None,
            metrics=metrics,
        )
        self._outgoing = OutgoingCalls(
            self._pool,
            leads_all=hosts is None,
            substitute=substitute,
            training=training,
            adapters=adapters,
            metrics=metrics,
            body_limit=body_limit,
        )
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
        self._outgoing.forget(target)
        if self._attempts is not None:
            self._attempts.forget(rollout_id, fence)
        ending = [task for task, whose in self._calls.items() if whose == target]
        if ending:
            # The agent has ended without waiting for these calls, so their connections are about
            # to close.
            await asyncio.wait(ending, timeout=HANG_UP_S)
        await self._recordings.flush(target)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            await self._answer(scope, receive, send)
        except ClientDisconnected:
            return
        except HttpProblem as problem:
            await send_problem(problem, send, scope["path"][:200])
        except RatchetError as error:
            await send_problem(problem_of(error), send, scope["path"][:200])

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        parts = scope["path"].split("/", 4)
        if len(parts) != 5 or parts[3] not in _PROVIDERS:
            raise _nothing(scope["path"])
        provider: DialectName = parts[3]
        # Clients differ in whether the version is part of their base URL.
        path = parts[4].removeprefix("v1/")
        # The base URL that it was given has a version, which its own has not: it adds one itself.
        own_version = "v1/" if path.startswith("v1/") else ""
        path = path.removeprefix("v1/")
        named = _MODEL.sub("models/{model}:", path) if provider == "gemini" else path
        key = (provider, named.removeprefix("v1beta/"))
        dialect, listed = MODEL_APIS.get(key), PASSED_THROUGH.get(key)
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
        await self._admit(call, scope)
        self._calls[task] = call.target
        try:
            with self._bodies.hold() as held_body:
                request = GatewayRequest(
                    task, call.target, provider, sent, address, scope, receive, send, held_body
                )
                if dialect is None:
                    await self._pass_through(request)
                else:
                    await self._call(request, dialect)
        finally:
            del self._calls[task]

    async def _admit(self, call: Addressed, scope: AsgiScope) -> None:
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
                    f"A key gives no access to the attempt {target}: only its token does, so that "
                    "the rollout's cost is counted correctly.",
                    hint=f"Pass on the task's header {ROLLOUT_HEADER.decode()} unchanged, or "
                    "use the base URL that the attempt was given.",
                )
        if self._attempts is not None and target.is_attempt:
            await self._attempts.check(target)

    async def _call(self, request: GatewayRequest, dialect: ModelApi) -> None:
        """Relay and record a model call."""
        await self._recordings.place()
        body = await request.body(self._body_limit)
        refused: list[NamedWeights] = []
        first: CallRecording | None = None
        while True:
            outgoing, recording, streams = await self._outgoing.prepare(request, dialect, body)
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
                await self._outgoing.load_weights(outgoing, refused)
            except RefusedSettings as refusal:
                self._outgoing.note(outgoing, refusal)

    async def _relay(
        self, relay: CallRelay, recording: CallRecording, request: GatewayRequest
    ) -> None:
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

    async def _pass_through(self, request: GatewayRequest) -> None:
        """Relay a request that is not a model call."""
        body: Content | None = None
        headers = request.headers
        endpoint, _ = self._outgoing.choose(request, None, translates=False)
        if request.scope["method"] == "POST":
            body = await request.body(self._body_limit)
            payload = await request.decoded(body)
            requested = payload.get("model") if payload is not None else None
            if payload is not None and isinstance(requested, str):
                endpoint, sent = self._outgoing.choose(request, requested, translates=False)
                if sent != requested:
                    body = rewritten(body, payload, {**payload, "model": sent})
        self._outgoing.check_key(request, endpoint)
        relay = CallRelay(
            self._pool, self._outgoing.outgoing(endpoint, request, headers, body), None
        )
        try:
            await relay.run(request.task, request.receive, request.send)
        except UpstreamFailure as failure:
            if not relay.begun:
                raise HttpProblem(failure.status, failure.detail) from failure


def _nothing(path: str) -> HttpProblem:
    below = "/gateway/{scope}"
    routes = [f"{below}/{name}/v1/{path}" for name, path in (*MODEL_APIS, *PASSED_THROUGH)]
    return HttpProblem(
        404,
        f"The gateway has no route {path[:300]}.",
        hint=f"Its routes: {', '.join(routes)}; {{scope}} is ROLLOUT_ID@FENCE or an agent's name.",
    )
