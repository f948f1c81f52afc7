"""One step of an agent as a span: `agent`, `rollout`, `tool`, `trace`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import traceback
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

import msgspec

from ratchet.observe.capture import CAPTURE_LIMIT, capture, shorten
from ratchet.observe.collector import Collector, block, current_collector
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
            if isinstance(value, str):
                value = shorten(value)
            elif not isinstance(value, (bool, int, float)):
                value = capture(value)
            self._span.set_attribute(key, value)

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
        trace: TracebackType | None,
    ) -> None:
        span, collector, token = self._span, self._collector, self._token
        if span is None or collector is None:
            return
        self._span = None
        from opentelemetry import context as otel
        from opentelemetry.trace import Status, StatusCode

        from ratchet.observe.tracer import deliver

        if error is not None and not isinstance(error, GeneratorExit):
            said = shorten("".join(traceback.format_exception_only(error)).strip())
            # An exception whose text cannot be had must not hide itself behind that.
            with contextlib.suppress(Exception):
                span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, said))
        if token is not None:
            otel.detach(token)
        span.end()
        deliver(span, collector)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call has to be awaited: a coroutine function, or an object with an async call."""
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function)
        and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    )


def _wrap(function: Callable[..., Any], plan: _Plan) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def begin(step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if step.recording:
            step.input = _arguments(signature, args, kwargs)
        refuse()

    def refuse() -> None:
        # Outside of rollouts too: a child process of an agent records nothing, and may not act.
        if plan.side_effects and block(plan.name):
            raise SideEffectBlocked(
                f"The tool {plan.name!r} has side effects and no recorded result to replay, so it"
                " does not act in a rollout."
            )

    if is_async(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            if current_collector() is None:
                refuse()
                return await function(*args, **kwargs)
            with Step(plan) as step:
                begin(step, args, kwargs)
                step.output = result = await function(*args, **kwargs)
                return result

        return run_async

    # A generator is resumed from other contexts than it began in, so its span is not made current.
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def iterate_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            with Step(plan, attach=False) as step:
                begin(step, args, kwargs)
                items: list[Any] = []
                async with contextlib.aclosing(function(*args, **kwargs)) as generator:
                    coming = generator.asend(None)
                    while True:
                        try:
                            item = await coming
                        except StopAsyncIteration:
                            break
                        _keep(items, item, step)
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # thrown in by whoever iterates
                            coming = generator.athrow(error)
                        else:
                            coming = generator.asend(sent)
                step.output = items

        return iterate_async

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with Step(plan, attach=False) as step:
                begin(step, args, kwargs)
                items: list[Any] = []
                result = yield from _Kept(function(*args, **kwargs), items, step)
                step.output = items
                return result

        return iterate

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if current_collector() is None:
            refuse()
            return function(*args, **kwargs)
        with Step(plan) as step:
            begin(step, args, kwargs)
            step.output = result = function(*args, **kwargs)
            return result

    return run


class _Kept(Generator[Any, Any, Any]):
    """A generator, and what it yields in a list."""

    def __init__(self, generator: Generator[Any, Any, Any], items: list[Any], step: Step) -> None:
        self._generator = generator
        self._items = items
        self._step = step

    def send(self, value: Any) -> Any:
        item = self._generator.send(value)
        _keep(self._items, item, self._step)
        return item

    def throw(self, *error: Any) -> Any:
        item = self._generator.throw(*error)
        _keep(self._items, item, self._step)
        return item

    def close(self) -> None:
        self._generator.close()


def _keep(items: list[Any], item: Any, step: Step) -> None:
    # Each item takes a character at least: more of them would be cut from the span anyway.
    if step.recording and len(items) < CAPTURE_LIMIT:
        items.append(item)


def _name(function: Callable[..., Any]) -> str:
    """Its name, or that of its class when it is an object that can be called."""
    return str(getattr(function, "__name__", type(function).__name__))


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
    shown = name or _name(function)
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
            _name(function),
            "agent",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": _name(function),
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
    shown = name or _name(function)
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
        return _wrap(name, _Plan(_name(name), "step", attributes=attributes))
    return _Trace(_Plan(name, "step", attributes=attributes))
