"""Credentials of requests: a token from the environment, or a GitHub App's private key."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from ratchet.ship.forges.http import ForgeHttp
from ratchet.types import ConfigError

_APP_TOKEN_S = 540
"""Seconds that an app's own token is valid; GitHub allows ten minutes."""
_TOKEN_BEGINNINGS = ("ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat")
_CLOCK_S = 60
"""Tolerated clock difference, in seconds."""


class EnvironmentToken:
    """A token from an environment variable.

    Args:
        variable: Its name.
        scheme: The header that carries it: `bearer` for GitHub, `private` for GitLab.
        environ: The environment.

    Raises:
        ConfigError: The variable is not set, is a token itself, or has a value that cannot be one.
    """

    def __init__(self, variable: str, scheme: str, environ: Mapping[str, str]) -> None:
        if variable.startswith(_TOKEN_BEGINNINGS):
            raise ConfigError(
                "token_env under [ship] holds a token itself.",
                hint="Set it to the name of an environment variable, and put the token into that "
                "variable. Revoke this token if others can read the file.",
            )
        self.origin = variable
        self._scheme = scheme
        self._token = environ.get(variable, "").strip()
        if not self._token:
            raise ConfigError(
                f"There is no token for pull requests: {variable} is not set.",
                hint="Set it to a token that may open pull requests, or name another variable as"
                " token_env under [ship].",
            )
        if not self._token.isascii() or any(c.isspace() for c in self._token):
            raise ConfigError(f"The value of {variable} is not a token.")

    def headers(self) -> Mapping[str, str]:
        """See `Credentials.headers`."""
        if self._scheme == "private":
            return {"private-token": self._token}
        return {"authorization": f"Bearer {self._token}"}

    def renewed(self) -> bool:
        """See `Credentials.renewed`: what the environment holds does not change."""
        return False

    def __repr__(self) -> str:
        return f"<token of {self.origin}>"


class _Installation(msgspec.Struct):
    id: int


class _InstallationToken(msgspec.Struct):
    token: str


class GitHubApp:
    """The installation of a GitHub App on a repository; its tokens are valid for an hour.

    Args:
        app_id: The app's id, or its client id.
        key_file: Its private key, a PEM file.
        repository: OWNER/NAME.
        make_http: Makes the API's client from credentials.
        clock: Unix seconds.

    Raises:
        ConfigError: The key cannot be read, or the extra is not installed.
    """

    def __init__(
        self,
        app_id: str,
        key_file: Path,
        repository: str,
        make_http: Callable[[_AppKey], ForgeHttp],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.origin = f"the GitHub App {app_id}"
        self._repository = repository
        self._http = make_http(_AppKey(app_id, key_file, clock))
        self._token = ""

    def headers(self) -> Mapping[str, str]:
        """See `Credentials.headers`."""
        if not self._token:
            owner, _, name = self._repository.partition("/")
            path = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}/installation"
            installation = self._http.get(path, _Installation)
            issued = self._http.send(
                "POST",
                f"/app/installations/{installation.id}/access_tokens",
                {
                    "repositories": [name],
                    "permissions": {"contents": "read", "pull_requests": "write"},
                },
                _InstallationToken,
                repeat=True,
            )
            self._token = issued.token
        return {"authorization": f"Bearer {self._token}"}

    def renewed(self) -> bool:
        """See `Credentials.renewed`."""
        had, self._token = self._token, ""
        return bool(had)

    def __repr__(self) -> str:
        return f"<{self.origin}>"


class _AppKey:
    """A GitHub App itself, which may only ask for tokens of its installations."""

    def __init__(self, app_id: str, key_file: Path, clock: Callable[[], float]) -> None:
        self.origin = f"the GitHub App {app_id}"
        self._app_id = app_id
        self._clock = clock
        try:
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise ConfigError(
                "Signing with a GitHub App's key needs the package cryptography.",
                hint="pip install 'agent-ratchet[github]'",
            ) from None
        try:
            key = load_pem_private_key(key_file.read_bytes(), password=None)
        except OSError as error:
            raise ConfigError(
                f"The private key of {self.origin} cannot be read: {key_file}: {error.strerror}.",
                hint="Set app_key under [ship] to the PEM file that GitHub gave you.",
            ) from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, RSAPrivateKey):
            raise ConfigError(
                f"{key_file} is not the private key of a GitHub App.",
                hint="Set app_key under [ship] to the PEM file that GitHub gave you.",
            )
        self._key = key

    def headers(self) -> Mapping[str, str]:
        """See `Credentials.headers`: a JSON Web Token signed with RS256 (RFC 7519, RFC 7518)."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        now = int(self._clock())
        claims = {"iat": now - _CLOCK_S, "exp": now + _APP_TOKEN_S, "iss": self._app_id}
        parts = [_encoded(msgspec.json.encode({"alg": "RS256", "typ": "JWT"}))]
        parts.append(_encoded(msgspec.json.encode(claims)))
        signature = self._key.sign(b".".join(parts), PKCS1v15(), SHA256())
        token = b".".join([*parts, _encoded(signature)]).decode()
        return {"authorization": f"Bearer {token}"}

    def renewed(self) -> bool:
        """See `Credentials.renewed`: a refused key stays refused."""
        return False


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
