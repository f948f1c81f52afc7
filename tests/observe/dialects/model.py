"""What tests expect of spans in the model."""

from __future__ import annotations

import json
from typing import Any


def messages(model: dict[str, Any], side: str) -> list[dict[str, Any]]:
    """The messages of a span in the model."""
    found = json.loads(model[f"gen_ai.{side}.messages"])
    assert isinstance(found, list)
    return found


def text(role: str, content: str, **more: Any) -> dict[str, Any]:
    """A message that is text."""
    return {"role": role, "parts": [{"type": "text", "content": content}], **more}


def call(id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """A part that asks for a tool."""
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


def answer(id: str | None, response: Any) -> dict[str, Any]:
    """A part that a tool answered."""
    return {"type": "tool_call_response", "id": id, "response": response}
