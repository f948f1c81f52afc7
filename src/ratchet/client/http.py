"""HTTP layer shared by both clients: httpx2 arguments, response limits and errors."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet._version import __version__
from ratchet.client.address import ClientKey, ServerAddress, address_of, key_of
from ratchet.client.call import ApiRequest, ApiResponse
from ratchet.client.failures import RequestRefused, ServerUnreachable, refusal
from ratchet.types import StoreError
from ratchet.types.wording import size_text

MAX_ANSWER_BYTES = 512 * 1024 * 1024
"""Largest response body."""

CONNECT_TIMEOUT_S = 10.0


def without_certificates() -> ssl.SSLContext:
    """For clients of plain HTTP: trusts nobody, and skips reading certificates, which takes 25
    ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class UnreadableResponse(Exception):
    """A response that is abandoned before its end; the message is the reason."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Address, key and timeout of a server."""

    address: ServerAddress
    key: ClientKey | None
    timeout_s: float
    """Timeout of a response, in addition to the time the server was asked to wait."""

    def options(self) -> dict[str, Any]:
        """Arguments of httpx2's clients."""
        from ratchet._http import httpx2

        headers = {"user-agent": f"ratchet/{__version__}", "accept": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.secret}"
        loopback = self.address.loopback
        verify: ssl.SSLContext | bool = True
        if self.address.url.startswith("http:"):
            verify = without_certificates()
        elif loopback:
            verify = httpx2.create_ssl_context()  # which reads SSL_CERT_FILE
        return {
            "headers": headers,
            "verify": verify,
            # A proxy from the environment cannot reach this machine's loopback.
            "trust_env": not loopback,
            "limits": httpx2.Limits(max_connections=256, max_keepalive_connections=64),
        }

    def arguments(self, request: ApiRequest) -> dict[str, Any]:
        """Arguments of httpx2's `build_request`."""
        from ratchet._http import httpx2

        headers = dict(request.headers)
        if request.body:
            headers["content-type"] = "application/json"
        timeout_s = self.timeout_s + request.waits_s
        return {
            "method": request.method,
            "url": self.address.url + request.path,
            "content": request.body or None,
            "headers": headers,
            "timeout": httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
        }

    def result(
        self, request: ApiRequest, status: int, headers: Mapping[str, str], body: bytes
    ) -> ApiResponse | RequestRefused:
        """Convert an HTTP response."""
        if 200 <= status < 300 or status == 304:
            return ApiResponse(status=status, headers=headers, body=body, place=self.address.url)
        return self.refused(request, status, headers, body)

    def refused(
        self, request: ApiRequest, status: int, headers: Mapping[str, str], body: bytes
    ) -> RequestRefused:
        """Convert an HTTP error response."""
        return refusal(
            status,
            headers,
            body,
            place=self.address.url,
            request=f"{request.method} {request.path.partition('?')[0]}",
            key=self.key.origin if self.key else "",
        )

    def unreached(self, error: Exception) -> ServerUnreachable:
        """Convert an exception of a request without a response."""
        from ratchet._http import httpx2

        place = self.address.url
        if isinstance(error, UnreadableResponse):
            return ServerUnreachable(reason=str(error), place=place)
        certificate = _certificate(error)
        if certificate:
            reason = f"its certificate is not trusted ({certificate})"
        elif isinstance(error, httpx2.ConnectTimeout):
            reason = "it accepted no connection in time"
        elif isinstance(error, httpx2.TimeoutException):
            reason = f"no response within {self.timeout_s:g} s"
        else:
            # Some have no message; httpx2's messages contain no headers.
            reason = str(error).strip().rstrip(".") or type(error).__name__
        return ServerUnreachable(reason=reason, place=place, final=bool(certificate))


class ResponseBody:
    """The body of a response as it arrives, limited in size and time."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes, now: float) -> None:
        """Append received bytes.

        Raises:
            UnreadableResponse: The body is too large, or takes too long.
        """
        self._parts.append(part)
        self._size += len(part)
        if self._size > MAX_ANSWER_BYTES:
            raise UnreadableResponse(f"its response is larger than {size_text(MAX_ANSWER_BYTES)}")
        if now > self._deadline:
            raise UnreadableResponse("its response arrives too slowly")

    def body(self) -> bytes:
        """The whole body."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class BaseClient:
    """Base of both clients: settings of the server and of retries."""

    def __init__(
        self, url: str | None, key: str | ClientKey | None, patience_s: float, timeout_s: float
    ) -> None:
        self._server = ServerSettings(address=address_of(url), key=key_of(key), timeout_s=timeout_s)
        self._patience_s = patience_s
        self._closed = False

    @property
    def url(self) -> str:
        """The server's address."""
        return self._server.address.url

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"The client of {self.url} is closed.", hint="Create a new one.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"


@functools.cache
def transport_errors() -> tuple[type[Exception], ...]:
    """Exceptions of a request that received no complete response."""
    from ratchet._http import httpx2

    return (httpx2.RequestError, UnreadableResponse)


def _certificate(error: BaseException | None) -> str:
    """Reason why the server's certificate is not trusted; empty for any other error."""
    for _ in range(10):
        if error is None:
            return ""
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return ""
