"""How pull requests are opened, and the forge that a repository's remote belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ratchet.ship.forges import github, gitlab
from ratchet.ship.forges.address import (
    ForgeName,
    api_url_of,
    check_api_url,
    forge_of,
    remote_address,
    without_credentials,
)
from ratchet.ship.forges.credentials import EnvironmentToken, GitHubApp
from ratchet.ship.forges.http import Credentials, ForgeHttp
from ratchet.ship.forges.record import Forge, RequestDraft
from ratchet.types import ConfigError

TOKEN_VARIABLES: dict[ForgeName, str] = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}


@dataclass(frozen=True, kw_only=True)
class ForgeSettings:
    """Settings of pull requests; empty texts are derived from the remote's URL."""

    remote: str = "origin"
    """The git remote to push to."""
    base: str = ""
    """The branch that pull requests target; by default the remote's default branch."""
    forge: ForgeName | None = None
    api_url: str = ""
    repository: str = ""
    """OWNER/NAME on the forge."""
    token_env: str = ""
    """Environment variable that holds the token; by default GITHUB_TOKEN or GITLAB_TOKEN."""
    app_id: str = ""
    """Id of a GitHub App, which replaces the token."""
    app_key: Path | None = None
    """The app's private key, a PEM file."""
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    draft: bool = False
    max_open: int = 2
    """Maximum number of pull requests that may be open at once."""
    evidence: bool = False
    """Whether the evidence file is committed to the branch."""
    timeout_s: float = 30.0
    """Timeout of a request to the forge, in seconds."""


@dataclass(frozen=True)
class ForgePlace:
    """A repository at a forge."""

    forge: ForgeName
    api_url: str
    repository: str

    def opening(self, draft: RequestDraft) -> tuple[str, dict[str, object]]:
        """URL and body of the POST request that opens a pull request."""
        make = gitlab.opening if self.forge == "gitlab" else github.opening
        path, body = make(self.repository, draft)
        return self.api_url + path, body


def place_of(url: str, settings: ForgeSettings) -> ForgePlace:
    """The repository that a remote's URL and the settings name.

    Raises:
        ConfigError: They do not tell.
    """
    address = remote_address(url)
    name = settings.forge or (forge_of(address.host) if address else None)
    public_url = without_credentials(url)
    if name is None:
        raise ConfigError(
            f"The remote {settings.remote} ({public_url}) could be GitHub or GitLab.",
            hint='Set forge under [ship] to "github" or "gitlab"; and api_url, if its API is not'
            " at the usual address.",
        )
    repository = settings.repository or (address.repository if address else "")
    api_url = settings.api_url or (api_url_of(name, address) if address else "")
    if not repository or not api_url:
        raise ConfigError(
            f"The remote {settings.remote} ({public_url}) is not the address of a forge.",
            hint="Set repository and api_url under [ship].",
        )
    check_api_url(api_url)
    return ForgePlace(name, api_url.rstrip("/"), repository)


def connect(
    place: ForgePlace, settings: ForgeSettings, environ: Mapping[str, str] | None = None
) -> Forge:
    """The forge of a repository, with its credentials.

    Args:
        place: The repository.
        settings: Where the credentials are.
        environ: Where the token is; by default this process's environment.

    Raises:
        ConfigError: There are no usable credentials.
    """
    variable = settings.token_env or TOKEN_VARIABLES[place.forge]
    where = os.environ if environ is None else environ
    if place.forge == "gitlab":
        token = EnvironmentToken(variable, "private", where)
        return gitlab.GitLab(_http(place, settings, token), place.repository)
    credentials: Credentials
    if settings.app_id and settings.app_key is not None:
        credentials = GitHubApp(
            settings.app_id,
            settings.app_key,
            place.repository,
            lambda key: _http(place, settings, key),
        )
    else:
        credentials = EnvironmentToken(variable, "bearer", where)
    return github.GitHub(_http(place, settings, credentials), place.repository)


def _http(place: ForgePlace, settings: ForgeSettings, credentials: Credentials) -> ForgeHttp:
    if place.forge == "gitlab":
        name, needs, accept, headers = "GitLab", gitlab.NEEDS, "application/json", {}
    else:
        name, needs, accept = "GitHub", github.NEEDS, github.ACCEPT
        headers = {"x-github-api-version": github.API_VERSION}
    return ForgeHttp(
        forge=name,
        api_url=place.api_url,
        repository=place.repository,
        credentials=credentials,
        needs=needs,
        timeout_s=settings.timeout_s,
        accept=accept,
        headers=headers,
    )
