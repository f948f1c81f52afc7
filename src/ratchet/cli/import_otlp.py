"""OTLP JSON files as a format of `ratchet import`: the same requests that the server accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.curate.importing import Format, FormatMismatch, ImportContext, ImportedRecords
from ratchet.server.otlp.limits import MAX_SPANS, Malformed, TooMany
from ratchet.server.otlp.messages import decode_json
from ratchet.server.otlp.records import UNKNOWN_AGENT, describe, records_of
from ratchet.types import SpanRecord


def matches(value: Any) -> bool:
    """Whether a value looks like an ExportTraceServiceRequest."""
    return isinstance(value, Mapping) and isinstance(value.get("resourceSpans"), list)


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """A request's spans, imported as live traffic whatever rollouts they name.

    Raises:
        FormatMismatch: It is not a request, or holds no span that can be stored.
    """
    try:
        request = decode_json(msgspec.json.encode(value))
    except Malformed as error:
        raise FormatMismatch(str(error).rstrip(".")) from None
    except TooMany:
        raise FormatMismatch(
            f"it holds more than {MAX_SPANS} spans, or too many JSON objects within them"
        ) from None
    records = records_of(request, None)
    if not records.kept:
        why = describe(records.rejected).removesuffix(".")
        raise FormatMismatch(why[:1].lower() + why[1:] if why else "it holds no spans")
    rejected = describe(records.rejected)
    return ImportedRecords(
        spans=tuple(_renamed(record, context) for record in records.kept),
        skipped=(rejected,) if rejected else (),
    )


def _renamed(record: SpanRecord, context: ImportContext) -> SpanRecord:
    stated = record.agent if record.agent != UNKNOWN_AGENT else ""
    agent = context.agent_name(stated)
    return record if record.agent == agent else msgspec.structs.replace(record, agent=agent)


OTLP = Format(
    matches, read, "resourceSpans", frozenset({"resourceSpans", "scopeSpans", "resource"})
)
