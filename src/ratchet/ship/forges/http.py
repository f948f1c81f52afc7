"""Requests to a forge's REST API: bounded in time and size, and retried if that is safe."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from ratchet._version import __version__
from ratchet.client.http import ResponseBody, transport_errors, without_certificates
from ratchet.llm.backoff import delay, requested_delay
from ratchet.types import ForgeUnavailable, ShipError

T = TypeVar("T")

MAX_TRIES = 4
"""Maximum number of times that a repeatable request is sent."""

OUTAGE_S = 60.0
"""Seconds to wait before another try if the forge does not say how long."""

MAX_RETRY_WAIT_S = 5.0
"""Longest wait, in seconds, before a request is repeated here instead of by the caller."""

_CONNECT_S = 10.0
_MOST_DETAIL = 500
_jitter = random.Random()  # noqa: S311


class Credentials(Protocol):
    """The credentials of a request."""

    origin: str
    """Where they come from, for messages: the name of a variable or a file."""

    def headers(self) -> Mapping[str, str]:
        """Headers of a request."""
        ...

    def renewed(self) -> bool:
        """Renew the credentials after the forge refused them; False if that is impossible."""
        ...


class ForgeRefused(ShipError):
    """The forge refused a request; sending it again would not help.

    Args:
        message: As for `RatchetError`.
        status: HTTP status.
        details: What the forge said.
        hint: As for `RatchetError`.
    """

    def __init__(
        self, message: str, *, status: int, details: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.details = details

    def says(self, *words: str) -> bool:
        """Whether one of the details contains all of these words, in any case."""
        return any(all(word in text.lower() for word in words) for text in self.details)


@dataclass(frozen=True, kw_only=True)
class ForgeHttp:
    """The REST API of one repository's forge."""

    forge: str
    """Its name, for messages."""
    api_url: str
    repository: str
    """For messages."""
    credentials: Credentials
    needs: str
    """The permissions that the credentials need, for messages."""
    timeout_s: float = 30.0
    """Timeout of a request, in seconds."""
    accept: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Additional headers of every request."""

    def get(self, path: str, into: type[T]) -> T:
        """Send a GET request and return the response, decoded as that type."""
        return self.send("GET", path, None, into)

    def send(
        self, method: str, path: str, body: Any, into: type[T], *, repeat: bool | None = None
    ) -> T:
        """Send a request and return the decoded response.

        Args:
            method: HTTP method.
            path: Path and query, after the API's address.
            body: Plain data; None for no body.
            into: Type of the response; `object` for one that is not read.
            repeat: Whether it may be sent twice; by default all but POST may.

        Raises:
            ForgeUnavailable: No response, or one that asks to wait.
            ForgeRefused: Any other response that is not a success.
            ShipError: A success of another form.
        """
        repeat = method != "POST" if repeat is None else repeat
        tries = 0
        renewed = False
        while True:
            tries += 1
            try:
                return self._decoded(method, path, self._once(method, path, body), into)
            except ForgeRefused as error:
                if error.status != 401 or renewed or not self.credentials.renewed():
                    raise
                renewed = True
            except ForgeUnavailable as error:
                wait_s = error.retry_at - time.time()
                outage = isinstance(error, _Outage)
                if not repeat or tries == MAX_TRIES or (not outage and wait_s > MAX_RETRY_WAIT_S):
                    raise
                self.wait(delay(tries, None if outage else wait_s, _jitter))

    def wait(self, seconds: float) -> None:
        """Pause before a request is sent again."""
        time.sleep(seconds)

    def _once(self, method: str, path: str, body: Any) -> bytes:
        from ratchet._http import httpx2

        headers = {
            "user-agent": f"ratchet/{__version__}",
            "accept": self.accept,
            **self.headers,
            **self.credentials.headers(),
        }
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["content-type"] = "application/json"
        verify: ssl.SSLContext | bool = True
        if self.api_url.startswith("http:"):
            verify = without_certificates()
        timeout = httpx2.Timeout(self.timeout_s, connect=min(_CONNECT_S, self.timeout_s))
        arriving = ResponseBody(time.monotonic() + self.timeout_s)
        try:
            with (
                httpx2.Client(verify=verify, timeout=timeout, trust_env=verify is True) as http,
                http.stream(method, self.api_url + path, content=content, headers=headers) as reply,
            ):
                for part in reply.iter_bytes():
                    arriving.add(part, time.monotonic())
                status, fields = reply.status_code, dict(reply.headers)
        except transport_errors() as error:
            why = str(error).strip().rstrip(".") or type(error).__name__
            raise self._outage(f"cannot be reached: {why}") from None
        if not 200 <= status < 300:
            raise self._error(method, path, status, fields, arriving.body())
        return arriving.body()

    def _decoded(self, method: str, path: str, body: bytes, into: type[T]) -> T:
        try:
            return msgspec.json.decode(body or b"null", type=into)
        except msgspec.ValidationError as error:
            raise ShipError(
                f"{self.forge} answered {method} {path.partition('?')[0]} with an unexpected "
                f"response: {error}.",
                hint=f"If {self.api_url} is not its REST API, set api_url under [ship].",
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._outage("sent a response that is not JSON") from None

    def _outage(self, what: str) -> _Outage:
        return _Outage(
            f"{self.forge} at {urlsplit(self.api_url).netloc} {what}.",
            retry_at=time.time() + OUTAGE_S,
            hint="Nothing is lost. Run the same command again later to continue.",
        )

    def _error(
        self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> ShipError:
        details = tuple(self._without_token(text) for text in details_of(body))
        detail = f" ({'; '.join(details)})" if details else ""
        waits = self._waits(status, headers, details)
        if waits is not None:
            return ForgeUnavailable(
                f"{self.forge} received too many requests, and asks for a wait of {waits:.0f} s.",
                retry_at=time.time() + waits,
                hint="Nothing is lost. Run the same command again after that to continue.",
            )
        if status >= 500 or status == 408:
            return self._outage(f"fails with HTTP status {status}")
        hint: str | None = None
        origin, again = self.credentials.origin, "then run the same command again"
        if status == 401:
            message = f"{self.forge} refuses the token from {origin}{detail}."
            hint = f"The token is wrong, expired or revoked: renew it, {again}."
        elif status == 403:
            message = f"The token from {origin} may not do this in {self.repository}{detail}."
            hint = f"The token needs {self.needs}: grant that, {again}."
        elif status == 404:
            message = (
                f"{self.forge} cannot find {path.partition('?')[0]}, or the token from "
                f"{origin} may not see it{detail}."
            )
            hint = f"Check the remote's address, and that the token has {self.needs}."
        elif 300 <= status < 400:
            message = f"{self.forge} says that {self.repository} has moved."
            hint = "Set the remote to its new address: git remote set-url."
        else:
            endpoint = path.partition("?")[0]
            message = f"{self.forge} refused {method} {endpoint} with HTTP status {status}{detail}."
        return ForgeRefused(message, status=status, details=details, hint=hint)

    def _without_token(self, text: str) -> str:
        for value in self.credentials.headers().values():
            text = text.replace(value.rpartition(" ")[2], "…")
        return text

    def _waits(
        self, status: int, headers: Mapping[str, str], details: tuple[str, ...]
    ) -> float | None:
        """Seconds that the forge asks the client to wait when it limits the request rate."""
        if status not in (403, 429):
            return None
        delay_s = requested_delay(headers, time.time())
        if delay_s is not None:
            return delay_s
        if headers.get("x-ratelimit-remaining") == "0" or status == 429:
            for name in ("x-ratelimit-reset", "ratelimit-reset"):
                reset = headers.get(name, "")
                if reset.isascii() and reset.isdigit() and len(reset) < 15:
                    return max(1.0, int(reset) - time.time())
            return OUTAGE_S
        # GitHub's secondary limits may come without any header; its advice is to wait a minute.
        limited = any("rate limit" in text.lower() for text in details)
        return OUTAGE_S if limited else None


class _Outage(ForgeUnavailable):
    """No usable response was received; the request may be repeated after a short pause."""


def details_of(body: bytes) -> tuple[str, ...]:
    """The messages in an error's body, one line each.

    GitHub sends `message` and a list `errors` of objects or texts; GitLab sends `message` (text,
    list, or lists by field), or `error` and `error_description`.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    if not isinstance(document, dict):
        return ()
    texts: list[str] = []
    for name in ("message", "error", "error_description", "errors"):
        _collect(document.get(name), "", texts)
    return tuple(dict.fromkeys(text[:_MOST_DETAIL] for text in texts if text))


def _collect(value: Any, field: str, texts: list[str]) -> None:
    if isinstance(value, str):
        flat = " ".join("".join(c if c.isprintable() else " " for c in value).split())
        texts.append(f"{field}: {flat}" if field else flat)
    elif isinstance(value, list):
        for item in value[:10]:
            _collect(item, field, texts)
    elif isinstance(value, dict) and {"code", "resource"} <= value.keys():
        name = value.get("field") or value["resource"]
        texts.append(str(value.get("message") or f"{name} is {value['code']}"))
    elif isinstance(value, dict):
        for name, item in list(value.items())[:10]:
            _collect(item, str(name), texts)
