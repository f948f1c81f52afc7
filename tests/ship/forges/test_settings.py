"""Which forge a remote belongs to, and what requests to it are authorised by."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from ratchet.ship.forges.address import remote_address, without_credentials
from ratchet.ship.forges.settings import ForgeSettings, connect, place_of
from ratchet.types import ConfigError


@pytest.mark.parametrize(
    ("url", "repository", "api"),
    [
        ("https://github.com/acme/helper.git", "acme/helper", "https://api.github.com"),
        ("https://github.com/acme/helper", "acme/helper", "https://api.github.com"),
        ("https://ada:hunter2@github.com/acme/helper/", "acme/helper", "https://api.github.com"),
        ("git@github.com:acme/helper.git", "acme/helper", "https://api.github.com"),
        ("github.com:acme/helper", "acme/helper", "https://api.github.com"),
        ("ssh://git@ssh.github.com:443/acme/helper.git", "acme/helper", "https://api.github.com"),
        ("git+ssh://git@GitHub.com/acme/helper.git", "acme/helper", "https://api.github.com"),
        ("https://acme.ghe.com/acme/helper.git", "acme/helper", "https://api.acme.ghe.com"),
        ("git@github.acme.org:a/b.git", "a/b", "https://github.acme.org/api/v3"),
        ("https://github.acme.org:8443/a/b", "a/b", "https://github.acme.org:8443/api/v3"),
        ("ssh://git@github.acme.org:2222/a/b", "a/b", "https://github.acme.org/api/v3"),
        ("git@gitlab.com:a/b/c/d.git", "a/b/c/d", "https://gitlab.com/api/v4"),
        ("ssh://git@altssh.gitlab.com:443/a/b.git", "a/b", "https://gitlab.com/api/v4"),
        ("https://gitlab.acme.org/a/b.c.git", "a/b.c", "https://gitlab.acme.org/api/v4"),
    ],
)
def test_the_forge_and_the_repository_are_read_from_the_remote(
    url: str, repository: str, api: str
) -> None:
    place = place_of(url, ForgeSettings())
    assert (place.repository, place.api_url) == (repository, api)
    assert place.forge == ("gitlab" if "gitlab" in url else "github")


@pytest.mark.parametrize(
    "url", ["/srv/git/a.git", "file:///srv/a.git", "../a.git", "C:/a.git", "https://[bad/a", ""]
)
def test_a_path_belongs_to_no_forge(url: str) -> None:
    assert remote_address(url) is None
    with pytest.raises(ConfigError, match="Set forge under"):
        place_of(url, ForgeSettings())
    with pytest.raises(ConfigError, match="Set repository and api_url"):
        place_of(url, ForgeSettings(forge="github"))


def test_settings_take_precedence_over_the_remote() -> None:
    settings = ForgeSettings(
        forge="gitlab", repository="x/y", api_url="https://code.acme.org/gitlab/api/v4/"
    )
    place = place_of("git@git.acme.org:a/b.git", settings)
    assert (place.forge, place.repository) == ("gitlab", "x/y")
    assert place.api_url == "https://code.acme.org/gitlab/api/v4"


def test_no_token_is_sent_without_encryption() -> None:
    with pytest.raises(ConfigError, match="is not encrypted"):
        place_of("http://github.acme.org/a/b", ForgeSettings())


def test_credentials_are_removed_from_what_is_shown() -> None:
    text = "fatal: https://ada:hunter2@3@github.com/a/b and ssh://git@github.com/a"
    assert without_credentials(text) == "fatal: https://github.com/a/b and ssh://github.com/a"


def test_a_token_is_not_printed() -> None:
    place = place_of("git@github.com:a/b", ForgeSettings())
    forge: Any = connect(place, ForgeSettings(), {"GITHUB_TOKEN": "ghp_secret"})
    assert "ghp_secret" not in repr(forge._http)


def test_a_token_in_place_of_a_variable_is_refused_and_not_repeated() -> None:
    settings = ForgeSettings(token_env="ghp_0123456789abcdef")
    with pytest.raises(ConfigError, match="holds a token") as error:
        connect(place_of("git@github.com:a/b", settings), settings, {})
    assert "ghp_" not in str(error.value)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def written(key: Any, path: Path) -> Path:
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return path


def test_a_github_app_gets_a_token_for_the_repository_alone(
    at_github: Any, key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    at_github.environ.clear()
    app = {"app_id": "Iv1.abc", "app_key": written(key, tmp_path / "app.pem")}
    assert at_github.propose(at_github.released(), **app).number == 1
    asked, made = at_github.forge.sent[:2]
    assert (asked.method, asked.path) == ("GET", "/repos/acme/helper/installation")
    assert made.path == "/app/installations/7/access_tokens"
    assert made.body["repositories"] == ["helper"]
    assert made.body["permissions"] == {"contents": "read", "pull_requests": "write"}
    assert at_github.forge.app_tokens == ["app-token-1"]

    head, claims, signature = asked.headers["authorization"].removeprefix("Bearer ").split(".")
    key.public_key().verify(
        decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), SHA256()
    )
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT"}
    stated = json.loads(decoded(claims))
    assert stated["iss"] == "Iv1.abc"
    assert stated["exp"] - stated["iat"] == 600


def test_the_token_of_an_app_that_expires_midway_is_renewed(
    at_github: Any, key: rsa.RSAPrivateKey, tmp_path: Path
) -> None:
    at_github.environ.clear()
    app = {"app_id": "1", "app_key": written(key, tmp_path / "app.pem")}
    at_github.forge.fail("POST", "/pulls", 401, {"message": "Bad credentials"})
    assert at_github.propose(at_github.released(), **app).number == 1
    assert at_github.forge.app_tokens == ["app-token-1", "app-token-2"]


def test_an_app_without_a_usable_key_is_refused(at_github: Any, tmp_path: Path) -> None:
    release = at_github.released()
    missing = tmp_path / "missing.pem"
    with pytest.raises(ConfigError, match=r"private key of the GitHub App 1 cannot be read"):
        at_github.propose(release, app_id="1", app_key=missing)
    for name, content in [("text.pem", b"no key"), ("ec.pem", None)]:
        path = tmp_path / name
        if content is None:
            written(ec.generate_private_key(ec.SECP256R1()), path)
        else:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match="is not the private key of a GitHub App"):
            at_github.propose(release, app_id="1", app_key=path)


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
