"""`ratchet.tool_schema`: the tool schema of a function, with its currently bound description."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from ratchet.bind import context
from ratchet.bind.code import docstring_of
from ratchet.bind.registry import declarations
from ratchet.types import Code, InputError
from ratchet.types.extras import extra


def tool_schema(function: Callable[..., Any], *, name: str | None = None) -> dict[str, Any]:
    """Return the name, description and parameters of a function, for a model that may call it.

    The description is the docstring up to its list of parameters, and each parameter's description
    is its entry there (Google, NumPy or reStructuredText style). Inside a rollout, an evolvable
    function has the candidate's docstring. Types come from the source's annotations.

    Args:
        function: The function.
        name: The tool's name; the function's own by default.

    Returns:
        `{"name", "description", "parameters"}`: the `function` of an OpenAI-compatible tool.

    Raises:
        InputError: A parameter's annotation has no JSON form.
    """
    with extra("schema", "ratchet.tool_schema"):
        from docstring_parser import parse

    signature = inspect.signature(function)
    read = parse(_docstring(function))
    descriptions = {entry.arg_name: (entry.description or "").strip() for entry in read.params}
    properties: dict[str, Any] = {}
    required: list[str] = []
    definitions: dict[str, Any] = {}
    hints = _hints(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and "." in function.__qualname__:
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        schema = _schema(function, parameter, hints.get(parameter.name, Any))
        definitions |= schema.pop("$defs", {})
        if descriptions.get(parameter.name):
            schema["description"] = descriptions[parameter.name]
        properties[parameter.name] = schema
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    described = "\n\n".join(p for p in (read.short_description, read.long_description) if p)
    shape: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if definitions:
        shape["$defs"] = definitions
    return {
        "name": name or function.__name__,
        "description": described,
        "parameters": {**shape, "additionalProperties": False},
    }


def _docstring(function: Callable[..., Any]) -> str:
    own = inspect.unwrap(getattr(function, "__func__", function))
    for resource_name, declaration in declarations().items():
        location = (declaration.file, declaration.qualname)
        if location == (own.__code__.co_filename, own.__qualname__) or (
            getattr(own, "__ratchet_evolves__", "") == resource_name
        ):
            bound = context.resolve(resource_name)
            if isinstance(bound, Code):
                return docstring_of(bound)
    return inspect.getdoc(function) or ""


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # a name that exists only for type checkers: the parameter may be anything
        return {}


def _schema(
    function: Callable[..., Any], parameter: inspect.Parameter, hint: Any
) -> dict[str, Any]:
    with extra("schema", "ratchet.tool_schema"):
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
        from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        schema = dict(TypeAdapter(hint).json_schema())
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise InputError(
            f"The parameter {parameter.name!r} of {function.__qualname__} has no JSON form: "
            f"{str(error).splitlines()[0]}",
            hint="Annotate it with a type that JSON supports, or leave the annotation out.",
        ) from None
    schema.pop("title", None)
    if parameter.default is not parameter.empty:
        try:
            schema["default"] = to_jsonable_python(parameter.default)
        except PydanticSerializationError:
            pass  # a sentinel: not shown to the model
    return schema
