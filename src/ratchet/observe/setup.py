"""`ratchet.init`: from here on, what the process's agent does is captured."""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ratchet.observe import destination
from ratchet.observe.collector import set_live
from ratchet.observe.destination import Destination
from ratchet.observe.live import EXIT_S, CaptureStatus, LivePipeline, PipelineStages
from ratchet.types import ConfigError, SpanRecord

if TYPE_CHECKING:
    from ratchet.observe.otel_bridge import OtelBridge
    from ratchet.observe.record_builder import Redact

_log = logging.getLogger("ratchet")

DISABLED_VARIABLE = "RATCHET_DISABLED"
FORWARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Handle:
    """What `init` returns: to flush, to end, and to see what became of the spans."""

    def __init__(
        self,
        live: LivePipeline | None = None,
        bridge: OtelBridge | None = None,
        instruments: tuple[str, ...] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._live = live
        self._bridge = bridge
        self._arguments = arguments
        self.instruments = instruments
        """Names of the libraries that are instrumented, or will be when they are imported."""

    def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Send the spans that have ended so far, and what `ratchet.feedback` was told.

        Args:
            timeout_s: How long to wait for it.

        Returns:
            Whether all of it is stored now. What is not is sent later.
        """
        from ratchet.observe import feedback_sending

        deadline = time.monotonic() + timeout_s
        stored = self._live is None or self._live.flush(timeout_s)
        return feedback_sending.flush(max(0.0, deadline - time.monotonic())) and stored

    def shutdown(self, timeout_s: float = EXIT_S) -> None:
        """Send what there is, within a bound, and capture no more; `init` may be called again.

        Feedback that was given so far goes where this sends to.

        Args:
            timeout_s: How long to wait. What is not sent by then waits on disk.
        """
        global _handle
        from ratchet.observe import feedback_sending

        deadline = time.monotonic() + timeout_s
        if _handle is self:
            # First: where feedback goes depends on the handle.
            feedback_sending.close(timeout_s / 2)
        with _lock:
            if _handle is self:
                _handle = None
                set_live(None)
        if self._bridge is not None:
            self._bridge.disconnect()
        if self.instruments:
            from ratchet.observe import instruments

            instruments.install(None)
        if self._live is not None:
            self._live.shutdown(max(0.0, deadline - time.monotonic()))
            atexit.unregister(self._live.shutdown)

    def keep(self, trace_id: str = "", conversation: str = "") -> None:
        """Keep a trace, or all traces of a conversation, whatever sampling says.

        Args:
            trace_id: The trace's id, 32 hex digits.
            conversation: The conversation's id.
        """
        if self._live is not None:
            self._live.keep(trace_id, conversation)

    def status(self) -> CaptureStatus:
        """What became of the spans of this process so far."""
        return CaptureStatus(on=False) if self._live is None else self._live.status()

    def __repr__(self) -> str:
        status = self.status()
        return f"<ratchet: {status.agent} to {status.target}>" if status.on else "<ratchet: off>"


_handle: Handle | None = None
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
) -> Handle:
    """Capture what the agent of this process does. Never raises, and never makes the agent wait.

    Called again it returns the same handle. RATCHET_DISABLED=1 makes it do nothing. What cannot be
    done is told in one warning of the logger `ratchet`, and the program goes on.

    Args:
        agent: The agent's name. Left out: RATCHET_AGENT, the entry in `ratchet.toml`, or the
            script's name.
        url: A server's address, or a store's URL. Left out: RATCHET_URL, or the store of the
            project: RATCHET_STORE, or `.ratchet/` beside the nearest `ratchet.toml`, or in the
            working directory. It is made when the first span ends.
        key: The server's key; RATCHET_KEY when left out.
        instrument: Whether libraries are instrumented.
        capture_content: Whether inputs, outputs and messages are kept.
        sample: The share of traces that is kept. Those with an error or bad feedback always are, as
            far as either comes within a minute.
        redact: Whether secrets are taken out before anything leaves the process, by the rules of
            `[redaction]` in `ratchet.toml`; or a `Redactor`, or a function of a `SpanRecord`.
        forward: The address of another OTLP back end that gets the same spans. Left out: that of
            OTEL_EXPORTER_OTLP_ENDPOINT, unless the process has an OpenTelemetry set-up of its own.
            False for none.
        spool: Whether spans wait on disk while nobody takes them.
        carry_threads: Whether threads and thread pools begin in the trace of whoever started them.

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
                _log.warning("ratchet.init was called before; its arguments of then hold.")
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
    """Whether capture is switched off for the process."""
    return environ.get(DISABLED_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def current() -> Handle | None:
    """The handle of `init`, or None when it was not called."""
    return _handle


def _start(arguments: Mapping[str, Any]) -> Handle:
    found = destination.find(arguments["agent"], arguments["url"], arguments["key"])
    redact = _redaction(arguments["redact"], found)
    live = LivePipeline(
        lambda: _stages(arguments, found, redact, live),
        target=found.server or ("store" if "@" in found.store else found.store),
        agent=found.agent,
        content=bool(arguments["capture_content"]),
        sample=_share(arguments["sample"]),
    )
    # A handler of signals that came while the first step imports this would find it half made.
    import ratchet.observe.step_span  # noqa: F401

    bridge = _bridged(live)
    set_live(live)
    instruments = _instrumented(bridge) if arguments["instrument"] else ()
    if arguments["carry_threads"]:
        from ratchet.observe.thread_context import carry_spans

        carry_spans()
    atexit.register(live.shutdown)
    _watch_forks(live)
    if arguments["spool"] and found.spool.parent.is_dir():
        from ratchet.observe.spool import waits

        if waits(found.spool):
            live.start()
        if waits(found.feedback_spool):
            from ratchet.observe import feedback_sending

            feedback_sending.start()
    return Handle(live, bridge, instruments, arguments)


def _stages(
    arguments: Mapping[str, Any],
    found: Destination,
    redact: Callable[[], Redact | None],
    live: LivePipeline,
) -> PipelineStages:
    """What the sending thread works with. Called by it: all of this is slow to import."""
    from ratchet.observe.backlogs import span_backlog
    from ratchet.observe.delivery import Delivery
    from ratchet.observe.record_builder import RecordBuilder
    from ratchet.observe.sending import RecordTransport, ServerRecordTransport, StoreRecordTransport

    transport: RecordTransport[SpanRecord]
    if found.server:
        transport = ServerRecordTransport(found.server, found.key)
    else:
        transport = StoreRecordTransport(found.store, found.root)
    builder = RecordBuilder(found.agent, content=live.content, redact=redact())
    backlog = span_backlog(found, on_disk=bool(arguments["spool"]))
    delivery = Delivery(transport, backlog, time.monotonic, kind=SpanRecord, plural="Spans")
    forwarder = _forwarding(arguments["forward"], found.agent, live)
    if forwarder is None:
        return PipelineStages(builder, delivery)
    return PipelineStages(builder, delivery, forwarder.put, forwarder.close)


def _redaction(option: Any, found: Destination) -> Callable[[], Redact | None]:
    """Makes what is done to each record; in the sending thread, where it is imported."""
    if option is False or option is None:
        return lambda: None
    record = getattr(option, "record", option)
    if option is not True and callable(record):
        return lambda: record

    def make() -> Redact:
        import msgspec

        from ratchet.observe.redaction import RedactionRules, redactor_of

        try:
            rules = msgspec.convert(found.config.get("redaction", {}), RedactionRules)
            return redactor_of(rules, os.environ).record
        except (msgspec.ValidationError, ConfigError) as error:
            # Rules that cannot be read may be the ones that matter.
            _log.warning("[redaction] cannot be read (%s): no contents are kept.", error)
            return redactor_of(RedactionRules(capture_content=False), os.environ).record

    return make


def _share(sample: Any) -> float:
    if isinstance(sample, (int, float)) and not isinstance(sample, bool):
        share = float(sample)
        if math.isfinite(share) and 0 <= share <= 1:
            return share
    _log.warning("sample=%r is no share in [0, 1]: every trace is kept.", sample)
    return 1.0


def _bridged(live: LivePipeline) -> OtelBridge:
    from ratchet.observe.otel_bridge import OtelBridge
    from ratchet.observe.rollout_capture import take_over

    taken = take_over(live)
    if taken is not None:
        return taken
    bridge = OtelBridge(live)
    try:
        bridge.connect()
    except Exception as error:
        _log.warning("OpenTelemetry could not be joined: %s: %s", type(error).__name__, error)
    return bridge


def _instrumented(bridge: OtelBridge) -> tuple[str, ...]:
    try:
        from ratchet.observe import instruments

        return tuple(instruments.install(bridge.provider))
    except Exception as error:
        _log.warning("Libraries could not be instrumented: %s: %s", type(error).__name__, error)
        return ()


def _forwarding(option: Any, agent: str, live: LivePipeline) -> Any:
    """What forwards spans; None when nothing is to, or can."""
    endpoint = option if isinstance(option, str) else ""
    if option is False:
        return None
    if not endpoint and (
        # A set-up of the user's exports its spans itself.
        live.tracer is not None or not any(os.environ.get(name) for name in FORWARD_VARIABLES)
    ):
        if option:
            _log.warning("forward=True names no back end: set %s.", FORWARD_VARIABLES[1])
        return None
    from ratchet.observe.forwarding import OtlpForwarder

    try:
        return OtlpForwarder(endpoint, agent)
    except Exception as error:
        _log.warning("%s", error)
        return None


_watched: LivePipeline | None = None


def _watch_forks(live: LivePipeline) -> None:
    """Have the pipeline begin anew in child processes."""
    global _watched
    if _watched is None:
        os.register_at_fork(before=_forking, after_in_child=_forked)
    _watched = live


def _forking() -> None:
    if _watched is not None:
        _watched.settle()


def _forked() -> None:
    if _watched is not None:
        _watched.forked()
