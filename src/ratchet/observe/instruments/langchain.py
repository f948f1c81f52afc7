"""LangChain and LangGraph: what a tool or a node does stands under its span.

OpenInference hears of a run by callbacks and does not make its span the current one, so everything
else that is recorded inside would stand beside it, or in a trace of its own. Both libraries run
tools and nodes in a copy of the context: there the span can be made current without a trace of it
staying behind.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ratchet.observe.instruments.imports import when_imported

_NAME = "_set_config_context"
_log = logging.getLogger("ratchet.observe")


def carry_spans(provider: Any) -> None:
    """Make the span of a run current where the run's code runs.

    Args:
        provider: Not needed: the spans are those of OpenInference.
    """
    for module in ("langchain_core.runnables.config", "langgraph._internal._runnable"):
        when_imported(module, functools.partial(_carry_in, module))


def _carry_in(name: str) -> None:
    module: ModuleType = importlib.import_module(name)
    enter = getattr(module, _NAME, None)
    if enter is None:
        _log.info("ratchet: spans inside of %s do not stand under its runs.", name)
        return
    setattr(module, _NAME, _carrying(enter))


def _carrying(enter: Callable[..., Any]) -> Callable[..., Any]:
    from opentelemetry import context
    from opentelemetry.trace import set_span_in_context

    from openinference.instrumentation.langchain import get_current_span

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
