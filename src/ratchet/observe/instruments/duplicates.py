"""Detects spans that duplicate one of the framework that makes the same call.

LangChain calls the `openai` package, which is instrumented too: without this each model call would
be in a trace twice, and its tokens would be counted twice.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from opentelemetry.trace import NonRecordingSpan, NoOpTracer, Span, get_current_span

_MODEL_KINDS = frozenset({"LLM", "EMBEDDING"})
_MODEL_OPERATIONS = frozenset(
    {"chat", "text_completion", "generate_content", "embeddings", "chat_completion"}
)
_KIND = "openinference.span.kind"
_TOKENS = "llm.token_count."

_SILENT_CALLERS = {
    "openinference.instrumentation.langchain": (
        "langchain_core.language_models.",
        "langchain_core.embeddings.",
    ),
    "openinference.instrumentation.llama_index": (
        "llama_index.llms.",
        "llama_index.embeddings.",
        "llama_index.core.base.llms.",
        "llama_index.core.base.embeddings.",
    ),
}
"""Modules whose instrumentor records model calls without making the spans current, or without
setting their kind at the start."""

_FRAMES = 60
"""Number of stack frames searched for such a caller."""


class DuplicateSpan(NonRecordingSpan):
    """Replaces a span that duplicates the one around it, and records nothing.

    Only token counts are passed to the span around it, if that is open and lacks them, as with
    DSPy.

    Args:
        around: The current span.
        tool: Name of the called tool; None for a model.
    """

    def __init__(self, around: Span, tool: str | None) -> None:
        super().__init__(around.get_span_context())
        self.around: Span = around.around if isinstance(around, DuplicateSpan) else around
        self.tool = tool

    def is_recording(self) -> bool:
        """Like the span around it: instrumentors set token counts only on a recording span."""
        return self.around.is_recording()

    def set_attribute(self, key: str, value: Any) -> None:
        """Pass token counts on to the span around it."""
        if key.startswith(_TOKENS) and self.around.is_recording():
            attributes = _attributes_of(self.around)
            if attributes.get(_KIND) in _MODEL_KINDS and key not in attributes:
                self.around.set_attribute(key, value)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Pass token counts on to the span around it."""
        for key, value in attributes.items():
            self.set_attribute(key, value)


class SilentTracer(NoOpTracer):
    """A tracer whose spans are all duplicates."""

    def start_span(self, name: str, context: Any = None, *args: Any, **kwargs: Any) -> Span:
        """A non-recording span with the context of the current one."""
        return NonRecordingSpan(get_current_span(context).get_span_context())


def is_repeated_root(around: Span, name: str, starting: Mapping[str, Any]) -> bool:
    """Whether a span only repeats the root span of a run.

    OpenInference records a trace of the OpenAI Agents SDK as a span, and the span of the same name
    in which newer versions of the SDK keep the whole run.

    Args:
        around: The current span.
        name: The new span's name.
        starting: Initial attributes of the new span.
    """
    return (
        starting.get(_KIND) == "CHAIN"
        and around.is_recording()
        and getattr(around, "name", None) == name
        and _attributes_of(around).get(_KIND) == "AGENT"
    )


def duplicate_of(around: Span, starting: Mapping[str, Any]) -> DuplicateSpan | None:
    """The replacement of a span that duplicates the one around it; None if it is not a
    duplicate.

    Args:
        around: The current span.
        starting: Initial attributes of the new span.
    """
    tool = starting.get("gen_ai.tool.name")
    if isinstance(around, DuplicateSpan):
        return DuplicateSpan(around, tool) if around.tool == tool else None
    if around.is_recording():
        attributes = _attributes_of(around)
        if tool is not None:
            names = (attributes.get("gen_ai.tool.name"), attributes.get("tool.name"))
            return DuplicateSpan(around, tool) if tool in names else None
        if (
            attributes.get(_KIND) in _MODEL_KINDS
            or attributes.get("gen_ai.operation.name") in _MODEL_OPERATIONS
        ):
            return DuplicateSpan(around, None)
    return DuplicateSpan(around, None) if tool is None and _has_silent_caller() else None


def _attributes_of(span: Span) -> dict[str, Any]:
    return {
        **(getattr(span, "attributes", None) or {}),
        # OpenInference sets the kind only when the span ends.
        **(getattr(span, "_self_important_attributes", None) or {}),
    }


def _has_silent_caller() -> bool:
    modules = tuple(
        module
        for instrumentor, modules in _SILENT_CALLERS.items()
        if instrumentor in sys.modules
        for module in modules
    )
    frame: FrameType | None = sys._getframe(1) if modules else None
    for _ in range(_FRAMES):
        if frame is None:
            return False
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith(modules):
            return True
        frame = frame.f_back
    return False
