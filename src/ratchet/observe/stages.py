"""Creates the stages of the sender thread, which imports this module late: they are slow to
import."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.observe.delivery import Delivery
from ratchet.observe.destination import spool_of
from ratchet.observe.live import PipelineStages
from ratchet.observe.record_builder import RecordBuilder, Redact, RedactFeedback
from ratchet.observe.redaction import RedactionRules, redactor_of
from ratchet.observe.sending import ServerRecordTransport, SpoolRecordTransport
from ratchet.observe.spool import MemoryBacklog, SharedSpool, Spool
from ratchet.types import ConfigError

if TYPE_CHECKING:
    from ratchet.observe.destination import Destination
    from ratchet.observe.forwarding import OtlpForwarder
    from ratchet.observe.redaction import Redactor

_log = logging.getLogger("ratchet")

FORWARD_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def open_stages(
    destination: Destination, arguments: Mapping[str, Any], *, exported: bool = False
) -> PipelineStages:
    """Create the stages for a destination.

    Args:
        destination: The destination.
        arguments: Arguments of `ratchet.init`; empty without it.
        exported: Whether an OpenTelemetry set-up of the user exports the spans already.
    """
    content = bool(arguments.get("capture_content", True))
    redact, redact_feedback = _redaction(arguments.get("redact", True), content, destination)
    builder = RecordBuilder(
        destination.agent, content=content, redact=redact, redact_feedback=redact_feedback
    )
    delivery = _delivery(destination, bool(arguments.get("spool", True)))
    forwarder = _forwarder(arguments.get("forward", False), destination.agent, exported)
    if forwarder is None:
        return PipelineStages(builder, delivery)
    return PipelineStages(builder, delivery, forwarder.put, forwarder.close)


def _delivery(destination: Destination, on_disk: bool) -> Delivery:
    if not destination.server:
        # What cannot be written is written by the next attempt, or as the process ends.
        spool = spool_of(destination.spool, destination.root, SharedSpool)
        return Delivery(SpoolRecordTransport(spool), spool, time.monotonic)
    backlog = spool_of(destination.spool, destination.root, Spool) if on_disk else MemoryBacklog()
    return Delivery(
        ServerRecordTransport(destination.server, destination.key), backlog, time.monotonic
    )


def _redaction(
    option: Any, content: bool, destination: Destination
) -> tuple[Redact | None, RedactFeedback]:
    """The redactors of spans and of feedback.

    A function of the user's own redacts spans; feedback then follows the project's rules.
    """
    off = redactor_of(RedactionRules(enabled=False, capture_content=content), {})
    if option is False or option is None:
        return None, off.feedback
    record, feedback = getattr(option, "record", option), getattr(option, "feedback", None)
    if option is True or not callable(record):
        record = None
    if record is None or (feedback is None and content):
        rules = _configured(destination)
        record = record or rules.record
        feedback = feedback or (rules.feedback if content else None)
    return record, feedback or off.feedback


def _configured(destination: Destination) -> Redactor:
    """The redactor of the project's rules."""
    try:
        rules = msgspec.convert(destination.config.get("redaction", {}), RedactionRules)
        return redactor_of(rules, os.environ)
    except (msgspec.ValidationError, ConfigError) as error:
        # Unreadable rules may be the ones that matter.
        _log.warning("[redaction] cannot be read (%s): no contents are kept.", error)
        return redactor_of(RedactionRules(capture_content=False), os.environ)


def _forwarder(option: Any, agent: str, exported: bool) -> OtlpForwarder | None:
    """The forwarder of spans; None if there is no back end, or its exporter is missing."""
    endpoint = option if isinstance(option, str) else ""
    if option is False:
        return None
    if not endpoint and (exported or not any(os.environ.get(name) for name in FORWARD_VARIABLES)):
        if option:
            _log.warning("forward=True needs a back end: set %s.", FORWARD_VARIABLES[1])
        return None
    from ratchet.observe.forwarding import OtlpForwarder

    try:
        return OtlpForwarder(endpoint, agent)
    except Exception as error:
        _log.warning("%s", error)
        return None
