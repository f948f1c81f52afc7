"""`ratchet.init`: starts the capture of what the agent of this process does."""

from __future__ import annotations

import atexit
import functools
import logging
import math
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ratchet.observe import destination
from ratchet.observe.collector import set_live
from ratchet.observe.destination import Destination
from ratchet.observe.import_bound import START_WAIT_S, is_import_bound, redirect_prompt_files
from ratchet.observe.live import (
    EXIT_TIMEOUT_S,
    IMPORTS_S,
    CaptureStatus,
    LivePipeline,
    PipelineStages,
)

if TYPE_CHECKING:
    from ratchet.observe.call_starts import CallStarts
    from ratchet.observe.otel_bridge import OtelBridge
    from ratchet.observe.record_builder import Redact
    from ratchet.observe.releases import ReleaseFollower, VersionSource

_log = logging.getLogger("ratchet")

DISABLED_VARIABLE = "RATCHET_DISABLED"
DESTINATION_VARIABLES = ("RATCHET_URL", "RATCHET_KEY", "RATCHET_STORE", "RATCHET_AGENT")


class Handle:
    """What `init` returns: flushes and ends the capture, and reports its counts."""

    def __init__(
        self,
        live: LivePipeline | None = None,
        bridge: OtelBridge | None = None,
        instruments: tuple[str, ...] = (),
        arguments: Mapping[str, Any] | None = None,
        releases: ReleaseFollower | None = None,
    ) -> None:
        self._live = live
        self._releases = releases
        self._bridge = bridge
        self._arguments = arguments
        self.instruments = instruments
        """Names of the libraries that are instrumented, now or when they are imported."""

    def flush(self, timeout_s: float = EXIT_TIMEOUT_S) -> bool:
        """Send the spans that have ended so far, and the feedback given so far.

        Args:
            timeout_s: Maximum time to wait, in seconds.

        Returns:
            Whether all of it is stored now, at the server or in the spool of a store. The rest is
            sent later.
        """
        return flush(timeout_s) if self._live is None else self._live.flush(timeout_s)

    def shutdown(self, timeout_s: float = EXIT_TIMEOUT_S) -> None:
        """Send what is queued, within a time limit, and end the capture; `init` may follow again.

        Args:
            timeout_s: Maximum time to wait, in seconds. Unsent records wait on disk.
        """
        global _handle, _pipeline
        with _lock:
            if _handle is self:
                _handle = None
                set_live(None)
                _pipeline = None
        if self._releases is not None:
            if self._live is not None:
                self._live.releases = None
            self._releases.close()
            atexit.unregister(self._releases.close)
        if self._bridge is not None:
            self._bridge.disconnect()
        if self.instruments:
            from ratchet.observe import instruments

            instruments.install(None)
        if self._live is not None:
            self._live.shutdown(max(0.0, timeout_s))
            atexit.unregister(self._live.shutdown)

    def keep(self, trace_id: str = "", conversation: str = "") -> None:
        """Keep a trace, or all traces of a conversation, whatever sampling decides.

        Args:
            trace_id: The trace's id, 32 hex digits.
            conversation: The conversation's id.
        """
        if self._live is not None:
            self._live.keep(trace_id, conversation)

    def status(self) -> CaptureStatus:
        """Counts of this process's spans and feedback so far."""
        return CaptureStatus(on=False) if self._live is None else self._live.status()

    def __repr__(self) -> str:
        status = self.status()
        return f"<ratchet: {status.agent} to {status.target}>" if status.on else "<ratchet: off>"


_handle: Handle | None = None
_pipeline: LivePipeline | None = None
"""The one pipeline of this process, created by `init` or by the first feedback without it."""
_found_in: list[str | None] = []
"""Values of DESTINATION_VARIABLES when the destination of feedback was found."""
_lock = threading.RLock()
_warned_again = False


