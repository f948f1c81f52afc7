"""Login with an OpenID Connect provider: authorization code with PKCE, state and nonce.

What proves a login is the ID token, checked with the provider's keys by joserfc. Sources: OpenID
Connect Core 1.0, section 3.1; RFC 7636 (PKCE); RFC 9700 (security of OAuth 2.0).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from ratchet.types import SCOPES, ConfigError, KeyScope, RatchetError

if TYPE_CHECKING:
    from ratchet._http import httpx2

CALLBACK = "/v1/login/oidc/callback"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Accepted signature algorithms. Never `none`, and never one based on the client's secret."""

ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
"""Endpoints that every provider has."""

TIMEOUT_S = 10.0
"""Timeout of a whole answer of the provider, in seconds."""

MAX_BYTES = 1 << 20
"""Maximum size of a response of the identity provider, in bytes."""

PROVIDER_TTL_S = 3600.0
"""Seconds for which the provider's configuration and keys are cached."""

UNKNOWN_KEY_INTERVAL_S = 60.0
"""Minimum seconds between rereading the keys because of an unknown key."""

PENDING_S = 600.0
"""Seconds that a person has to log in at the provider."""

LEEWAY_S = 60
"""Tolerated clock difference, in seconds."""


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The provider, and who gets which scopes."""

    issuer: str
    client_id: str
    url: str
    """This server's own address, as browsers see it."""
    secret_env: str = ""
    """Environment variable with the client's secret; empty for a public client."""
    name: str = "single sign-on"
    hours: float = 12.0
    """Duration of a session."""
    groups_claim: str = "groups"
    allow: dict[KeyScope, tuple[str, ...]] = {}
    """By scope: addresses, `@` and a domain, `group:` and a name, or `sub:` and a subject."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person whom the provider vouches for."""

    subject: str
    email: str = ""
    """Empty unless the provider has verified it."""
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name to show to people."""
        return self.email or self.subject

    def scopes(self, allow: Mapping[KeyScope, tuple[str, ...]]) -> tuple[KeyScope, ...]:
        """The scopes granted to the person."""
        mine = {f"sub:{self.subject}", *(f"group:{group}" for group in self.groups)}
        if self.email:
            mine |= {self.email, f"@{self.email.rpartition('@')[2]}"}
        return tuple(scope for scope in SCOPES if mine & {*allow.get(scope, ())})


class LoginRefused(RatchetError):
    """A login that failed; `cause` is one of denied, expired, provider, unknown."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class _Pending(msgspec.Struct, frozen=True):
    """A pending login, which the browser brings back in its cookie."""

    state: str
    nonce: str
    verifier: str
    target: str
    until: float


