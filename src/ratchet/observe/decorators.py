"""Decorators that mark an agent's functions: `agent`, `rollout`, `tool`, `retriever`, `llm_call`,
`trace`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from ratchet.observe.capture import capture, readable
from ratchet.observe.span_template import SpanTemplate
from ratchet.observe.step import Step, wrap

P = ParamSpec("P")
R = TypeVar("R")

ENTRY_MARK = "__ratchet_entry__"
"""Attribute of a function that may be a rollout's entry; its value is `agent` or `rollout`."""

LLM_LIMIT = 131_072
"""Maximum number of characters of a model call's messages; more than for other steps."""


_DESCRIPTORS = (classmethod, staticmethod, property, functools.cached_property)


class NamedStep(Step):
    """A step with a given name: a context manager and a decorator."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        marked: Callable[P, R] = wrap(function, self._template)
        return marked


@overload
def agent(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(
    *, name: str | None = None, mirror: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def agent(function: Any = None, /, *, name: str | None = None, mirror: bool = False) -> Any:
    """Mark the agent's entry: a call is a rollout.

    Args:
        function: The function, sync or async; its parameters take the task's input.
        name: The agent's name in traces; the function's name by default.
        mirror: Whether live calls may be repeated elsewhere, later, for a candidate. Mark every
            tool that changes the world with `side_effects=True`: it does not act there.
    """
    if function is None:
        return functools.partial(_entry, mark="agent", name=name, mirror=mirror)
    return _entry(function, "agent", name, mirror=mirror)


def rollout(function: Callable[P, R]) -> Callable[P, R]:
    """Mark an entry in the trainer form: `def agent(task, prompt_template) -> reward`.

    The first parameter takes the task's input, the others the resources with their names. A
    returned number is the rollout's `reward`.
    """
    marked: Callable[P, R] = _entry(function, "rollout", None)
    return marked


MIRROR = "ratchet.mirror"
"""Attribute of the root span of a call that may be repeated for a candidate."""


def _entry(function: Any, mark: str, name: str | None, *, mirror: bool = False) -> Any:
    display_name = _shown(name, function)
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": display_name,
    }
    if mirror:
        attributes[MIRROR] = True
    wrapped = wrap(function, SpanTemplate(display_name, "agent", attributes=attributes))
    setattr(wrapped, ENTRY_MARK, mark)
    return wrapped


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    *, name: str | None = None, side_effects: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(function: Any = None, /, *, name: str | None = None, side_effects: bool = False) -> Any:
    """Mark a tool of the agent.

    Args:
        function: The function, sync or async.
        name: The tool's name in traces; the function's name by default.
        side_effects: Whether a call changes the world (sends, books, pays, deletes). Such a tool
            never runs in a rollout: a rollout that calls it ends as `inconclusive`.
    """
    if function is None:
        return functools.partial(tool, name=name, side_effects=side_effects)
    display_name = _shown(name, function)
    template = SpanTemplate(
        display_name,
        "tool",
        input_key="gen_ai.tool.call.arguments",
        output_key="gen_ai.tool.call.result",
        side_effects=side_effects,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": display_name},
    )
    return wrap(function, template)


@overload
def retriever(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def retriever(*, name: str | None = None) -> NamedStep: ...
def retriever(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a search of the agent: `@ratchet.retriever`, or `with ratchet.retriever(name="docs")`.

    Args:
        function: The function, sync or async. Its argument `query`, or its only text argument, is
            the query; its result is the documents.
        name: The search's name in traces; the function's name by default.
    """
    template = SpanTemplate(
        _shown(name, function) if function is not None else readable(name or "retrieval"),
        "retriever",
        output_key="gen_ai.retrieval.documents",
        attributes={"gen_ai.operation.name": "retrieval"},
    )
    if function is not None:
        return wrap(function, template)
    return _Unnamed(template) if name is None else NamedStep(template)


@overload
def llm_call(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def llm_call(*, name: str | None = None, model: str = "", provider: str = "") -> NamedStep: ...
def llm_call(
    function: Any = None, /, *, name: str | None = None, model: str = "", provider: str = ""
) -> Any:
    """Mark a model call: `@ratchet.llm_call`, or `with ratchet.llm_call(model="small") as call`.

    Args:
        function: The function, sync or async, or a generator that yields what the model streams.
            Its argument `messages`, or its only text argument, is the request; the result is a
            text, a message or a response in the form of the chat APIs.
        name: The call's name in traces; the function's name by default.
        model: The model, unless an argument `model` names it.
        provider: The model's provider, such as "openai".

    Example:
        with ratchet.llm_call(model="small") as call:
            call.input = {"messages": messages}
            call.output = client.chat.completions.create(model="small", messages=messages)
    """
    attributes = {"gen_ai.operation.name": "chat"}
    if model:
        attributes["gen_ai.request.model"] = readable(str(model))
    if provider:
        attributes["gen_ai.provider.name"] = readable(str(provider))
    template = SpanTemplate(
        _shown(name, function)
        if function is not None
        else readable(name or f"chat {model}".strip()),
        "llm",
        attributes=attributes,
        limit=LLM_LIMIT,
    )
    if function is not None:
        return wrap(function, template)
    return _Unnamed(template) if name is None else NamedStep(template)


@overload
def trace(name: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def trace(name: str, /, **attributes: str | bool | int | float) -> NamedStep: ...
def trace(name: Any, /, **attributes: str | bool | int | float) -> Any:
    """Record a step: `@ratchet.trace`, `@ratchet.trace("name")`, `with ratchet.trace("name"): ...`.

    Args:
        name: The function, or the step's name.
        attributes: Attributes of the span.
    """
    plain_attributes = {key: _plain(value) for key, value in attributes.items()}
    if callable(name) or isinstance(name, _DESCRIPTORS):
        return wrap(name, SpanTemplate(_shown(None, name), "step", attributes=plain_attributes))
    return NamedStep(SpanTemplate(readable(str(name)), "step", attributes=plain_attributes))


class _Unnamed(NamedStep):
    """A step without a name: as a decorator it takes the function's name."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from msgspec.structs import replace

        marked: Callable[P, R] = wrap(
            function, replace(self._template, name=_shown(None, function))
        )
        return marked


def _shown(name: str | None, function: Any) -> str:
    """The given name, or the function's, or the class name of a callable object."""
    if isinstance(function, property):
        function = function.fget
    elif isinstance(function, functools.cached_property):
        function = function.func
    return readable(str(name or getattr(function, "__name__", type(function).__name__)))


def _plain(value: Any) -> Any:
    if type(value) is str:
        return readable(value)
    return value if type(value) in (bool, int, float) else capture(value)
