"""Whether a call that is about to begin is told already by the framework that makes it.

LangChain calls the `openai` package, which is instrumented too: without this each model call would
stand in a trace twice, and its tokens would be counted twice.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from opentelemetry.trace import Span

_MODEL_KINDS = frozenset({"LLM", "EMBEDDING"})
_MODEL_OPERATIONS = frozenset(
    {"chat", "text_completion", "generate_content", "embeddings", "chat_completion"}
)

# The callers that tell their model calls without making these spans current.
_SILENT_CALLERS = ("langchain_core.language_models", "langchain_core.embeddings")
_FRAMES = 60


def is_told_already(around: Span, starting: Mapping[str, Any]) -> bool:
    """Whether a span would say again what one around it says.

    Args:
        around: The current span.
        starting: Attributes that the new span begins with.
    """
    tool = starting.get("gen_ai.tool.name")
    if around.is_recording():
        said = {
            **(getattr(around, "attributes", None) or {}),
            # OpenInference sets the kind only when the span ends.
            **(getattr(around, "_self_important_attributes", None) or {}),
        }
        if tool is not None:
            return tool in (said.get("gen_ai.tool.name"), said.get("tool.name"))
        if (
            said.get("openinference.span.kind") in _MODEL_KINDS
            or said.get("gen_ai.operation.name") in _MODEL_OPERATIONS
        ):
            return True
    return tool is None and _is_called_by_langchain()


def _is_called_by_langchain() -> bool:
    if "openinference.instrumentation.langchain" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        name = frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith(_SILENT_CALLERS):
            return True
        frame = frame.f_back
    return False
