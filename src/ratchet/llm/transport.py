"""A line to an OpenAI-compatible endpoint: a request goes out, a body or a trouble comes back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, Protocol

import msgspec

from ratchet.llm.endpoint import Endpoint
from ratchet.llm.failures import RequestFailed, of_status, quote, without_key

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of one answer; more is nobody's answer."""

MOST_PACKED = 512 * 1024
"""The same of a compressed one, which may be a thousand times as large."""


class ChatTransport(Protocol):
    """Sends requests to one place."""

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """The body of the answer to a chat completion.

        Args:
            body: The request, as OpenAI's API has it.
            timeout_s: Seconds for all of it; whoever calls also ends it by then.

        Raises:
            Trouble: There is none.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class OpenAITransport:
    """Through the `openai` library; retries are not its business here.

    Args:
        place: Where to.
    """

    def __init__(self, place: Endpoint) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self._place = place
        self._http = _http_of(DefaultAsyncHttpxClient)
        self._client = AsyncOpenAI(
            api_key=place.key,
            base_url=place.base_url,
            organization=None,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False,  # a key is not carried to where somebody points
                event_hooks={"response": [_bound]},
            ),
        )

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """As `ChatTransport.send`."""
        import openai

        try:
            answer = await self._client.post(
                "/chat/completions",
                body=dict(body),
                cast_to=self._http.Response,
                options={"timeout": timeout_s},
            )
        except AnswerTooLong:
            raise too_long(self._place) from None
        except openai.APIStatusError as error:
            raise _of_status_error(self._place, error) from None
        except openai.APITimeoutError:
            raise timed_out(self._place, timeout_s) from None
        except openai.APIConnectionError as error:
            raise _of_connection(self._place, error) from None
        except openai.OpenAIError as error:
            raise RequestFailed(
                f"{self._place.model!r} at {self._place.shown} cannot be asked:"
                f" {quote(self._place, error)}",
                "never",
            ) from None
        content: bytes = answer.content
        # Whatever the server repeats of the key would go on into prompts, journal and traces.
        text = content.decode("utf-8", "replace")
        return without_key(self._place.key, text).encode()

    async def close(self) -> None:
        """As `ChatTransport.close`."""
        await self._client.close()


class AnswerTooLong(Exception):
    """An answer goes on beyond all bounds."""


def timed_out(place: Endpoint, seconds: float) -> RequestFailed:
    """No answer in time."""
    return RequestFailed(
        f"{place.model!r} at {place.shown} gave no answer in {seconds:.0f} s.",
        "again",
        hint="Raise timeout_s under [coach], or ask a faster model.",
        kind="timeout",
    )


def too_long(place: Endpoint) -> RequestFailed:
    """An answer without end."""
    return RequestFailed(
        f"{place.model!r} at {place.shown} sent more than {MOST_BYTES // 2**20} MiB for one"
        " answer.",
        "again",
        kind="endless",
    )


def _http_of(client: type) -> Any:
    """The HTTP library that this version of `openai` is built on: httpx2, or httpx before it."""
    roots = {kind.__module__.partition(".")[0] for kind in client.__mro__}
    return import_module("httpx2" if "httpx2" in roots else "httpx")


def _of_status_error(place: Endpoint, error: Any) -> RequestFailed:
    try:
        text = error.response.text
    except Exception:  # a body that was never read, or is in no known encoding
        text = ""
    said = ""
    try:
        body = msgspec.json.decode(text.encode())
        inner = body.get("error", body) if isinstance(body, dict) else {}
        said = inner.get("message", "") if isinstance(inner, dict) else str(inner)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    headers = {name.lower(): value for name, value in error.response.headers.items()}
    said = said if isinstance(said, str) else ""
    return of_status(place, error.status_code, headers, text, said, time.time())


def _of_connection(place: Endpoint, error: Exception) -> RequestFailed:
    cause: BaseException | None = error
    why: list[str] = []
    while cause is not None and len(why) < 6:
        if isinstance(cause, AnswerTooLong):
            return too_long(place)
        why.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    deepest = quote(place, next((text for text in reversed(why) if text), "no reason is given"))
    return RequestFailed(
        f"{place.shown} cannot be reached, or hung up: {deepest}.",
        "again",
        hint="Check base_url under [coach], and that the server runs.",
        kind="connection",
    )


async def _bound(response: Any) -> None:
    """Let no more of an answer in than anybody could mean."""
    packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
    response.stream = _bounded(response.stream, MOST_PACKED if packed else MOST_BYTES)


def _bounded(stream: Any, most: int) -> Any:
    root = type(stream).__module__.partition(".")[0]
    base: type = import_module(root).AsyncByteStream

    async def pieces(_: Any) -> AsyncIterator[bytes]:
        left = most
        async for piece in stream:
            left -= len(piece)
            if left < 0:
                raise AnswerTooLong
            yield piece

    async def close(_: Any) -> None:
        await stream.aclose()

    return type("Bounded", (base,), {"__aiter__": pieces, "aclose": close})()
