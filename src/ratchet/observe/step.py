"""One step of an agent as a span: `agent`, `rollout`, `tool`, `trace`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

import msgspec

from ratchet.observe.capture import capture
from ratchet.observe.collector import Collector, current_collector
from ratchet.types import RatchetError

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span as OtelSpan

P = ParamSpec("P")
R = TypeVar("R")
Kind = Literal["agent", "tool", "step"]

ENTRY_MARK = "__ratchet_entry__"
"""Attribute of functions that may be a rollout's entry: `agent` or `rollout`."""


class SideEffectBlocked(RatchetError):
    """A tool with side effects was called in a rollout: the rollout ends as `inconclusive`."""


class _Plan(msgspec.Struct, frozen=True):
    """What the spans of one step look like."""

    name: str
    kind: Kind
    input_key: str = "ratchet.input"
    output_key: str = "ratchet.output"
    side_effects: bool = False
    attributes: dict[str, Any] = {}


class Step:
    """A running step. Use it as `with ratchet.trace("name") as step`.

    Outside of rollouts it costs next to nothing and records nothing.
    """

    __slots__ = ("_attach", "_collector", "_plan", "_span", "_token")

    def __init__(self, plan: _Plan, *, attach: bool = True) -> None:
        self._attach = attach
        self._plan = plan
        self._collector: Collector | None = None
        self._span: OtelSpan | None = None
        self._token: Token[Context] | None = None

    def __enter__(self) -> Step:
        collector = current_collector()
        if collector is None:
            return self
        from opentelemetry import context as otel
        from opentelemetry.trace import set_span_in_context

        from ratchet.observe.tracer import tracer

        self._collector = collector
        self._span = tracer().start_span(self._plan.name, attributes=self._plan.attributes)  # type: ignore[assignment]
        if self._attach:
            self._token = otel.attach(set_span_in_context(self._span))  # type: ignore[arg-type]
        return self

    def set(self, key: str, value: Any) -> None:
        """Add an attribute; what is neither text, number nor boolean is kept as JSON."""
        if self._span is not None:
            plain = isinstance(value, (str, bool, int, float))
            self._span.set_attribute(key, value if plain else capture(value))

    @property
    def recording(self) -> bool:
        """Whether anything is kept of this step."""
        return self._span is not None

    @property
    def input(self) -> None:
        """Assign to record the step's input."""

    @input.setter
    def input(self, value: Any) -> None:
        if self._span is not None:
            self._span.set_attribute(self._plan.input_key, capture(value))

    @property
    def output(self) -> None:
        """Assign to record the step's output."""

    @output.setter
    def output(self, value: Any) -> None:
        if self._span is not None:
            self._span.set_attribute(self._plan.output_key, capture(value))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        span, collector, token = self._span, self._collector, self._token
        if span is None or collector is None:
            return
        self._span = None
        from opentelemetry import context as otel
        from opentelemetry.trace import Status, StatusCode

        from ratchet.observe.tracer import deliver

        if error is not None and not isinstance(error, GeneratorExit):
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        if token is not None:
            otel.detach(token)
        span.end()
        deliver(span, collector)


def _wrap(function: Callable[..., Any], plan: _Plan) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def begin(step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not step.recording:
            return
        step.input = _arguments(signature, args, kwargs)
        if plan.side_effects:
            collector = current_collector()
            if collector is not None and not collector.blocked:
                collector.blocked = plan.name
            raise SideEffectBlocked(
                f"The tool {plan.name!r} has side effects and no recorded result to replay, so it"
                " does not act in a rollout."
            )

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            if current_collector() is None:
                return await function(*args, **kwargs)
            with Step(plan) as step:
                begin(step, args, kwargs)
                step.output = result = await function(*args, **kwargs)
                return result

        return run_async

    # A generator is resumed from other contexts than it began in, so its span is not made current.
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def iterate_async(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            items: list[Any] = []
            with Step(plan, attach=False) as step:
                begin(step, args, kwargs)
                async for item in function(*args, **kwargs):
                    items.append(item)
                    yield item
                step.output = items

        return iterate_async

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            items: list[Any] = []
            with Step(plan, attach=False) as step:
                begin(step, args, kwargs)
                for item in function(*args, **kwargs):
                    items.append(item)
                    yield item
                step.output = items

        return iterate

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if current_collector() is None:
            return function(*args, **kwargs)
        with Step(plan) as step:
            begin(step, args, kwargs)
            step.output = result = function(*args, **kwargs)
            return result

    return run


def _arguments(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:  # the call itself will say what is wrong with its arguments
        return {"args": args, "kwargs": kwargs}
    return {name: value for name, value in bound.items() if name not in ("self", "cls")}


@overload
def agent(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(*, name: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def agent(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark the agent's entry: a call is a rollout.

    Args:
        function: The function, sync or async; its parameters take the task's input.
        name: The agent's name in traces; the function's own by default.
    """
    if function is None:
        return functools.partial(_agent, name=name)
    return _agent(function, name)


def _agent(function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    shown = name or function.__name__
    wrapped = _wrap(
        function,
        _Plan(
            shown,
            "agent",
            attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": shown},
        ),
    )
    setattr(wrapped, ENTRY_MARK, "agent")
    return wrapped


def rollout(function: Callable[P, R]) -> Callable[P, R]:
    """Mark an entry in the trainer form: `def agent(task, prompt_template) -> reward`.

    The first parameter takes the task's input, the others the resources of their names. A returned
    number is the rollout's `reward`.
    """
    wrapped = _wrap(
        function,
        _Plan(
            function.__name__,
            "agent",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": function.__name__,
            },
        ),
    )
    setattr(wrapped, ENTRY_MARK, "rollout")
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
        name: The tool's name in traces; the function's own by default.
        side_effects: True when a call changes the world (sends, books, pays, deletes). Such a tool
            never acts in learning: the rollout that calls it ends as `inconclusive`.
    """
    if function is None:
        return functools.partial(_tool, name=name, side_effects=side_effects)
    return _tool(function, name, side_effects)


def _tool(function: Callable[..., Any], name: str | None, side_effects: bool) -> Callable[..., Any]:
    shown = name or function.__name__
    return _wrap(
        function,
        _Plan(
            shown,
            "tool",
            input_key="gen_ai.tool.call.arguments",
            output_key="gen_ai.tool.call.result",
            side_effects=side_effects,
            attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": shown},
        ),
    )


class _Trace(Step):
    """`ratchet.trace("name")`: a context manager, and a decorator too."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        return _wrap(function, self._plan)


@overload
def trace(name: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def trace(name: str, /, **attributes: str | bool | int | float) -> _Trace: ...
def trace(name: Any, /, **attributes: str | bool | int | float) -> Any:
    """Record a step: `@ratchet.trace`, `@ratchet.trace("name")`, `with ratchet.trace("name"): ...`.

    Args:
        name: The function, or the step's name.
        attributes: Attributes of the span.
    """
    if callable(name):
        return _wrap(name, _Plan(name.__name__, "step", attributes=attributes))
    return _Trace(_Plan(name, "step", attributes=attributes))
