"""Authentication and authorization: identifies the caller and checks the scopes of its key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from ratchet._asgi import Headers
from ratchet.server.http_problems import HttpProblem
from ratchet.server.key_cache import KeyCache
from ratchet.server.limits import Clock, RateLimiter, ServerLimits
from ratchet.server.origin import (
    check_origins,
    granted_headers,
    is_preflight,
    proxy_header,
    refuse_foreign,
)
from ratchet.server.session import check_own_page, cookie_key
from ratchet.store import Store
from ratchet.types import SCOPES, Key, KeyScope

ALL_SCOPES: frozenset[KeyScope] = frozenset(SCOPES)
PUBLIC_SCOPES: frozenset[KeyScope] = frozenset({"feedback"})
LIMITS = ServerLimits()

_KEY = re.compile(rb"rk_[A-Za-z0-9]{40}")
_MAC_BYTES = 24
_MAC_CHARACTERS = 32
_LONGEST_TOKEN = 2000
_HEADERS = frozenset({b"authorization", b"x-api-key", b"api-key"})
_BEARER = b"bearer "


class Caller(msgspec.Struct, frozen=True):
    """The authenticated client of a request."""

    key_id: str = ""
    """Empty for requests without a key."""
    scopes: frozenset[KeyScope] = frozenset()
    attempt: tuple[str, int] | None = None
    """Rollout id and fence, when the request carries an attempt token."""
    address: str = ""
    agent: str = ""
    """The only agent that the key may be used for; empty for any."""

    @property
    def is_public(self) -> bool:
        """Whether the key has only the feedback scope, so that it may be published in a web
        page."""
        return self.scopes == PUBLIC_SCOPES


class ResponseChannel(Protocol):
    """ASGI `send` of one response."""

    granted: Headers
    """CORS headers to add to the response."""

    async def __call__(self, message: Mapping[str, Any]) -> None:
        """Send a message."""


class Gatekeeper:
    """Authenticates and rate-limits requests.

    Args:
        store: Store of the keys.
        open_to_all: Whether requests without a key have every scope; only safe on loopback.
        limits: Limits per key.
        hosts: Host names accepted by an open server, besides those of loopback.
        cors: Origins whose web pages may use the server, such as `https://app.example`.
        clock: Unix seconds.
        ticks: Monotonic clock in seconds.

    Raises:
        ConfigError: An entry of `cors` is not an origin.
        StoreError: The secret that signs attempt tokens cannot be read.
    """

    def __init__(
        self,
        store: Store,
        *,
        open_to_all: bool,
        limits: ServerLimits = LIMITS,
        hosts: Collection[str] = (),
        cors: Collection[str] = (),
        clock: Clock = time.time,
        ticks: Clock = time.monotonic,
    ) -> None:
        self._limiter = RateLimiter(limits, ticks)
        self._open_to_all = open_to_all
        self._hosts = frozenset(host.lower() for host in hosts)
        self._cors = check_origins(cors)
        self._clock = clock
        self._keys = KeyCache(store, clock, ticks)
        secret = store.settings.get_or_create("attempt_secret", lambda: secrets.token_hex(32))
        self._secret = bytes.fromhex(secret)

    async def screen(self, scope: Mapping[str, Any], answer: ResponseChannel) -> str | None:
        """Answer a CORS preflight request; add CORS headers to other responses.

        Args:
            scope: The request's ASGI scope.
            answer: Channel of the response.

        Returns:
            A label for metrics when the request has been answered; else None.
        """
        if not self._cors:
            return None
        method, headers = scope["method"], scope["headers"]
        granted = granted_headers(method, headers, self._cors)
        if is_preflight(method, headers) and len(granted) > 1:
            await answer({"type": "http.response.start", "status": 204, "headers": granted})
            await answer({"type": "http.response.body", "body": b""})
            return "preflight"
        answer.granted = granted
        return None

    async def admit(self, scope: Mapping[str, Any]) -> Caller:
        """Authenticate a request.

        Args:
            scope: The request's ASGI scope.

        Raises:
            HttpProblem: The key is missing, unknown, expired or revoked (401, also where none
                is required); the rate limit is exceeded (429); the request comes from a web page
                of another origin (403); the keys cannot be looked up (503).
        """
        client = scope.get("client")
        address = str(client[0]) if client else ""
        credential = _shown(scope["headers"])
        if credential.startswith(b"rk_"):
            return await self.with_key(credential, scope)
        if credential:
            caller = Caller(attempt=self.attempt(credential), address=address)
            self._limiter.request(_name(caller))
            return caller
        through = proxy_header(scope["headers"])
        if (through or not self._open_to_all) and (cookie := cookie_key(scope["headers"])):
            check_own_page(scope["method"], scope["headers"])
            return await self.with_key(cookie, scope)
        if not self._open_to_all:
            raise _unauthorized("This server requires a key, but the request has none.", error="")
        if through:
            raise _unauthorized(
                f"The request came through a proxy (it has the header {through}), so it may"
                " come from another machine: it needs a key.",
                error="",
            )
        # No rate limit here: programs of this machine cannot be told apart, and one would be
        # limited because of another's requests.
        refuse_foreign(scope["headers"], self._hosts, self._cors)
        return Caller(scopes=ALL_SCOPES, address=address)

    async def with_key(self, secret: bytes, scope: Mapping[str, Any]) -> Caller:
        """The caller with a key, from a header or a cookie.

        Args:
            secret: The key.
            scope: The request's ASGI scope.

        Raises:
            HttpProblem: As `admit`.
        """
        client = scope.get("client")
        address = str(client[0]) if client else ""
        key = await self._key(secret, address)
        caller = Caller(
            key_id=key.id, scopes=frozenset(key.scopes), address=address, agent=key.agent
        )
        if caller.is_public:
            self._limiter.public(key.id, address)
        self._limiter.request(key.id)
        return caller

    def allow(self, caller: Caller, scopes: frozenset[KeyScope]) -> None:
        """Check that a caller has one of the scopes.

        Args:
            caller: The authenticated caller.
            scopes: Any one of these suffices; `admin` always does.

        Raises:
            HttpProblem: It has none (403). An attempt token is always refused here; routes that
                accept one for its own attempt use `check_attempt`.
        """
        if caller.attempt is not None:
            raise HttpProblem(
                403,
                "An attempt's token gives access only to the gateway and the ingest of spans for "
                "that attempt.",
                hint="Use a key.",
            )
        if "admin" in caller.scopes or not scopes.isdisjoint(caller.scopes):
            return
        has = ", ".join(scope for scope in SCOPES if scope in caller.scopes)
        needs = [scope for scope in SCOPES if scope in scopes] or ["admin"]
        raise HttpProblem(
            403,
            f"This needs a key with the scope {' or '.join(needs)}; yours has {has}.",
            hint=f"Create a key: ratchet keys create NAME --scope {needs[-1]}",
            headers={"www-authenticate": f'{_CHALLENGE}, error="insufficient_scope"'},
        )

    def stream(self, caller: Caller) -> AbstractContextManager[None]:
        """Count one of the caller's streams as open while the block runs.

        Raises:
            HttpProblem: The caller has reached its limit of open streams (429).
        """
        return self._limiter.stream(_name(caller))

    def token(self, rollout_id: str, fence: int) -> str:
        """Signed token of an attempt. Every server of the store can verify it without a lookup."""
        subject = f"{rollout_id}@{fence}".encode(errors="surrogatepass")
        digest = hmac.digest(self._secret, subject, hashlib.sha256)[:_MAC_BYTES]
        return f"ra_{_base64(digest)}{_base64(subject)}"

    def attempt(self, token: bytes) -> tuple[str, int]:
        """The attempt of a token: rollout id and fence.

        Raises:
            HttpProblem: It was not issued for this store (401).
        """
        if len(token) <= _LONGEST_TOKEN:
            encoded = token[len(b"ra_") + _MAC_CHARACTERS :]
            try:
                subject = base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
                rollout_id, _, fence = subject.decode(errors="surrogatepass").rpartition("@")
                attempt = rollout_id, int(fence)
            except (binascii.Error, ValueError):
                attempt = None
            # Comparing the whole token rejects other encodings of the same attempt.
            if attempt and hmac.compare_digest(self.token(*attempt).encode(), token):
                return attempt
        raise _unauthorized("The attempt token was not issued by this server.")

    @property
    def open_streams(self) -> int:
        """Open streams of all callers."""
        return self._limiter.open_streams

    async def close(self) -> None:
        """Store the times at which keys were last used."""
        await self._keys.close()

    async def _key(self, secret: bytes, address: str) -> Key:
        key = await self._keys.get(secret, address) if _KEY.fullmatch(secret) else None
        if key is None:
            raise _unauthorized("The key is unknown to this server.")
        if key.revoked_at is not None:
            raise _unauthorized(f"The key {key.name!r} was revoked.")
        if key.expires_at is not None and self._clock() >= key.expires_at:
            raise _unauthorized(f"The key {key.name!r} has expired.")
        return key


def check_attempt(caller: Caller, rollout_id: str, fence: int, attempt_text: str) -> None:
    """Check that an attempt token is used for its own attempt; other callers may use any.

    Args:
        caller: The authenticated caller.
        rollout_id: Rollout of the request, empty for none.
        fence: Attempt of the request.
        attempt_text: The attempt as written in the request, for the message.

    Raises:
        HttpProblem: The token belongs to another attempt (403).
    """
    if caller.attempt is not None and caller.attempt != (rollout_id, fence):
        own, own_fence = caller.attempt
        raise HttpProblem(
            403,
            f"The token of attempt {own_fence} of rollout {own!r} gives no access to"
            f" {attempt_text!r}.",
            hint="Use the base URL that the attempt was given.",
        )


_CHALLENGE = 'Bearer realm="ratchet"'


def _unauthorized(detail: str, error: str = "invalid_token") -> HttpProblem:
    challenge = f'{_CHALLENGE}, error="{error}"' if error else _CHALLENGE
    return HttpProblem(
        401,
        detail,
        hint="Send a key as 'Authorization: Bearer rk_…'; create one with ratchet keys create.",
        headers={"www-authenticate": challenge},
    )


def _shown(headers: Headers) -> bytes:
    """The Ratchet key or token among the headers; empty when there is none."""
    for name, value in headers:
        if name in _HEADERS:
            if name == b"authorization":
                if value[: len(_BEARER)].lower() != _BEARER:
                    continue
                value = value[len(_BEARER) :].strip()
            if value.startswith((b"rk_", b"ra_")):
                return value
    return b""


def _name(caller: Caller) -> str:
    """Identity under which a caller's limits are counted."""
    if caller.key_id:
        return caller.key_id
    return f"attempt {caller.attempt[0]}" if caller.attempt else caller.address


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