def init(
    agent: str | None = None,
    *,
    url: str | None = None,
    key: str | None = None,
    instrument: bool = True,
    capture_content: bool = True,
    sample: float = 1.0,
    redact: bool | Redact | Any = True,
    forward: bool | str | None = None,
    spool: bool = True,
    carry_threads: bool = True,
    releases: bool = True,
    prompt_files: bool = True,
) -> Handle:
    """Capture what the agent of this process does. Never raises, and never makes the agent wait.

    Where `ratchet.toml` says that prompts are read at import, it waits up to 3 s for the release.

    A second call returns the same handle. With RATCHET_DISABLED=1 it does nothing. An error is
    logged as one warning of the logger `ratchet`, and the program continues.

    Args:
        agent: The agent's name. Left out: RATCHET_AGENT, the entry in `ratchet.toml`, or the
            script's name.
        url: A server's address, or a store's URL. Left out: RATCHET_URL, or the store of the
            project: RATCHET_STORE, or `.ratchet/` beside the nearest `ratchet.toml`, or in the
            working directory. Records for a store wait on this machine's disk until a command of
            Ratchet that has the same store runs here.
        key: The server's key; RATCHET_KEY when left out.
        instrument: Whether libraries are instrumented.
        capture_content: Whether inputs, outputs and messages are kept.
        sample: Share of traces to keep, in [0, 1]. Traces with an error or bad feedback are always
            kept, if either comes within a minute.
        redact: Whether secrets are removed before anything leaves the process, by the rules of
            `[redaction]` in `ratchet.toml`; or a `Redactor`, or a function of a `SpanRecord`.
        forward: Address of another OTLP back end that receives the same spans. Left out: that of
            OTEL_EXPORTER_OTLP_ENDPOINT, unless the process has an OpenTelemetry set-up of its own.
            False for none.
        spool: Whether records wait on disk while the server is unavailable. Those for a store
            always do.
        carry_threads: Whether threads and thread pools inherit the trace of the code that starts
            them.
        releases: Whether resources follow the agent's releases and canaries without a deploy.
            Prompts that are read at import, and files of prompts, take the release that is active
            when the process starts; `init` must come before they are read.
        prompt_files: Whether the files of [[prompt_files]] in `ratchet.toml` are read with the
            release's texts.

    Returns:
        A handle.

    Example:
        import ratchet
        ratchet.init("booking")
    """
    global _handle, _warned_again
    arguments = {name: value for name, value in locals().items() if name != "arguments"}
    with _lock:
        if _handle is not None:
            if arguments != _handle._arguments and not _warned_again:
                _warned_again = True
                _log.warning("ratchet.init was already called; its first arguments stay in effect.")
            return _handle
        if is_disabled(os.environ):
            return Handle()
        try:
            _handle = _start(arguments)
        except Exception as error:
            _log.warning("Nothing is captured: %s", error)
            set_live(None)
            return Handle()
        return _handle


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether RATCHET_DISABLED switches capture off for the process."""
    return _is_on(environ, DISABLED_VARIABLE)


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in ("1", "true", "yes", "on")


def current() -> Handle | None:
    """The handle of `init`, or None if it was not called."""
    return _handle


def _start(arguments: Mapping[str, Any]) -> Handle:
    receiver = destination.find(arguments["agent"], arguments["url"], arguments["key"])
    live = _new_pipeline(
        lambda: _open_stages(receiver, arguments, live),
        receiver,
        bool(arguments["capture_content"]),
        _share(arguments["sample"]),
        functools.partial(_open_starts, receiver, bool(arguments["spool"])),
    )
    # Imported now: a signal handler during the first step's import would find it incomplete.
    import ratchet.observe.step_span  # noqa: F401

    bridge = _bridged(live)
    set_live(live)
    instruments = _instrumented(bridge) if arguments["instrument"] else ()
    if entry := destination.entry_of(receiver.config):
        from ratchet.observe.live_entry import trace_entry

        trace_entry(entry)
    if arguments["carry_threads"]:
        from ratchet.observe.thread_context import carry_spans

        carry_spans()
    if receiver.server and arguments["spool"] and receiver.spool.is_dir():
        from ratchet.observe.spool import waits

        if waits(receiver.spool):
            live.start()
    releases = _following(receiver, live) if arguments["releases"] else None
    if releases is not None and arguments["prompt_files"]:
        redirect_prompt_files(receiver, releases.versions)
    return Handle(live, bridge, instruments, arguments, releases)


def _following(receiver: Destination, live: LivePipeline) -> ReleaseFollower | None:
    """Follow the agent's releases."""
    from ratchet.observe.releases import (
        OWN_SOURCE_FILE,
        OWN_SOURCE_VARIABLE,
        FileVersions,
        ReleaseFollower,
        ServerVersions,
    )

    if _is_on(os.environ, OWN_SOURCE_VARIABLE):
        return None

    def open() -> VersionSource:
        if receiver.server:
            return ServerVersions(receiver.server, receiver.key, receiver.agent)
        return FileVersions(receiver.live, receiver.agent)

    follower = ReleaseFollower(
        open,
        bundle=receiver.live if receiver.server else None,
        switch=receiver.state / OWN_SOURCE_FILE,
    )
    follower.start(START_WAIT_S if is_import_bound(receiver.config) else 0.0)
    live.releases = follower
    atexit.register(follower.close)
    return follower


