"""`ratchet serve`: the server for runners, agents and telemetry."""

from __future__ import annotations

import json as jsonlib
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.live_prompt_files import LivePromptFiles
from ratchet.autopilot.server_sections import ServerConfig, apply_prices, read_server_config
from ratchet.autopilot.trainable import ADAPTERS
from ratchet.cli.console import Folder, Json
from ratchet.cli.errors import err
from ratchet.observe.project_paths import (
    FILE_NAME,
    STATE_NAME,
    folder_with_config,
    prepare_state,
    store_url,
)
from ratchet.observe.redaction import RedactionRules
from ratchet.server.gateway.upstream import Upstream, check_upstreams, standard_upstreams
from ratchet.server.limits import ServerLimits
from ratchet.server.oidc import OidcSettings
from ratchet.server.retention import Retention
from ratchet.server.serve import ServeSettings
from ratchet.server.serve import serve as run
from ratchet.store.local_agents import open_with_agents
from ratchet.types import ConfigError

STORE_VARIABLE = "RATCHET_STORE"

OPEN_TIMEOUT_S = 10.0
"""Seconds that a server waits for a database that is starting."""


def serve(
    folder: Folder = Path("."),
    store: Annotated[
        str | None, typer.Option(help="URL of the store; by default the project's.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 picks a free one [8765].")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="TLS certificate, to serve HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    autopilot: Annotated[
        bool, typer.Option("--autopilot", help="Also run the project's autopilot.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve the dashboard, API, gateway and OTLP ingest on one port, until Ctrl-C or SIGTERM.

    On loopback no key is needed. On any other address the server refuses to start until a key
    exists (ratchet keys create). Of several servers on one store with --autopilot, one runs it. It
    reads the sections server, retention, redaction,
    upstreams.NAME, prices.MODEL and store of ratchet.toml, if there is one.

    Examples:

      ratchet serve

      ratchet serve --autopilot

      ratchet serve --store postgresql://me@db/ratchet --host 0.0.0.0 --port 8080

      OPENAI_BASE_URL=http://127.0.0.1:8765/gateway/my-agent/openai/v1 python my_agent.py
    """
    root, config = _project_folder(folder)
    apply_prices(config)
    settings = server_settings(config, host, port, tls_cert, tls_key)
    check_upstreams(settings.upstreams, (settings.host, settings.port))
    settings = msgspec.structs.replace(
        settings,
        adapters=str(root / STATE_NAME / ADAPTERS),
        project=str(root) if (root / FILE_NAME).is_file() else "",
    )
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    if store is None:
        store = store_url(root, config.store.url)
        prepare_state(root)

    # Not on command lines, where every user of the machine could read a password.
    environ = {**os.environ, STORE_VARIABLE: store}
    if autopilot:
        settings = msgspec.structs.replace(settings, autopilot=_autopilot_command(root))

    def ready(address: str) -> None:
        if json:
            print(jsonlib.dumps({"url": address, "pid": os.getpid()}), flush=True)
            return
        err.print(f"Ratchet serves [bold]{address}[/]", highlight=False)
        err.print(
            f"  dashboard {address}/\n"
            f"  runners   ratchet runner --server {address} --agent module:function\n"
            f"  agents    OPENAI_BASE_URL={address}/gateway/AGENT/openai/v1\n"
            f"            ANTHROPIC_BASE_URL={address}/gateway/AGENT/anthropic\n"
            f"  traces    OTEL_EXPORTER_OTLP_ENDPOINT={address}\n"
            f"  API       {address}/openapi.json\n"
            "Stop with Ctrl-C.",
            highlight=False,
            markup=False,
            style="dim",
            soft_wrap=True,
        )

    opened = open_with_agents(store, patience_s=OPEN_TIMEOUT_S, prompt_files=LivePromptFiles(root))
    run(opened, settings, environ=environ, on_ready=ready)
    if not json:
        err.print("Stopped. Everything that was acknowledged is stored.")


def _autopilot_command(root: Path) -> tuple[str, ...]:
    """The command line of the project's autopilot.

    Raises:
        ConfigError: There is no project, or its configuration is malformed.
    """
    read_config(root / FILE_NAME)  # refused now rather than by a process that ends again and again
    arguments = ("autopilot", "run", "--attached", "--project", str(root))
    return (sys.executable, "-m", "ratchet", *arguments)


def _project_folder(folder: Path) -> tuple[Path, ServerConfig]:
    """The project's folder and its configuration; the defaults without a `ratchet.toml`."""
    root = folder_with_config(folder)
    if root is None:
        return folder.resolve(), ServerConfig()
    return root, read_server_config(root / FILE_NAME)


def server_settings(
    config: ServerConfig | Config,
    host: str | None = None,
    port: int | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> ServeSettings:
    """The file's settings, overridden by the command line's."""
    if (cert is None) != (key is None):
        raise ConfigError("HTTPS needs both --tls-cert and --tls-key.")
    for file in (cert, key):
        if file is not None and not file.is_file():
            raise ConfigError(f"There is no file {file}.")
    section, limits = config.server, config.server.limits
    host = host or section.host
    port = section.port if port is None else port
    agent = config.agent if isinstance(config, Config) else None
    upstreams = tuple(
        Upstream(name=name, **{**upstream.model_dump(), "key_env": upstream.key_env or ""})
        for name, upstream in config.upstreams.items()
    ) or standard_upstreams(
        os.environ,
        own=(host, port),
        base_urls=agent.model_base_url if agent else (),
        keys=agent.model_key if agent else (),
    )
    return ServeSettings(
        host=host,
        port=port,
        require_key=section.require_key,
        hosts=section.hosts,
        root_path=section.root_path,
        trusted_proxies=section.trusted_proxies,
        cors=section.cors,
        limits=ServerLimits(
            body_bytes=int(limits.body_mb * 1024 * 1024),
            requests_per_s=limits.requests_per_s,
            burst=limits.burst,
            streams=limits.streams,
            pending_spans=limits.pending_spans,
            public_per_s=limits.public_per_s,
            public_burst=limits.public_burst,
            public_body_bytes=int(limits.public_body_kb * 1024),
        ),
        retention=Retention(**config.retention.model_dump()),
        redaction=RedactionRules(**config.redaction.model_dump()),
        upstreams=upstreams,
        model_hosts=agent.model_hosts if agent else (),
        oidc=None
        if section.oidc is None
        else OidcSettings(
            **{**section.oidc.model_dump(), "secret_env": section.oidc.secret_env or ""}
        ),
        tls_cert=str(cert or ""),
        tls_key=str(key or ""),
    )
