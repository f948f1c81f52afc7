"""Builds the server from a store and its settings, and runs it until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import uvicorn
import uvloop

from ratchet.observe.destination import cache, spool_of
from ratchet.observe.project_paths import STATE_NAME
from ratchet.observe.redaction import RedactionRules, redactor_of
from ratchet.observe.spool import Spool
from ratchet.server.access import Gatekeeper
from ratchet.server.allocator import give_back_large_buffers
from ratchet.server.app import App
from ratchet.server.autopilot_process import AutopilotProcess
from ratchet.server.body import BodyBudget
from ratchet.server.forwarded import networks_of
from ratchet.server.gateway import Gateway, Upstream, standard_upstreams
from ratchet.server.gateway.adapter_loading import AdapterLoader
from ratchet.server.gateway.substitution import PromptSubstituter
from ratchet.server.gateway.target import AttemptState, ReadAttemptState
from ratchet.server.gateway.training import TrainingReader
from ratchet.server.gateway.upstream import is_loopback
from ratchet.server.http_protocol import BoundedHttp
from ratchet.server.limits import ServerLimits
from ratchet.server.metrics import Metrics
from ratchet.server.oidc import OidcLogin, OidcSettings
from ratchet.server.otlp import Otlp
from ratchet.server.partitions import PartitionKeeper
from ratchet.server.problem_scanner import ProblemScanner
from ratchet.server.project_commands import ProjectCommands
from ratchet.server.retention import Pruner, Retention
from ratchet.server.services import Services
from ratchet.server.span_writer import SpanWriter
from ratchet.server.trace_indexer import TraceIndexer
from ratchet.store import Store
from ratchet.store.partitions import period_s
from ratchet.types import ConfigError, StoreError

_log = logging.getLogger("ratchet")

BACKLOG = 4096

DRAIN_TIMEOUT_S = 10
"""Seconds that requests in flight may take to finish at shutdown."""


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server."""

    host: str = "127.0.0.1"
    port: int = 8765
    """0 binds a free one."""
    require_key: bool = False
    """Whether every request needs a key, even on loopback."""
    hosts: tuple[str, ...] = ()
    """Additional accepted host names."""
    root_path: str = ""
    """Path prefix under which a proxy serves the server, such as `/ratchet`; empty for none."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies trusted to state the client's address."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may use the server."""
    limits: ServerLimits = ServerLimits()
    retention: Retention = Retention()
    redaction: RedactionRules = RedactionRules()
    upstreams: tuple[Upstream, ...] = standard_upstreams()
    model_hosts: tuple[str, ...] | None = ()
    """Additional model hosts that an agent calls directly; None if the upstreams answer for all."""
    adapters: str = ""
    """Folder of the project's trained adapters, for upstreams to load; empty for none."""
    tls_cert: str = ""
    """Path of a certificate; empty for plain HTTP."""
    tls_key: str = ""
    project: str = ""
    """Folder of the project, for routes that change its repository; empty for none."""
    oidc: OidcSettings | None = None
    """Login provider, with which every request needs a login or a key; None for keys only."""
    autopilot: tuple[str, ...] = ()
    """Command line of the autopilot that runs beside the server; empty for none."""


def make_app(store: Store, settings: ServeSettings, environ: Mapping[str, str]) -> App:
    """Build the application around a store.

    Args:
        store: Closed when the application ends.
        settings: Settings of the server.
        environ: Environment with the providers' keys.

    Raises:
        ConfigError: The server would be reachable from other machines and the store has no key; or
            the redaction rules or the trusted proxies are invalid.
    """
    proxies = networks_of(settings.trusted_proxies)
    redactor = redactor_of(settings.redaction, environ)
    open_to_all = is_loopback(settings.host) and not (settings.require_key or settings.oidc)
    has_keys = any(key.revoked_at is None for key in store.keys.list())
    if not open_to_all and not has_keys and settings.oidc is None:
        why = (
            "[server] require_key is set"
            if settings.require_key
            else f"{settings.host} can be reached from other machines"
        )
        raise ConfigError(
            f"{why}, and the store has no key.",
            hint="Create a key first: ratchet keys create NAME --scope admin",
        )
    if open_to_all and has_keys:
        _log.warning(
            "The store has keys, but requests to %s need none: every client that reaches this "
            "address has full access. Behind a proxy, set require_key = true under [server].",
            settings.host,
        )
    hidden = settings.oidc.secret_env if settings.oidc else ""
    public_environ = {name: value for name, value in environ.items() if name != hidden}
    metrics = Metrics()
    bodies = BodyBudget()
    spans = SpanWriter(
        store,
        pending_limit=settings.limits.pending_spans,
        metrics=metrics,
        redact=redactor.record,
    )
    gatekeeper = Gatekeeper(
        store,
        open_to_all=open_to_all,
        limits=settings.limits,
        hosts=(*settings.hosts, settings.host),
        cors=settings.cors,
    )
    gateway = Gateway(
        settings.upstreams,
        spans,
        hosts=settings.model_hosts,
        substitute=PromptSubstituter(store),
        training=TrainingReader(store),
        adapters=(
            AdapterLoader(Path(settings.adapters), metrics=metrics) if settings.adapters else None
        ),
        running=_running(store),
        read_token=gatekeeper.attempt,
        stream=gatekeeper.stream,
        metrics=metrics,
        environ=environ,
        body_limit=settings.limits.body_bytes,
        bodies=bodies,
        spool=_spool(store, settings),
    )
    metrics.watch("body_bytes", "Bytes held by large request bodies.", lambda: bodies.held)
    metrics.watch("pending_spans", "Spans waiting to be stored.", lambda: spans.pending)
    metrics.watch("open_streams", "Open streams of all callers.", lambda: gatekeeper.open_streams)
    project = Path(settings.project) if settings.project else None
    commands = None if project is None else ProjectCommands(project, public_environ)
    services = Services(
        store,
        gatekeeper=gatekeeper,
        limits=settings.limits,
        bodies=bodies,
        metrics=metrics,
        spans=spans,
        redactor=redactor,
        gateway=gateway,
        otlp=Otlp(
            spans,
            body_limit=settings.limits.body_bytes,
            bodies=bodies,
            metrics=metrics,
        ),
        pruner=Pruner(store, settings.retention, metrics=metrics),
        project=project,
        commands=commands,
        oidc=_oidc(store, settings.oidc, environ),
        background=(
            ProblemScanner(store),
            PartitionKeeper(store, period_s(settings.retention.spans_days)),
            TraceIndexer(store),
            *([AutopilotProcess(settings.autopilot, public_environ)] if settings.autopilot else []),
        ),
    )
    return App(services, settings.root_path, proxies)


