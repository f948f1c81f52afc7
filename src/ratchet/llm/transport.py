"""Chat transport: sends requests to an OpenAI-compatible endpoint."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, Protocol

import msgspec

from ratchet.llm.endpoint import Endpoint
from ratchet.llm.failures import RequestFailed, of_status, quote, without_key

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of one response, in bytes."""

MAX_PACKED_BYTES = 512 * 1024
"""Maximum size of a compressed response, in bytes; it may expand a thousandfold."""


class ChatTransport(Protocol):
    """Sends requests to one endpoint."""

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """Send a chat completion request; return the response body.

        Args:
            body: Request body of OpenAI's API.
            timeout_s: Seconds for the whole request; the caller enforces it too.

        Raises:
            RequestFailed: There is no response, or it has an error status.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class OpenAITransport:
    """Sends requests with the `openai` library, without its retries.

    Args:
        endpoint: Target of the requests.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self._endpoint = endpoint
        self._http = _http_of(DefaultAsyncHttpxClient)
        self._client = AsyncOpenAI(
            api_key=endpoint.key,
            base_url=endpoint.base_url,
            organization=None,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(
                # Certificates take 25 ms to read, and plain HTTP needs none.
                verify=not endpoint.base_url.startswith("http:")
                or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                follow_redirects=False,  # a redirect must not receive the key
                event_hooks={"response": [_bound]},
            ),
        )

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """See `ChatTransport.send`."""
        import openai

        try:
            answer = await self._client.post(
                "/chat/completions",
                body=dict(body),
                cast_to=self._http.Response,
                options={"timeout": timeout_s},
            )
        except AnswerTooLong:
            raise too_long(self._endpoint) from None
        except openai.APIStatusError as error:
            raise _of_status_error(self._endpoint, error) from None
        except openai.APITimeoutError:
            raise timed_out(self._endpoint, timeout_s) from None
        except openai.APIConnectionError as error:
            raise _of_connection(self._endpoint, error) from None
        except openai.OpenAIError as error:
            raise RequestFailed(
                f"{self._endpoint.model!r} at {self._endpoint.shown} cannot be called:"
                f" {quote(self._endpoint, error)}",
                "never",
            ) from None
        content: bytes = answer.content
        # If the server repeats the key, it must not reach prompts, the journal or traces.
        text = content.decode("utf-8", "replace")
        return without_key(self._endpoint.key, text).encode()

    async def close(self) -> None:
        """See `ChatTransport.close`."""
        await self._client.close()


class AnswerTooLong(Exception):
    """A response exceeds the size limit."""


def timed_out(endpoint: Endpoint, seconds: float) -> RequestFailed:
    """Failure: no answer within the timeout."""
    return RequestFailed(
        f"{endpoint.model!r} at {endpoint.shown} gave no answer in {seconds:.0f} s.",
        "again",
        hint="Raise timeout_s under [coach], or use a faster model.",
        kind="timeout",
    )


def too_long(endpoint: Endpoint) -> RequestFailed:
    """Failure: the response exceeds the size limit."""
    return RequestFailed(
        f"{endpoint.model!r} at {endpoint.shown} sent more than {MAX_BYTES // 2**20} MiB for one"
        " answer.",
        "again",
        kind="endless",
    )


def _http_of(client: type) -> Any:
    """Return the HTTP library of this version of `openai`: httpx2, or httpx in older versions."""
    roots = {kind.__module__.partition(".")[0] for kind in client.__mro__}
    return import_module("httpx2" if "httpx2" in roots else "httpx")


def _of_status_error(endpoint: Endpoint, error: Any) -> RequestFailed:
    try:
        text = error.response.text
    except Exception:  # the body was not read, or its encoding is unknown
        text = ""
    message = ""
    try:
        body = msgspec.json.decode(text.encode())
        inner = body.get("error", body) if isinstance(body, dict) else {}
        message = inner.get("message", "") if isinstance(inner, dict) else str(inner)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    headers = {name.lower(): value for name, value in error.response.headers.items()}
    message = message if isinstance(message, str) else ""
    return of_status(endpoint, error.status_code, headers, text, message, time.time())


def _of_connection(endpoint: Endpoint, error: Exception) -> RequestFailed:
    cause: BaseException | None = error
    why: list[str] = []
    while cause is not None and len(why) < 6:
        if isinstance(cause, AnswerTooLong):
            return too_long(endpoint)
        why.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    deepest = quote(endpoint, next((text for text in reversed(why) if text), "no reason is given"))
    return RequestFailed(
        f"{endpoint.shown} cannot be reached, or closed the connection: {deepest}.",
        "again",
        hint="Check base_url under [coach], and that the server is running.",
        kind="connection",
    )


async def _bound(response: Any) -> None:
    """Limit the size of a response body."""
    packed = response.headers.get("content-encoding", "identity").strip().lower() != "identity"
    response.stream = _bounded(response.stream, MAX_PACKED_BYTES if packed else MAX_BYTES)


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
