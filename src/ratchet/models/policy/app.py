"""OpenAI's API over the engine, as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ratchet._asgi import AsgiScope, Receive, Send
from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy.adapters import AdapterRegistry
from ratchet.models.policy.answers import AnswerWriter
from ratchet.models.policy.base import Base
from ratchet.models.policy.conversations import AnsweredConversations, normalise
from ratchet.models.policy.engine import PolicyEngine
from ratchet.models.policy.generation import OWN_DISTRIBUTION, Generation
from ratchet.models.policy.lora import LoadedAdapter
from ratchet.models.policy.requests import (
    AdapterRequest,
    AnswerRequest,
    ChatRequest,
    CompletionRequest,
)
from ratchet.types import InputError
from ratchet.types.wording import counted

RequestT = TypeVar("RequestT")

MAX_BODY = 32 * 1024 * 1024
"""Maximum size of a request, in bytes."""

SLOW_STEP_S = 0.02
"""Steps longer than this are taken in a thread, so that the server stays responsive."""

_log = logging.getLogger("ratchet")


class ApiError(Exception):
    """An answer other than 200, in the form of OpenAI's API."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param

    def body(self) -> dict[str, Any]:
        """The error object."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        about = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": about}


class PolicyApp:
    """Serves a base model and its adapters.

    Args:
        base: The base model.
        engine: The engine of this base.
        adapters: The adapters of this base.
        key: What requests must carry; empty for nothing.
        queue: Requests that may wait for a slot; more are refused with 429.
        own_distribution: Whether answers are drawn from the model's own distribution, whatever a
            request says of temperature, top_p, top_k and penalties, as learning by reinforcement
            wants it.
    """

    def __init__(
        self,
        base: Base,
        engine: PolicyEngine,
        adapters: AdapterRegistry,
        *,
        key: str = "",
        queue: int = 256,
        own_distribution: bool = False,
    ) -> None:
        self.base, self.engine, self.adapters = base, engine, adapters
        self._key, self._queue, self._own = key, queue, own_distribution
        self._conversations = AnsweredConversations(base.tokenizer)
        self._created = int(time.time())
        self._wake = asyncio.Event()
        self._between_steps = asyncio.Lock()
        self._watched: dict[Generation, tuple[asyncio.Event, bool]] = {}
        """The waiters for each answer, and whether they wait for each token or for the end."""
        self._driver: asyncio.Task[None] | None = None
        self._routes: dict[tuple[str, str], Callable[..., Awaitable[None]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._complete,
            ("POST", "/v1/load_lora_adapter"): self._load,
            ("POST", "/v1/unload_lora_adapter"): self._unload,
        }

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or handle the ASGI lifespan events."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                await self._http(scope, receive, send)
            except ApiError as error:
                await _answer(send, error.status, error.body())
            except ModelUnavailable as error:
                await _answer(send, 400, ApiError(400, str(error)).body())
            except _Gone:
                return

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._driver = asyncio.create_task(self._drive())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if self._driver is not None:
                    self._driver.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if b"origin" in headers:
            raise ApiError(403, "Web pages may not use this server.")
        token = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if self._key and not hmac.compare_digest(token, self._key.encode()):
            raise ApiError(401, "The API key is missing or wrong.", code="invalid_api_key")
        handler = self._routes.get((scope["method"], scope["path"]))
        if handler is None:
            raise ApiError(404, f"There is no {scope['method']} {scope['path']}.")
        await handler(receive, send)

    async def _health(self, receive: Receive, send: Send) -> None:
        await _answer(send, 200, {"status": "ok"})

    async def _models(self, receive: Receive, send: Send) -> None:
        base = self.base
        about = {"object": "model", "created": self._created, "owned_by": "ratchet"}
        listed = [
            {
                **about,
                "id": base.name,
                "parent": None,
                "max_model_len": self.engine.context,
                "version": base.fingerprint,
            }
        ]
        for name, adapter in self.adapters.names.items():
            listed.append(
                {
                    **about,
                    "id": name,
                    "parent": base.name,
                    "root": str(adapter.folder),
                    "version": adapter.version,
                }
            )
        await _answer(send, 200, {"object": "list", "data": listed})

    async def _load(self, receive: Receive, send: Send) -> None:
        request = await _read(receive, AdapterRequest)
        async with self._between_steps:
            adapter = self.adapters.load(request.lora_name, Path(request.lora_path))
        await _answer(send, 200, {"id": request.lora_name, "version": adapter.version})

    async def _unload(self, receive: Receive, send: Send) -> None:
        request = await _read(receive, AdapterRequest)
        async with self._between_steps:
            if not self.adapters.unload(request.lora_name):
                raise self._no_model(request.lora_name)
        await _answer(send, 200, {"id": request.lora_name})

    async def _chat(self, receive: Receive, send: Send) -> None:
        request = await _read(receive, ChatRequest)
        weights, version = await self._admit(request)
        tools = [] if request.tool_choice == "none" else request.tools or []
        scope = request.prompt_cache_key or ""
        try:
            messages = [normalise(message) for message in request.messages]
        except ValueError as error:
            raise ApiError(400, str(error), param="messages") from None
        if not messages:
            raise ApiError(400, "There are no messages.", param="messages")
        try:
            prompt = self._conversations.prompt(messages, tools, scope)
        except InputError as error:
            raise ApiError(400, str(error), param="messages") from None
        limit = request.max_completion_tokens
        generations = [
            self._generation(
                request, prompt, weights, version,
                max_tokens=request.max_tokens if limit is None else limit,
                number=number, top=request.top_logprobs or 0,
            )
            for number in range(request.n)
        ]  # fmt: skip
        writer = AnswerWriter(
            generations,
            self.base.tokenizer,
            model=request.model,
            about=self._about(version),
            per_prompt=request.n,
            tools=tools,
            stop=request.stops(),
            token_ids=bool(request.return_token_ids),
            logprobs=bool(request.logprobs),
        )

        def remember() -> None:
            for generation in generations:
                answer = normalise(writer.message(writer.parsed(generation)))
                ids = [*generation.prompt, *generation.response]
                self._conversations.answered([*messages, answer], tools, scope, ids)

        if request.stream:
            await self._stream(
                send, receive, request, writer, writer.chat_chunks, "chat.completion.chunk",
                remember,
            )  # fmt: skip
        else:
            await self._whole(receive, generations)
            remember()
            await _answer(send, 200, writer.chat())

    async def _complete(self, receive: Receive, send: Send) -> None:
        request = await _read(receive, CompletionRequest)
        weights, version = await self._admit(request)
        try:
            prompts = request.prompts()
        except ValueError as error:
            raise ApiError(400, str(error), param="prompt") from None
        encode = self.base.tokenizer.encode
        ids = [
            encode(prompt, special=True) if isinstance(prompt, str) else prompt
            for prompt in prompts
        ]
        generations = [
            self._generation(
                request, prompt, weights, version,
                max_tokens=16 if request.max_tokens is None else request.max_tokens,
                number=number, top=request.logprobs or 0,
                score=bool(request.echo) and request.logprobs is not None,
            )
            for prompt in ids
            for number in range(request.n)
        ]  # fmt: skip
        writer = AnswerWriter(
            generations,
            self.base.tokenizer,
            model=request.model,
            about=self._about(version),
            per_prompt=request.n,
            stop=request.stops(),
            token_ids=bool(request.return_token_ids),
            logprobs=request.logprobs is not None,
            echo=bool(request.echo),
        )
        if request.stream:
            await self._stream(
                send, receive, request, writer, writer.completion_chunks, "text_completion"
            )
        else:
            await self._whole(receive, generations)
            await _answer(send, 200, writer.completion())

    async def _admit(self, request: AnswerRequest) -> tuple[LoadedAdapter | None, str]:
        """The weights that answer a request.

        Raises:
            ApiError: The request asks for something that is not supported, the model is unknown, or
                too many requests wait.
        """
        wrong = request.check()
        if wrong is not None:
            raise ApiError(400, wrong[1], param=wrong[0])
        if self.engine.waiting + request.n > self._queue:
            raise ApiError(
                429,
                f"{self.engine.waiting} requests are already waiting; try again later.",
                code="rate_limit_exceeded",
            )
        async with self._between_steps:
            match = self.adapters.find(request.model)
        if match is None:
            raise self._no_model(request.model)
        return match

    def _no_model(self, name: str) -> ApiError:
        names = ", ".join(map(repr, (self.base.name, *self.adapters.names)))
        return ApiError(
            404, f"There is no model {name!r} here; there are {names}.",
            code="model_not_found", param="model",
        )  # fmt: skip

    def _generation(
        self,
        request: AnswerRequest,
        prompt: list[int],
        weights: LoadedAdapter | None,
        version: str,
        *,
        max_tokens: int | None,
        number: int,
        top: int,
        score: bool = False,
    ) -> Generation:
        size = self.base.model.get_input_embeddings().num_embeddings
        if not prompt or not all(0 <= token < size for token in prompt):
            raise ApiError(400, f"A prompt needs at least one id, each from 0 to {size - 1}.")
        context, room = self.engine.context, self.engine.context - len(prompt)
        if room < (0 if max_tokens == 0 else 1):
            raise ApiError(
                400,
                f"The prompt has {counted(len(prompt), 'token')}; the context of {self.base.name} "
                f"is {counted(context, 'token')}, for prompt and answer together.",
                code="context_length_exceeded",
            )
        return Generation(
            prompt,
            adapter=weights,
            version=version,
            max_tokens=room if max_tokens is None else min(max_tokens, room),
            sampling=OWN_DISTRIBUTION if self._own else request.sampling(),
            seed=None if request.seed is None else request.seed + number,
            stop_ids=frozenset() if request.ignore_eos else self.base.stop_ids,
            stop=request.stops(),
            tokenizer=self.base.tokenizer,
            top=top,
            score_prompt=score,
        )

    def _about(self, version: str) -> dict[str, str]:
        return {
            "version_first": version,
            "version_last": version,
            "tokenizer": self.base.tokenizer_hash,
            "template": self.base.template_hash,
        }

    async def _whole(self, receive: Receive, generations: Sequence[Generation]) -> None:
        """Wait until all have ended.

        Raises:
            ApiError: The engine failed.
        """
        async for _ in self._progress(receive, generations, per_token=False):
            pass

    async def _stream(
        self,
        send: Send,
        receive: Receive,
        request: AnswerRequest,
        writer: AnswerWriter,
        chunks: Callable[[], list[dict[str, Any]]],
        kind: str,
        remember: Callable[[], None] | None = None,
    ) -> None:
        begun = False
        try:
            async for _ in self._progress(receive, writer.generations, per_token=True):
                new_chunks = chunks()
                if not begun:
                    begun = True
                    await send(
                        {
                            "type": "http.response.start",
                            "status": 200,
                            "headers": [
                                (b"content-type", b"text/event-stream"),
                                (b"cache-control", b"no-store"),
                            ],
                        }
                    )
                    if kind.startswith("chat"):
                        new_chunks.insert(0, writer.first_chunk())
                if new_chunks:
                    await _piece(send, b"".join(map(_event, new_chunks)))
        except ApiError as error:
            if not begun:
                raise
            await _piece(send, _event(error.body()))
            await send({"type": "http.response.body", "body": b""})
            return
        if remember is not None:
            remember()
        usage = request.stream_options is not None and request.stream_options.include_usage
        last = _event(writer.last_chunk(kind, usage)) + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": last})

    async def _progress(
        self, receive: Receive, generations: Sequence[Generation], *, per_token: bool
    ) -> AsyncIterator[None]:
        """Generate; yield at the ends, or `per_token`. Answers that a client abandons are
        cancelled."""
        news = asyncio.Event()
        for generation in generations:
            self._watched[generation] = news, per_token
            self.engine.submit(generation)
        self._wake.set()
        gone = asyncio.ensure_future(_until_gone(receive))
        gone.add_done_callback(lambda _: news.set())
        try:
            while True:
                await news.wait()
                news.clear()
                if gone.done():
                    raise _Gone
                for generation in generations:
                    if generation.error is not None:
                        raise _api_error(generation.error)
                yield
                if all(generation.finish_reason is not None for generation in generations):
                    return
        finally:
            gone.cancel()
            for generation in generations:
                self._watched.pop(generation, None)
                if generation.finish_reason is None:
                    generation.cancelled = True

    async def _drive(self) -> None:
        """Take steps while there is work."""
        slow = False
        while True:
            if self.engine.idle:
                self._wake.clear()
                await self._wake.wait()
            begun = time.perf_counter()
            async with self._between_steps:
                if slow:
                    await asyncio.to_thread(self.engine.step)
                else:
                    self.engine.step()
            slow = time.perf_counter() - begun > SLOW_STEP_S
            for generation, (news, per_token) in self._watched.items():
                if generation.ended or (per_token and generation.response):
                    news.set()
            await asyncio.sleep(0)


class _Gone(Exception):
    """The client has closed the connection."""


def _api_error(error: Exception) -> ApiError:
    if isinstance(error, ModelUnavailable):
        return ApiError(503, str(error), code="model_unavailable")
    if isinstance(error, MemoryError | RuntimeError) and "memory" in str(error).lower():
        return ApiError(503, f"There is not enough memory: {error}", code="out_of_memory")
    _log.error("a step of the engine failed", exc_info=error)
    return ApiError(500, f"The engine failed on this request: {type(error).__name__}.")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive, kind: type[RequestT]) -> RequestT:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise ApiError(413, f"The request is longer than {MAX_BODY} bytes.")
        if not message.get("more_body"):
            break
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The request is malformed: {error}.") from None


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    content = msgspec.json.encode(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        *([(b"retry-after", b"1")] if status == 429 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _piece(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