def _share(sample: Any) -> float:
    if isinstance(sample, (int, float)) and not isinstance(sample, bool):
        share = float(sample)
        if math.isfinite(share) and 0 <= share <= 1:
            return share
    _log.warning("sample=%r is not a number in [0, 1]: every trace is kept.", sample)
    return 1.0


def _bridged(live: LivePipeline) -> OtelBridge:
    from ratchet.observe.otel_bridge import OtelBridge
    from ratchet.observe.rollout_capture import take_over

    bridged = take_over(live)
    if bridged is not None:
        return bridged
    bridge = OtelBridge(live)
    try:
        bridge.connect()
    except Exception as error:
        _log.warning("OpenTelemetry could not be connected: %s: %s", type(error).__name__, error)
    return bridge


def _instrumented(bridge: OtelBridge) -> tuple[str, ...]:
    try:
        from ratchet.observe import instruments

        return tuple(instruments.install(bridge.provider))
    except Exception as error:
        _log.warning("Libraries could not be instrumented: %s: %s", type(error).__name__, error)
        return ()


def _open_starts(receiver: Destination, on_disk: bool) -> CallStarts:
    from ratchet.observe.call_starts import CallStarts
    from ratchet.observe.spool import Spool

    # One of its own, which stays locked: what is in it is sent by this process, or after its death.
    spool = destination.spool_of(receiver.spool, receiver.root, Spool) if on_disk else None
    return CallStarts(spool)


def _new_pipeline(
    open: Callable[[], PipelineStages],
    receiver: Destination,
    content: bool,
    sample: float,
    starts: Callable[[], CallStarts] | None = None,
) -> LivePipeline:
    """Create the process's pipeline, or switch it to another destination."""
    global _pipeline
    target = receiver.server or ("store" if "@" in receiver.store else receiver.store)
    if _pipeline is not None:
        _pipeline.configure(
            open, target=target, agent=receiver.agent, content=content, sample=sample, starts=starts
        )
        return _pipeline
    _watch_forks()
    _pipeline = LivePipeline(
        open, target=target, agent=receiver.agent, content=content, sample=sample, starts=starts
    )
    atexit.register(_pipeline.shutdown)
    return _pipeline


def feedback_pipeline() -> LivePipeline:
    """The pipeline for feedback: that of `init`, or one for the destination `init` would find.

    Raises:
        ConfigError: The environment or `ratchet.toml` name no usable destination.
    """
    global _found_in
    with _lock:
        if _pipeline is None or _handle is None:
            environ = [os.environ.get(name) for name in DESTINATION_VARIABLES]
            if _pipeline is None or environ != _found_in:
                receiver = destination.find(None, None, None)
                _new_pipeline(lambda: _open_stages(receiver, {}), receiver, True, 1.0)
                _found_in = environ
        assert _pipeline is not None
        return _pipeline


def flush(timeout_s: float = EXIT_TIMEOUT_S) -> bool:
    """Send what is queued in this process; returns whether all of it is stored, as `Handle.flush`
    does."""
    return _pipeline is None or _pipeline.flush(timeout_s)


def _open_stages(
    receiver: Destination, arguments: Mapping[str, Any], live: LivePipeline | None = None
) -> PipelineStages:
    from ratchet.observe.stages import open_stages

    return open_stages(receiver, arguments, exported=live is not None and live.tracer is not None)


_watched = False


def _watch_forks() -> None:
    """Reset the pipeline in forked children."""
    global _watched
    if not _watched:
        os.register_at_fork(before=_forking, after_in_child=_forked)
        _watched = True


def _forking() -> None:
    if _pipeline is not None:
        _pipeline.settle()
        if _pipeline.releases is not None:
            _pipeline.releases.settle(IMPORTS_S)


def _forked() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    if _pipeline is not None:
        _pipeline.forked()
        if _pipeline.releases is not None:
            _pipeline.releases.forked()
