"""Tools that accept only the arguments in their schema, and name any other in the error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import ConfigDict, ValidationError

from ratchet.cli.mcp_answers import clipped, refusal

_MOST_NAME = 80
_MOST_BYTES = 100_000
"""Maximum size of an argument; Linux allows 131,072 bytes."""


class StrictTool(Tool):
    """A tool whose arguments are neither converted nor ignored."""

    @classmethod
    def of(
        cls, function: Callable[..., Awaitable[CallToolResult]], annotations: ToolAnnotations
    ) -> StrictTool:
        """A tool made from a function with annotated parameters."""
        strict_tool = cls.from_function(function, annotations=annotations)
        loose = strict_tool.fn_metadata.arg_model
        strict: Any = type(loose.__name__, (loose,), {"model_config": _STRICT})
        strict_tool.fn_metadata.arg_model = strict
        strict_tool.parameters = _short(strict.model_json_schema(by_alias=True))
        strict_tool.fn_metadata.output_schema = _short(strict_tool.fn_metadata.output_schema or {})
        assert isinstance(strict_tool, StrictTool)
        return strict_tool

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        """Run the tool, unless an argument is unknown, missing, of the wrong type or invalid."""
        for name, value in arguments.items():
            if wrong := _unusable(value):
                return refusal(f"{clipped(name, _MOST_NAME)} {wrong}")
        try:
            checked = self.fn_metadata.arg_model.model_validate(arguments)
        except ValidationError as error:
            return refusal(self._sentences(error))
        keywords = checked.model_dump_one_level()
        if self.context_kwarg is not None:
            keywords[self.context_kwarg] = context
        result = await self.fn(**keywords)
        return self.fn_metadata.convert_result(result) if convert_result else result

    def _sentences(self, error: ValidationError) -> str:
        parameters = list(self.parameters.get("properties", {}))
        sentences = []
        for problem in error.errors(include_url=False):
            name = clipped(".".join(map(str, problem["loc"])), _MOST_NAME)
            if problem["type"] == "extra_forbidden":
                near = get_close_matches(name, parameters, 1, 0.4)
                meant = f" Did you mean {near[0]}?" if near else ""
                sentences.append(f"{self.name} takes no {name!r}.{meant}")
            elif problem["type"] == "missing":
                sentences.append(f"{self.name} needs {name!r}.")
            else:
                value = clipped(repr(problem["input"]), _MOST_NAME)
                sentences.append(f"{name} = {value}: {problem['msg']}.")
        takes = ", ".join(parameters) or "nothing"
        return "\n".join([*dict.fromkeys(sentences[:8]), f"{self.name} takes: {takes}."])


_STRICT = ConfigDict(extra="forbid", strict=True)


def _unusable(value: Any) -> str:
    """Why a value cannot be an argument of a command; empty if it can."""
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            continue
        if "\0" in text:
            return "holds a NUL character, which a command's argument cannot hold."
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return "holds half of a surrogate pair, which is not valid text."
        if size > _MOST_BYTES:
            return (
                f"is too long: {size:,} bytes; the limit is {_MOST_BYTES:,}. Put a larger input "
                "into the task file, and run it as a task."
            )
    return ""


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without titles, which only repeat the names."""
    return {
        key: _short(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if key != "title" or isinstance(value, dict)
    }
