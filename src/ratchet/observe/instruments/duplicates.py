"""Whether a call that is about to begin is told already by the framework that makes it.

LangChain calls the `openai` package, which is instrumented too: without this each model call would
stand in a trace twice, and its tokens would be counted twice.
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
"""Modules that tell their model calls, when the instrumentor is there, without making these spans
current or without saying at once what they are."""

_FRAMES = 60
"""How far up the stack such a caller is looked for."""


class DuplicateSpan(NonRecordingSpan):
    """Stands in for a span that would say again what one around it says, and keeps nothing.

    Only the tokens go to the one around, where that is still open and does not know them: DSPy
    leaves them out.

    Args:
        around: The current span.
        tool: Name of the tool that is called, None for a model.
    """

    def __init__(self, around: Span, tool: str | None) -> None:
        super().__init__(around.get_span_context())
        self.around: Span = around.around if isinstance(around, DuplicateSpan) else around
        self.tool = tool

    def is_recording(self) -> bool:
        """True, or nobody would say the tokens."""
        return self.around.is_recording()

    def set_attribute(self, key: str, value: Any) -> None:
        """Pass on tokens."""
        if key.startswith(_TOKENS) and self.around.is_recording():
            attributes = _attributes_of(self.around)
            if attributes.get(_KIND) in _MODEL_KINDS and key not in attributes:
                self.around.set_attribute(key, value)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Pass on tokens."""
        for key, value in attributes.items():
            self.set_attribute(key, value)


class SilentTracer(NoOpTracer):
    """A tracer for spans that are all told already by others."""

    def start_span(self, name: str, context: Any = None, *args: Any, **kwargs: Any) -> Span:
        """Nothing, in the place of the current span."""
        return NonRecordingSpan(get_current_span(context).get_span_context())


def duplicate_of(around: Span, starting: Mapping[str, Any]) -> DuplicateSpan | None:
    """What stands in for a span that would say again what one around it says; None if it is new.

    Args:
        around: The current span.
        starting: Attributes that the new span begins with.
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