class OidcLogin:
    """Logs people in at one provider.

    Args:
        settings: The provider.
        environ: Environment with the client's secret.
        signing_key: Signs the cookies of logins that have begun.
        clock: Unix seconds.
        client: Makes the HTTP client; an ordinary one by default.

    Raises:
        ConfigError: The secret is missing, an address is not HTTPS, or a package is missing.
    """

    def __init__(
        self,
        settings: OidcSettings,
        environ: Mapping[str, str],
        *,
        signing_key: bytes,
        clock: Callable[[], float],
        client: Callable[[], httpx2.AsyncClient] | None = None,
    ) -> None:
        try:
            import joserfc  # noqa: F401 - refused now rather than at the first login
        except ImportError:
            raise ConfigError(
                "[server.oidc] needs the package joserfc, which is missing.",
                hint="Install it: pip install 'agent-ratchet[oidc]'.",
            ) from None
        for what in ("issuer", "url"):
            _check_https(getattr(settings, what), f"[server.oidc] {what}")
        self.settings = settings
        self._secret = environ.get(settings.secret_env, "") if settings.secret_env else ""
        if settings.secret_env and not self._secret:
            raise ConfigError(
                f"[server.oidc] secret_env names {settings.secret_env}, which is not set."
            )
        self._signing_key = signing_key
        self._clock = clock
        self._client = client or _client
        self._found: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, Any] | None = None

    @property
    def root_path(self) -> str:
        """Path prefix under which a proxy serves this server; empty for none."""
        return urlsplit(self.settings.url).path.rstrip("/")

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach this server by HTTPS."""
        return self.settings.url.startswith("https:")

    async def begin(self, target: str) -> tuple[str, str]:
        """Begin a login.

        Args:
            target: Path to return to.

        Returns:
            The address at the provider to send the browser to, and the value of its cookie.

        Raises:
            LoginRefused: The provider cannot be asked.
        """
        provider = await self._provider()
        pending = _Pending(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            target=target if _is_own_path(target) else "/",
            until=self._clock() + PENDING_S,
        )
        challenge = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._redirect,
            "scope": "openid email profile",
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _unpadded(challenge),
            "code_challenge_method": "S256",
        }
        endpoint = provider["authorization_endpoint"]
        joined = "&" if urlsplit(endpoint).query else "?"
        return f"{endpoint}{joined}{urlencode(query)}", self._signed(pending)

    async def finish(self, query: Mapping[str, str], cookie: str) -> tuple[Person, str]:
        """Finish a login with the parameters of the provider's redirect.

        Returns:
            Who it is, and the path to return to.

        Raises:
            LoginRefused: It is not proved.
        """
        pending = self._pending(cookie)
        if not hmac.compare_digest(query.get("state", "").encode(), pending.state.encode()):
            raise LoginRefused("expired", "This login did not begin in this browser.")
        if query.get("error"):
            raise LoginRefused(
                "denied", f"The identity provider refused the login: {query['error'][:200]}."
            )
        provider = await self._provider()
        async with self._client() as http:
            tokens = await self._exchanged(http, provider, query.get("code", ""), pending.verifier)
            claims = await self._claims(http, provider, str(tokens.get("id_token", "")), pending)
            if "email" not in claims and provider.get("userinfo_endpoint"):
                claims = await self._with_profile(http, provider, tokens, claims)
        verified = claims.get("email_verified") in (True, "true")
        groups = claims.get(self.settings.groups_claim) or ()
        return (
            Person(
                subject=str(claims["sub"]),
                email=str(claims.get("email", "")).lower() if verified else "",
                groups=tuple(map(str, groups)) if isinstance(groups, list) else (),
            ),
            pending.target,
        )

    # The provider.

    async def _provider(self) -> dict[str, Any]:
        if self._found is not None and self._clock() < self._found[0]:
            return self._found[1]
        issuer = self.settings.issuer.rstrip("/")
        async with self._client() as http:
            provider = await _json(http, "GET", f"{issuer}/.well-known/openid-configuration")
        if str(provider.get("issuer", "")).rstrip("/") != issuer:
            raise LoginRefused("provider", "The provider's issuer differs from the configured one.")
        for name in (*ENDPOINTS, "userinfo_endpoint"):
            if name not in ENDPOINTS and not provider.get(name):
                continue
            try:
                _check_https(str(provider.get(name, "")), name)
            except ConfigError as error:
                raise LoginRefused("provider", error.message) from None
        self._found = self._clock() + PROVIDER_TTL_S, provider
        return provider

    async def _exchanged(
        self, http: httpx2.AsyncClient, provider: Mapping[str, Any], code: str, verifier: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": self.settings.client_id,
            "code_verifier": verifier,
        }
        headers = {}
        ways = provider.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if self._secret and "client_secret_basic" in ways:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif self._secret:
            form["client_secret"] = self._secret
        return await _json(http, "POST", provider["token_endpoint"], data=form, headers=headers)

    async def _claims(
        self, http: httpx2.AsyncClient, provider: Mapping[str, Any], token: str, pending: _Pending
    ) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        for again in (False, True):
            keys: KeySet = await self._key_set(http, provider, again=again)
            try:
                claims = dict(jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims)
            except (JoseError, ValueError) as error:
                if not again:  # the provider may have changed its keys
                    continue
                raise LoginRefused(
                    "provider", f"The provider's token is invalid: {type(error).__name__}."
                ) from None
            self._check(claims, pending)
            return claims
        raise AssertionError

    async def _key_set(
        self, http: httpx2.AsyncClient, provider: Mapping[str, Any], *, again: bool
    ) -> Any:
        from joserfc.jwk import KeySet

        now = self._clock()
        if self._keys is not None:
            age = now - self._keys[0]
            if age < (UNKNOWN_KEY_INTERVAL_S if again else PROVIDER_TTL_S):
                return self._keys[1]
        jwks = await _json(http, "GET", provider["jwks_uri"])
        try:
            keys = KeySet.import_key_set(jwks)  # type: ignore[arg-type]
        except Exception as error:  # whatever it is that the provider sent
            raise LoginRefused(
                "provider", f"The provider's keys cannot be read: {type(error).__name__}."
            ) from None
        self._keys = now, keys
        return keys

    def _check(self, claims: Mapping[str, Any], pending: _Pending) -> None:
        now, own = self._clock(), self.settings.client_id
        audience = claims.get("aud")
        several = audience if isinstance(audience, list) else [audience]
        wrong = (
            "issuer"
            if str(claims.get("iss", "")).rstrip("/") != self.settings.issuer.rstrip("/")
            else "audience"
            if own not in several or (claims.get("azp", own) != own)
            else "nonce"
            if not hmac.compare_digest(
                str(claims.get("nonce", "")).encode(), pending.nonce.encode()
            )
            else "time"
            if not _is_current(claims, now)
            else "subject"
            if not claims.get("sub")
            else ""
        )
        if wrong:
            raise LoginRefused("provider", f"The {wrong} of the provider's token is wrong.")

    async def _with_profile(
        self,
        http: httpx2.AsyncClient,
        provider: Mapping[str, Any],
        tokens: Mapping[str, Any],
        claims: dict[str, Any],
    ) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {tokens.get('access_token', '')}"}
        profile = await _json(http, "GET", str(provider["userinfo_endpoint"]), headers=headers)
        if profile.get("sub") != claims["sub"]:
            raise LoginRefused("provider", "The provider's profile belongs to another person.")
        return {**profile, **claims}

    @property
    def _redirect(self) -> str:
        return self.settings.url.rstrip("/") + CALLBACK

    # The cookie of a login that has begun.

    def _signed(self, pending: _Pending) -> str:
        body = _unpadded(msgspec.json.encode(pending))
        return f"{body}.{self._signature(body)}"

    def _signature(self, body: str) -> str:
        return _unpadded(hmac.digest(self._signing_key, b"oidc:" + body.encode(), "sha256"))

    def _pending(self, cookie: str) -> _Pending:
        body, _, signature = cookie.partition(".")
        if not cookie.isascii() or not hmac.compare_digest(signature, self._signature(body)):
            raise LoginRefused("expired", "This login did not begin in this browser.")
        try:
            padded = body + "=" * (-len(body) % 4)
            pending = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Pending)
        except (binascii.Error, msgspec.MsgspecError):
            raise LoginRefused("expired", "This login did not begin in this browser.") from None
        if self._clock() > pending.until:
            raise LoginRefused("expired", "This login took too long.")
        return pending


async def _json(http: httpx2.AsyncClient, method: str, url: str, **options: Any) -> dict[str, Any]:
    """An answer of the provider, of bounded size.

    Raises:
        LoginRefused: There is none, or it is an error or not an object.
    """
    from ratchet._http import httpx2

    content = b""
    try:
        async with asyncio.timeout(TIMEOUT_S), http.stream(method, url, **options) as answer:
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > MAX_BYTES:
                    raise LoginRefused("provider", "The provider's answer is too long.")
        status = answer.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise LoginRefused(
            "provider", f"The provider cannot be reached: {type(error).__name__}."
        ) from None
    try:
        reply = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        reply = {}
    if status != 200 or not reply:
        cause = "expired" if reply.get("error") == "invalid_grant" else "provider"
        raise LoginRefused(cause, f"The provider answered with {status}.")
    return reply


def _client() -> httpx2.AsyncClient:
    from ratchet._http import httpx2

    return httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)


def _check_https(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ConfigError(f"{what} is {url[:200]!r}; it must begin with https://.")


def _is_current(claims: Mapping[str, Any], now: float) -> bool:
    ends, begins = claims.get("exp"), claims.get("iat", now)
    if not isinstance(ends, int | float) or not isinstance(begins, int | float):
        return False
    return ends > now - LEEWAY_S and begins < now + LEEWAY_S


def _is_own_path(target: str) -> bool:
    """Whether a target is a path on this server, and not another site's address."""
    return (
        target.startswith("/")
        and not target.startswith(("//", "/\\"))
        and target.isprintable()
        and len(target) < 2_000
    )


def _unpadded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
