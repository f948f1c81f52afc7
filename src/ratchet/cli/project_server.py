"""A server that runs during a command of a project, for agents in any language."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from ratchet.client.http import without_certificates
from ratchet.types import ConfigError

if TYPE_CHECKING:
    from ratchet.autopilot import Project

KEY_VARIABLE = "RATCHET_LOCAL_MODEL_KEY"
"""Variable of the server's environment, not of this process, with the local model's key."""

ANSWER_TIMEOUT_S = 5.0


@asynccontextmanager
async def project_server(project: Project) -> AsyncIterator[str]:
    """Start a server on the project's store, and stop it at the end; yields its URL.

    For what is started here it takes a free port on loopback. A service that runs already was
    started with the address in its environment, so its server is at [server] host and port: the one
    that runs there, if it has the same store, or else one that is started there.

    Raises:
        ConfigError: The address is taken by another program, or by a server with another store.
        StoreError: The server does not start.
    """
    from ratchet.cli.serve import server_settings
    from ratchet.server.background import background_server
    from ratchet.server.gateway.upstream import Upstream, check_upstreams
    from ratchet.store import Store

    settings = server_settings(project.config)
    if not project.config.agent.runs_already:
        settings = msgspec.structs.replace(settings, host="127.0.0.1", port=0, require_key=False)
    elif server := await _running(project, settings.host, settings.port):
        yield server
        return
    else:
        check_upstreams(settings.upstreams, (settings.host, settings.port))
    environ = dict(os.environ)
    model = project.agent_model
    if model is not None:
        local = Upstream(
            name="local", dialect="openai", base_url=model.base_url, key_env=KEY_VARIABLE
        )
        settings = msgspec.structs.replace(settings, upstreams=(local,), model_hosts=None)
        environ[KEY_VARIABLE] = model.key
    for number, (name, other) in enumerate(project.other_models.items()):
        key_env = f"{KEY_VARIABLE}_{number}"
        upstream = Upstream(
            name=f"local-{number}",
            dialect="openai",
            base_url=other.base_url,
            key_env=key_env,
            models={name: other.settings.name},
        )
        # Last, so that it answers for nothing but its own name.
        settings = msgspec.structs.replace(settings, upstreams=(*settings.upstreams, upstream))
        environ[key_env] = other.key
    store = Store.open(project.store_url)
    async with background_server(store, settings, environ=environ) as url:
        yield url


async def _running(project: Project, host: str, port: int) -> str:
    """URL of the server running at an address; empty if there is none.

    Raises:
        ConfigError: What runs there is no server of this project's store.
    """
    from ratchet._http import httpx2

    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        plain = without_certificates()
        async with httpx2.AsyncClient(
            trust_env=False, timeout=ANSWER_TIMEOUT_S, verify=plain
        ) as client:
            health = (await client.get(f"{url}/healthz")).json()
    except httpx2.ConnectError:
        return ""
    except (httpx2.HTTPError, ValueError):
        health = None
    with project.open_store() as store:
        if isinstance(health, dict) and health.get("store") == store.identity():
            return url
    what = "a server with another store" if isinstance(health, dict) else "another program"
    raise ConfigError(
        f"The service's model calls go to {url}, but {what} is running there.",
        hint="Stop it; or set another port under [server] in ratchet.toml, and start the service "
        "with a base URL on that port.",
    )