def _spool(store: Store, settings: ServeSettings) -> Spool:
    root = Path(settings.project) if settings.project else None
    state = root / STATE_NAME if root is not None else cache()
    # No agent's name has a space, and each store has its own folder.
    folder = state / "spool" / f"gateway {store.identity()[:16]}"
    return spool_of(folder, root, Spool)


def _oidc(
    store: Store, settings: OidcSettings | None, environ: Mapping[str, str]
) -> OidcLogin | None:
    if settings is None:
        return None
    key = store.settings.get_or_create("login_secret", lambda: secrets.token_hex(32))
    return OidcLogin(settings, environ, signing_key=bytes.fromhex(key), clock=time.time)


def serve(
    store: Store,
    settings: ServeSettings,
    *,
    environ: Mapping[str, str] | None = None,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are finished first.

    Args:
        store: Closed at the end.
        settings: Settings of the server.
        environ: Environment with the providers' keys; by default that of this process.
        on_ready: Called with the server's URL once it accepts requests.

    Raises:
        ConfigError: The address cannot be bound, or a key is required and there is none.
        StoreError: The store failed during start-up.
    """
    variables = os.environ if environ is None else environ
    give_back_large_buffers()

    def ready(url: str) -> None:
        # Otherwise each full garbage collection goes through all that was loaded: 70 ms.
        gc.freeze()
        on_ready(url)

    uvloop.run(make_server(store, settings, environ=variables, on_ready=ready).run_async())


def make_server(
    store: Store,
    settings: ServeSettings,
    *,
    environ: Mapping[str, str],
    on_ready: Callable[[str], None],
) -> UvicornServer:
    """Create a server whose socket is bound; it serves once its `run_async` runs.

    Arguments and errors are those of `serve`.
    """
    app = make_app(store, settings, environ)
    listening = _listen(settings.host, settings.port)
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "https" if settings.tls_cert else "http"
    return UvicornServer(app, settings, listening, lambda: on_ready(f"{scheme}://{host}:{port}"))


class UvicornServer(uvicorn.Server):
    """Uvicorn server that reports readiness and wakes waiting requests before shutdown."""

    def __init__(
        self,
        app: App,
        settings: ServeSettings,
        listening: socket.socket,
        on_ready: Callable[[], None],
    ) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedHttp,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
            backlog=BACKLOG,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
        super().__init__(config)
        self.app = app
        self._listening = listening
        self._on_ready = on_ready

    async def run_async(self) -> None:
        """Serve until `stop`, SIGTERM or SIGINT.

        Raises:
            StoreError: The server did not start.
        """
        with contextlib.closing(self._listening):
            await self.serve(sockets=[self._listening])
        if not self.started:
            raise StoreError("The server did not start; see its log.")

    def stop(self) -> None:
        """Shut down: accept no more requests, finish those in flight, store what is pending."""
        self.app.services.closing.set()
        self.app.services.dispatcher.stop_waiting()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, then report readiness."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    def _signalled(self) -> None:
        # A second signal drops requests in flight; what was acknowledged is stored.
        if self.should_exit:
            self.force_exit = True
        self.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down in an orderly way on a signal, without raising it again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"The address {host}:{port} cannot be bound: {error.strerror or error}.",
            hint="Choose another with --port or --host; --port 0 picks a free port.",
        ) from None
    listening.setblocking(False)
    return listening


def _running(store: Store) -> ReadAttemptState:
    def read_state(rollout_id: str, fence: int) -> AttemptState:
        for attempt in store.rollouts.attempts(rollout_id):
            if attempt.fence == fence:
                return "running" if attempt.status == "running" else "over"
        return "unknown"

    async def running(rollout_id: str, fence: int) -> AttemptState:
        return await asyncio.to_thread(read_state, rollout_id, fence)

    return running
