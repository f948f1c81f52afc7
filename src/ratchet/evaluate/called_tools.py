"""The tool calls of a rollout, read from its spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.evaluate.json_difference import JsonComparison
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.types import InputError, Span
from ratchet.worker.evaluator import Unscored

ArgumentMatch: TypeAlias = Literal["exact", "subset", "ignore"]
"""Whether arguments must equal the expected ones, must contain them, or do not matter."""


class CalledTool(msgspec.Struct, frozen=True):
    """A call of a tool."""

    name: str
    arguments: Any = None
    """Usually an object; None if they were not recorded, or do not matter."""


def called_tools(spans: Sequence[Span]) -> list[CalledTool]:
    """The tool calls in order of time.

    Those that ran, by their spans; without any, those that the model's messages ask for. A call
    that two instruments recorded counts once.

    Raises:
        InputError: There are no spans.
    """
    if not spans:
        raise Unscored("The rollout has no spans to read tool calls from.")
    in_order = sorted(spans, key=lambda span: (span.start_ns, span.end_ns))
    ran = _ran(in_order)
    return ran if ran else _asked_for(in_order)


def expected_tools(value: Any) -> list[CalledTool]:
    """Expected calls: a list of names or of objects with `name` and `arguments`, or one object.

    Raises:
        InputError: They are neither.
    """
    # A text alone is more likely an expected answer than the name of a tool.
    listed = value if isinstance(value, list) else [value] if isinstance(value, dict) else [None]
    calls = []
    for listed_call in listed:
        function = (
            listed_call.get("function", listed_call)
            if isinstance(listed_call, dict)
            else listed_call
        )
        if isinstance(function, str):
            calls.append(CalledTool(function))
        elif isinstance(function, dict) and isinstance(function.get("name"), str):
            calls.append(CalledTool(function["name"], form.decoded(function.get("arguments"))))
        else:
            raise InputError(
                "The task's expected tool calls are not a list of names or of objects with name "
                "and arguments."
            )
    return calls


def wanted_tools(expected: Any, metadata: Mapping[str, Any]) -> list[CalledTool]:
    """The expected calls of a task: its metadata `tool_calls`, or its expected answer.

    Raises:
        InputError: It has neither, or they cannot be read.
    """
    value = metadata.get("tool_calls", expected)
    if value is None:
        raise InputError("The task has no expected tool calls.")
    return expected_tools(value)


class CallMatch:
    """Compares tool calls with expected ones.

    Args:
        arguments: How arguments are compared. Those of an expected call without arguments do not
            matter.
        tolerance: Largest difference of equal numbers.
    """

    def __init__(self, arguments: ArgumentMatch, tolerance: float) -> None:
        self._arguments = arguments
        self._comparison = JsonComparison(tolerance=tolerance, extra=arguments == "exact")

    def same(self, expected: CalledTool, got: CalledTool) -> bool:
        """Whether a call is the expected one."""
        if expected.name != got.name:
            return False
        if self._arguments == "ignore" or expected.arguments is None:
            return True
        return self._comparison.same(expected.arguments, _or_empty(got.arguments))

    def why(self, expected: CalledTool, got: CalledTool) -> str:
        """The differences between the arguments of two calls of a tool."""
        difference = self._comparison.difference(expected.arguments, _or_empty(got.arguments))
        return "; ".join(difference.notes[:3])

    def matched(
        self, expected: Sequence[CalledTool], got: Sequence[CalledTool]
    ) -> tuple[int, list[CalledTool], list[CalledTool]]:
        """Number of calls matched in any order, the missing calls, and the unexpected ones."""
        left, missing = list(got), []
        # A call that says more is matched first: it fits fewer.
        for wanted in sorted(expected, key=lambda call: call.arguments is None):
            at = next((n for n, left_call in enumerate(left) if self.same(wanted, left_call)), None)
            if at is None:
                missing.append(wanted)
            else:
                del left[at]
        return len(expected) - len(missing), missing, left


def described(calls: Iterable[CalledTool], most: int = 5) -> str:
    """Calls as text."""
    listed = list(calls)
    texts = [
        call.name if call.arguments is None else f"{call.name}({form.json_text(call.arguments)})"
        for call in listed[:most]
    ]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(text[:200] for text in texts) + more


def _or_empty(arguments: Any) -> Any:
    return {} if arguments is None else arguments


def _ran(spans: Sequence[Span]) -> list[CalledTool]:
    tools = {span.span_id: span for span in spans if _is_tool(span)}
    parents = {span.span_id: span.parent_id for span in spans}
    calls: list[CalledTool] = []
    call_ids: set[str] = set()
    for span in tools.values():
        call = CalledTool(
            str(span.attributes.get(names.TOOL_NAME) or span.name),
            form.decoded(
                span.attributes.get(names.TOOL_ARGUMENTS, span.attributes.get(names.INPUT))
            ),
        )
        call_id = span.attributes.get(names.TOOL_CALL_ID)
        above, steps = span.parent_id, 0
        while above is not None and above not in tools and steps < len(parents):
            above, steps = parents.get(above), steps + 1
        outer = tools.get(above) if above is not None else None
        if isinstance(call_id, str) and call_id in call_ids:
            continue
        if outer is not None and outer.attributes.get(names.TOOL_NAME, outer.name) == call.name:
            continue  # a second instrument's span of the same call
        if isinstance(call_id, str) and call_id:
            call_ids.add(call_id)
        calls.append(call)
    return calls


def _is_tool(span: Span) -> bool:
    operation = span.attributes.get(names.OPERATION)
    return operation == "execute_tool" or (operation is None and names.TOOL_NAME in span.attributes)


def _asked_for(spans: Sequence[Span]) -> list[CalledTool]:
    calls: list[CalledTool] = []
    call_ids: set[str] = set()
    for span in spans:
        for message in form.objects(span.attributes.get(names.OUTPUT_MESSAGES)):
            parts = message.get("parts")
            for part in parts if isinstance(parts, list) else []:
                if not isinstance(part, dict) or part.get("type") != "tool_call":
                    continue
                call_id = part.get("id")
                if isinstance(call_id, str) and call_id:
                    if call_id in call_ids:
                        continue
                    call_ids.add(call_id)
                name = part.get("name")
                calls.append(CalledTool(str(name or ""), form.decoded(part.get("arguments"))))
    return calls
