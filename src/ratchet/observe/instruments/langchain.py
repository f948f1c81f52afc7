"""LangChain and LangGraph: nests what a tool or node does under its span, and names tools'
arguments.

OpenInference learns of a run by callbacks and does not make its span current, so other spans inside
would be its siblings, or traces of their own. Both libraries run tools and nodes in a copy of the
context, in which the span can be made current without a need to restore it. And of a tool with one
argument OpenInference records the value without the name.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from ratchet.observe.capture import capture
from ratchet.observe.dialects import names
from ratchet.observe.instruments.import_hook import load, when_imported

_NAME = "_set_config_context"
_log = logging.getLogger("ratchet.observe")


def carry_spans(provider: Any) -> None:
    """Make the span of a run current where the run's code runs.

    Args:
        provider: Not used: the spans are OpenInference's.
    """
    for module in ("langchain_core.runnables.config", "langgraph._internal._runnable"):
        when_imported(module, functools.partial(_carry_in, module))
    _name_arguments()


def _name_arguments() -> None:
    tracer = load("openinference.instrumentation.langchain._tracer:OpenInferenceTracer")
    end = tracer._end_trace

    @functools.wraps(end)
    def end_with_arguments(self: Any, run: Any) -> Any:
        try:
            if run.run_type == "tool" and isinstance(run.inputs, dict):
                span = self.get_span(run.id)
                if span is not None:
                    span.set_attribute(names.TOOL_ARGUMENTS, capture(run.inputs))
        except Exception:
            _log.debug("ratchet: a tool's arguments could not be recorded.", exc_info=True)
        return end(self, run)

    tracer._end_trace = end_with_arguments


def _carry_in(name: str) -> None:
    module = load(name)
    enter = getattr(module, _NAME, None)
    if enter is None:
        _log.info("ratchet: spans inside %s are not nested under its runs.", name)
        return
    setattr(module, _NAME, _carrying(enter))


def _carrying(enter: Callable[..., Any]) -> Callable[..., Any]:
    from opentelemetry import context
    from opentelemetry.trace import set_span_in_context

    get_current_span = load("openinference.instrumentation.langchain:get_current_span")

    @functools.wraps(enter)
    def enter_with_span(*args: Any, **kwargs: Any) -> Any:
        token = enter(*args, **kwargs)
        try:
            span = get_current_span()
            if span is not None:
                # Never detached: the context is a copy that ends with the run.
                context.attach(set_span_in_context(span))
        except Exception:
            _log.debug("ratchet: a run's span could not be made current.", exc_info=True)
        return token

    return enter_with_span
