"""Blocks of code in a text, and the JSON value of one."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCE = re.compile(r"```[^\S\n]*[\w+#.-]*[^\S\n]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)


def code_blocks(text: str) -> list[str]:
    """The fenced blocks of a text in order, without empty ones."""
    return [block.strip("\n") for block in _FENCE.findall(text) if block.strip()]


def json_in(value: Any) -> Any:
    """The value that a text holds as JSON, alone or in its last block of code.

    Args:
        value: A text; anything else is returned as it is.

    Raises:
        ValueError: The text holds no JSON, or JSON nested too deep.
    """
    if not isinstance(value, str):
        return value
    wrong = ""
    for text in (value, *reversed(code_blocks(value))):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            wrong = wrong or str(error)
    raise ValueError(wrong)
