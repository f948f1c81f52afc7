"""The simulator as an HTTP server: OpenAI's chat completions in front of two simulated models.

Its answers depend on the seed and on what is asked, never on when. A base URL may carry a seed and
a label: `/seed/7/label/apo/v1` answers with seed 7 and counts its calls under `apo`, so that one
server serves many measurements at once.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from tests.simulator import author, coach, grader, judge, task_model
from tests.simulator.luck import draw

MODELS = (task_model.MODEL, coach.MODEL, grader.MODEL, author.MODEL, *judge.MODELS)
SERVER = "ratchet-simulator (no real model)"
_PATH = re.compile(r"^(?:/seed/(?P<seed>[^/]+))?(?:/label/(?P<label>[^/]+))?/v1/(?P<what>.+?)/?$")
_LOGGED = 5_000
_ADMIN = "/admin/"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Settings(NamedTuple):
    """How the simulator behaves."""

    seed: str = "0"
    latency_ms: float = 0.0
    """How long the task model takes for an answer."""
    coach_latency_ms: float | None = None
    """How long the coach takes; as long as the task model when left out."""
    jitter: float = 0.0
    """Share by which the latency varies, seeded."""
    noise: float = 1.0
    """Factor of how often the task model's attention lapses."""
    error_rate: float = 0.0
    """Share of requests that are answered by 429, 500 or 503 instead."""
    key: str = ""
    """The key that callers must have; any, when empty."""


class _Refused(Exception):
    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Counts:
    """What was asked under one label of one model."""

    def __init__(self) -> None:
        self.calls = 0
        self.conversations = 0
        self.errors = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.in_flight = 0
        self.most_in_flight = 0

    def builtins(self) -> dict[str, int]:
        return dict(vars(self))


