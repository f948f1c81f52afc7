"""Spans of steps. Imports OpenTelemetry, so it is only imported once something is recorded."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ratchet.observe.span_template import SpanTemplate

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context

    from ratchet.observe.step_span import StepSpan


@functools.cache
def _spans() -> ModuleType:
    from ratchet.observe import step_span

    return step_span


def begin_span(template: SpanTemplate, sink: Any) -> StepSpan:
    """Begin a span."""
    span: StepSpan = _spans().begin(template, sink)
    return span


def attach(span: StepSpan) -> Token[Context]:
    """Make a span the current one."""
    token: Token[Context] = _spans().attach_span(span)
    return token


def detach(token: Token[Context]) -> None:
    """Make the previous span the current one again."""
    _spans().detach_span(token)
