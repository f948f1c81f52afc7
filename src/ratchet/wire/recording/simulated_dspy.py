"""What the simulated model answers to DSPy: fields under markers or in JSON, each of its type."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TYPE = r"(?: \(must be formatted as a valid Python (.+?)\)(?=,|\.|$))?"
_MARKED = re.compile(r"`\[\[ ## (\w+) ## \]\]`" + _TYPE)
_IN_JSON = re.compile(r"`(\w+)`" + _TYPE)
_ARGUMENTS = r"\b{}\b, whose description is .*?It takes arguments (\{{.*?\}})\.(?=\s|$)"
_PLAIN = {"int": 1, "float": 0.5, "bool": True}

Sample = Callable[[Any, str], Any]


def dspy_text(texts: Sequence[str], said: str, mark: str, sample: Sample) -> str | None:
    """The answer to a request of DSPy's; None if it is none.

    Args:
        texts: Of its messages, the system's first.
        said: What a field without a type says.
        mark: Of the request, in hexadecimal digits.
        sample: A value of a JSON schema.
    """
    last = texts[-1] if texts else ""
    given, _, asked = last.rpartition("Respond with ")
    in_json = asked.startswith("a JSON object in the following order of fields:")
    fields = (_IN_JSON if in_json else _MARKED).findall(asked)
    if not fields:
        return None
    values: dict[str, Any] = {}
    for name, kind in fields:
        values[name] = _value(kind, said, mark, given)
        tool = values.get("next_tool_name")
        if name == "next_tool_args" and tool:  # of ReAct
            values[name] = _arguments(str(tool), texts[0], mark, sample)
    if in_json:
        return json.dumps(values)
    values.pop("completed", None)
    blocks = [
        f"[[ ## {name} ## ]]\n{one if isinstance(one, str) else json.dumps(one)}"
        for name, one in values.items()
    ]
    return "\n\n".join([*blocks, "[[ ## completed ## ]]"])


def _value(kind: str, said: str, mark: str, given: str) -> Any:
    if kind.startswith("Literal["):
        try:
            options = ast.literal_eval(kind.removeprefix("Literal"))
        except (ValueError, SyntaxError):
            return said
        if "finish" in options:  # ReAct: each tool once
            trajectory = given.rpartition("[[ ## trajectory ## ]]")[2]
            return next((one for one in options if str(one) not in trajectory), "finish")
        return options[int(mark, 16) % len(options)]
    if kind.startswith(("list", "tuple", "set")):
        return [] if "[" in kind and "str" not in kind else [said]
    if kind.startswith("dict"):
        return {}
    return _PLAIN.get(kind, said)


def _arguments(tool: str, system: str, mark: str, sample: Sample) -> Mapping[str, Any]:
    found = re.search(_ARGUMENTS.format(re.escape(tool)), system, re.DOTALL)
    try:
        schemas = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError):
        return {}
    return {name: sample(one, mark) for name, one in schemas.items()}