class Simulator:
    """The ASGI application.

    Args:
        settings: How it behaves.
        say: Called with each line of its log.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self._say = say
        self._counts: dict[tuple[str, str], Counts] = defaultdict(Counts)
        self._log: deque[dict[str, Any]] = deque(maxlen=_LOGGED)
        self._turns: Counter[tuple[str, str]] = Counter()
        self._number = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        try:
            if path.startswith(_ADMIN):
                return await _send(send, 200, self._admin(method, path, scope["query_string"]))
            found = _PATH.match(path)
            if found is None:
                raise _Refused(404, f"The simulator has nothing at {path}.")
            self._admit(scope)
            if found["what"] == "models":
                return await _send(send, 200, _models())
            if found["what"] != "chat/completions" or method != "POST":
                raise _Refused(404, f"The simulator has no {method} {path}.")
            body = _parsed(await _body(receive))
            seed = found["seed"] or self.settings.seed
            await self._complete(body, seed, found["label"] or "", send)
        except _Refused as refused:
            error = {"message": str(refused), "type": refused.kind, "code": None, "param": None}
            headers = [(b"retry-after", b"0")] if refused.status == 429 else []
            await _send(send, refused.status, {"error": error}, headers)

    def counters(self) -> dict[str, Any]:
        """Counts by label, then by model."""
        labels: dict[str, dict[str, Any]] = {}
        for (label, model), counts in self._counts.items():
            labels.setdefault(label, {})[model] = counts.builtins()
        return labels

    def _admin(self, method: str, path: str, query: bytes) -> Any:
        what = path.removeprefix(_ADMIN).strip("/")
        if what == "counters" and method == "DELETE":
            self._counts.clear()
            self._log.clear()
            self._turns.clear()
            return {}
        if what == "counters":
            return {"server": SERVER, "labels": self.counters()}
        if what == "log":
            return {"server": SERVER, "requests": list(self._log)}
        if what == "settings" and method == "GET":
            shown = self.settings._replace(key="set" if self.settings.key else "")
            return {"server": SERVER, **shown._asdict()}
        raise _Refused(404, f"The simulator has no {method} {path}.")

    def _admit(self, scope: Scope) -> None:
        if not self.settings.key:
            return
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        if given != f"Bearer {self.settings.key}":
            raise _Refused(401, "Incorrect API key provided.", "authentication_error")

    async def _complete(self, body: Mapping[str, Any], seed: str, label: str, send: Send) -> None:
        model, messages = _checked(body)
        content = json.dumps([messages, body.get("temperature"), body.get("seed")])
        counts = self._counts[label, model]
        first = not any(m["role"] in ("assistant", "tool") for m in messages)
        # A judge's requests differ by their random marks, so all of them count as one content.
        about = model if model in judge.MODELS else content
        varies = model == coach.MODEL or model in judge.MODELS
        turn = self._turns[seed, about] if varies else 0
        if varies and body.get("temperature") != 0:
            self._turns[seed, about] += 1
        counts.calls += 1
        counts.conversations += first
        counts.in_flight += 1
        counts.most_in_flight = max(counts.most_in_flight, counts.in_flight)
        began = time.perf_counter()
        self._number += 1
        number, status = self._number, 200
        try:
            due = began + self._latency(model, seed, content)
            choices = [
                self._choice(
                    body, model, messages, f"{seed}/{index}" if index else seed, turn, index
                )
                for index in range(int(body.get("n") or 1))
            ]
            # Thinking is a part of the latency, as with a model behind an endpoint.
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if (kind := draw(seed, "error", number)) < self.settings.error_rate:
                status = (429, 500, 503)[int(kind * 1e6) % 3]
                counts.errors += 1
                raise _Refused(
                    status, "The simulator was told to fail now and then.", "server_error"
                )
            usage = _usage(body, choices)
            counts.input_tokens += usage["prompt_tokens"]
            counts.output_tokens += usage["completion_tokens"]
        finally:
            counts.in_flight -= 1
            took = time.perf_counter() - began
            self._logged(number, model, label, seed, len(messages), status, took)
        whole = {
            "id": f"simulated-{int(draw(seed, content, turn) * 1e15):x}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": "simulator",
            "choices": choices,
            "usage": usage,
        }
        if body.get("stream"):
            return await _stream(send, whole, body.get("stream_options") or {})
        await _send(send, 200, whole)

    def _choice(
        self,
        body: Mapping[str, Any],
        model: str,
        messages: list[Mapping[str, Any]],
        seed: str,
        turn: int,
        index: int,
    ) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        finish = "stop"
        if model == coach.MODEL:
            form = body.get("response_format")
            said["content"] = coach.answer(messages, form, seed=seed, turn=(turn, index))
            limit = body.get("max_completion_tokens") or body.get("max_tokens")
            if limit and _tokens(said["content"]) > limit:
                said["content"], finish = said["content"][: int(limit) * 4], "length"
        elif model == grader.MODEL:
            said["content"] = grader.answer(messages)
        elif model in judge.MODELS:
            said["content"] = judge.answer(messages, model, (seed, turn))
        elif model == author.MODEL:
            said["content"] = author.answer(messages, seed=seed)
        else:
            found = task_model.answer(
                messages,
                () if body.get("tool_choice") == "none" else body.get("tools") or (),
                seed=(seed, body.get("seed")),
                noise=self.settings.noise,
                must_call=body.get("tool_choice") not in (None, "auto", "none"),
            )
            said["content"] = found.text or None
            if found.calls:
                finish = "tool_calls"
                said["tool_calls"] = [
                    {
                        "id": f"call_{int(draw(seed, name, json.dumps(arguments)) * 1e12):x}",
                        "type": "function",
                        "function": {"name": name, "arguments": json.dumps(arguments)},
                    }
                    for name, arguments in found.calls
                ]
        return {"index": index, "message": said, "finish_reason": finish, "logprobs": None}

    def _latency(self, model: str, seed: str, content: str) -> float:
        if model == grader.MODEL or model in judge.MODELS:
            return 0.0
        own = self.settings.coach_latency_ms if model == coach.MODEL else None
        latency = self.settings.latency_ms if own is None else own
        swing = self.settings.jitter * (2 * draw(seed, "latency", content) - 1)
        return latency * (1 + swing) / 1000

    def _logged(
        self, number: int, model: str, label: str, seed: str, turn: int, status: int, took: float
    ) -> None:
        self._log.append(
            {
                "number": number,
                "model": model,
                "label": label,
                "seed": seed,
                "messages": turn,
                "status": status,
                "seconds": round(took, 6),
            }
        )
        if self._say:
            where = f" [{label}]" if label else ""
            self._say(f"simulator: {model}{where} {status}, {turn} messages, {took * 1000:.1f} ms")


def _parsed(raw: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        raise _Refused(400, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise _Refused(400, "The body is not a JSON object.")
    return body


def _checked(body: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    model, messages = body.get("model"), body.get("messages")
    # Prefixes as litellm's and gateways' are no part of the name.
    model = str(model).rsplit("/", 1)[-1]
    if model not in MODELS:
        raise _Refused(404, f"The model {model!r} does not exist: this is a simulator.")
    if not isinstance(messages, list) or not messages:
        raise _Refused(400, "messages must be a list with at least one message.")
    if not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
        raise _Refused(400, "Each message must be an object with a role.")
    return model, messages


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def _usage(body: Mapping[str, Any], choices: list[dict[str, Any]]) -> dict[str, Any]:
    asked = _tokens(json.dumps([body.get("messages"), body.get("tools")]))
    said = sum(_tokens(json.dumps(choice["message"])) for choice in choices)
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _models() -> dict[str, Any]:
    data = [{"id": n, "object": "model", "created": 0, "owned_by": "simulator"} for n in MODELS]
    return {"object": "list", "data": data}


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(499, "The caller left.")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _send(
    send: Send, status: int, value: Any, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    raw = json.dumps(value).encode()
    common = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(raw)).encode()),
        (b"server", SERVER.encode()),
    ]
    head = {"type": "http.response.start", "status": status, "headers": [*common, *(headers or [])]}
    await send(head)
    await send({"type": "http.response.body", "body": raw})


async def _stream(send: Send, whole: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"server", SERVER.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in _chunks(whole, bool(options.get("include_usage"))):
        line = f"data: {json.dumps(chunk)}\n\n".encode()
        await send({"type": "http.response.body", "body": line, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _chunks(whole: Mapping[str, Any], with_usage: bool) -> AsyncIterator[dict[str, Any]]:
    common = {k: whole[k] for k in ("id", "created", "model", "system_fingerprint")}
    common["object"] = "chat.completion.chunk"

    def chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**common, "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    for choice in whole["choices"]:
        index, said = choice["index"], choice["message"]
        yield chunk(index, {"role": "assistant", "content": ""})
        for number, call in enumerate(said.get("tool_calls") or []):
            yield chunk(index, {"tool_calls": [{"index": number, **call}]})
        for piece in re.findall(r"(?s).{1,24}", said["content"] or ""):
            yield chunk(index, {"content": piece})
        yield chunk(index, {}, choice["finish_reason"])
    if with_usage:
        yield {**common, "choices": [], "usage": whole["usage"]}


def to_stderr(line: str) -> None:
    """Write a line of the log."""
    print(line, file=sys.stderr, flush=True)
