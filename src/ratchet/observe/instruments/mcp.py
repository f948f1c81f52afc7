"""MCP: records a client's tool calls, with arguments and result.

From version 2 on the library has spans of its own, without arguments and results; they propagate
the trace to the server and are recorded too.
"""

from __future__ import annotations

import functools
from typing import Any

from ratchet.observe.capture import capture
from ratchet.observe.dialects import names
from ratchet.observe.instruments.import_hook import load


def switch_on(provider: Any) -> None:
    """Record the tool calls of sessions.

    Args:
        provider: Where spans go.
    """
    session = load("mcp.client.session:ClientSession")
    tracer = provider.get_tracer("ratchet.mcp")
    call_tool = session.call_tool

    @functools.wraps(call_tool)
    async def call_tool_seen(
        self: Any, name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        attributes = {
            names.OPERATION: "execute_tool",
            names.TOOL_NAME: str(name),
            names.TOOL_ARGUMENTS: capture(arguments or {}),
        }
        with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
            result = await call_tool(self, name, arguments, *args, **kwargs)
            if span.is_recording():
                span.set_attribute(names.TOOL_RESULT, capture(_content(result)))
                if getattr(result, "isError", getattr(result, "is_error", False)):
                    _mark(span)
            return result

    session.call_tool = call_tool_seen
    try:
        own = load("mcp.shared._otel")
    except ImportError:  # before version 2
        return
    own._tracer = provider.get_tracer("mcp-python-sdk")


def _content(result: Any) -> Any:
    """The tool's result, without the protocol's wrapper."""
    parts = getattr(result, "content", None)
    if not isinstance(parts, list):
        return result
    texts = [part.text for part in parts if getattr(part, "type", "") == "text"]
    if len(texts) < len(parts):
        return parts
    return texts[0] if len(texts) == 1 else texts


def _mark(span: Any) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, "The tool answered with an error."))
