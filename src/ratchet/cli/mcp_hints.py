"""Rewrites sentences for a reader with tools and no terminal: a command becomes a tool call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_COMMAND = re.compile(r"`?\bratchet ([a-z]+)\b((?: (?:--?[a-z][\w-]*|[\w@./:=-]*\w))*)`?")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_WAYS = {"look": "look", "undo": "undo"}
"""What `ratchet init` does, by its option."""
_ID = re.compile(r"[0-9a-f]{4,}")


class Hints:
    """Rewrites commands as calls of tools.

    Args:
        tools: Parameters of each tool as a JSON schema, by name.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        self._tools = tools

    def text(self, text: str, tool: str = "") -> str:
        """Rewrite a sentence; a command without a tool stays as it is.

        Args:
            text: The sentence.
            tool: The tool that says it: its options are named as it takes them.
        """
        own = self._tools.get(tool, {}).get("properties", {})

        def named(match: re.Match[str]) -> str:
            name = match[1].replace("-", "_")
            return name if name in own else match[0]

        return _OPTION.sub(named, _COMMAND.sub(self._call, text))

    def data(self, data: Any, tool: str = "") -> Any:
        """Rewrite data whose texts are all Ratchet's own sentences."""
        if isinstance(data, str):
            return self.text(data, tool)
        if isinstance(data, list):
            return [self.data(value, tool) for value in data]
        if isinstance(data, dict):
            return {key: self.data(value, tool) for key, value in data.items()}
        return data

    def _call(self, match: re.Match[str]) -> str:
        tool, words = match[1], match[2].split()
        arguments: dict[str, Any] = {}
        if tool == "init":
            way = next((word for word in words if word[2:] in _WAYS), "")
            tool = _WAYS.get(way[2:], "wire")
            words = [word for word in words if word not in (way, "--yes")]
        tool = {"eval": "evaluate"}.get(tool, tool)
        if tool not in self._tools:
            return match[0]
        parameters = self._tools[tool]["properties"]
        if words and _ID.fullmatch(words[0]):
            name = next((name for name in ("id", "release") if name in parameters), "")
            if not name:
                return match[0]
            arguments[name] = words.pop(0)
        while words and words[0].startswith("--"):
            name = words[0][2:].replace("-", "_")
            if name not in parameters:
                return match[0]
            words.pop(0)
            if parameters[name].get("type") == "boolean":
                arguments[name] = True
            elif words:
                value = words.pop(0)
                if _is_list(parameters[name]):
                    arguments.setdefault(name, []).append(value)
                else:
                    arguments[name] = int(value) if value.isdecimal() else value
        unparsed = f" {' '.join(words)}" if words else ""
        return tool + (f" {json.dumps(arguments)}" if arguments else "") + unparsed


def _is_list(parameter: Mapping[str, Any]) -> bool:
    ways = (parameter, *parameter.get("anyOf", ()))
    return any(way.get("type") == "array" for way in ways)
