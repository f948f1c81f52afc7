"""Records the calls of model clients for which no installed instrumentor fits.

OpenInference supports the newest versions of a client only, and agents in use have older ones. What
a client sends and gets is the provider's API, so `model_apis` reads it, as at the gateway.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from ratchet.observe.instruments.import_hook import load
from ratchet.observe.model_apis import (
    Assembly,
    ModelApi,
    chat,
    completions,
    embeddings,
    messages,
    responses,
)
from ratchet.types.trace import BROKEN_OFF

_log = logging.getLogger("ratchet.observe")

_OF_THE_CLIENT = {"extra_headers", "extra_query", "timeout", "api_key", "client", "http_client"}
"""Arguments that are not part of the request."""
_UNSET = {"NotGiven", "Omit"}


_CALLS: dict[str, tuple[tuple[str, str, str, ModelApi], ...]] = {
    "openai": (
        ("openai.resources.chat.completions", "Completions", "create", chat),
        ("openai.resources.chat.completions", "Completions", "parse", chat),
        ("openai.resources.beta.chat.completions", "Completions", "parse", chat),
        ("openai.resources.responses", "Responses", "create", responses),
        ("openai.resources.responses", "Responses", "parse", responses),
        ("openai.resources.completions", "Completions", "create", completions),
        ("openai.resources.embeddings", "Embeddings", "create", embeddings),
    ),
    "anthropic": (
        ("anthropic.resources.messages", "Messages", "create", messages),
        ("anthropic.resources.messages", "Messages", "stream", messages),
        ("anthropic.resources.beta.messages", "Messages", "create", messages),
        ("anthropic.resources.beta.messages", "Messages", "stream", messages),
    ),
}
"""Module, class and method by client, and the API that they call. Each version has some of them."""


def record_openai(provider: Any) -> None:
    """Record the calls of `openai`, from version 1 on.

    Args:
        provider: Where spans go.
    """
    _record(provider, "openai", _CALLS["openai"])


def record_anthropic(provider: Any) -> None:
    """Record the calls of `anthropic`.

    Args:
        provider: Where spans go.
    """
    _record(provider, "anthropic", _CALLS["anthropic"])


def record_litellm(provider: Any) -> None:
    """Record the calls of `litellm`.

    Args:
        provider: Where spans go.
    """
    tracer = provider.get_tracer("ratchet.litellm")
    library = load("litellm")
    for name, api in (("completion", chat), ("embedding", embeddings)):
        for method_name in (name, f"a{name}"):
            if hasattr(library, method_name):
                setattr(
                    library, method_name, _recorded(getattr(library, method_name), tracer, "", api)
                )


def _record(provider: Any, name: str, places: tuple[tuple[str, str, str, ModelApi], ...]) -> None:
    """Record those methods that this version of the client has, in both of its classes."""
    tracer = provider.get_tracer(f"ratchet.{name}")
    patched: set[Any] = set()
    for module, owner, method, api in places:
        with suppress(ImportError):
            loaded: ModuleType = load(module)
            for client_class in (
                getattr(loaded, owner, None),
                getattr(loaded, f"Async{owner}", None),
            ):
                own = vars(client_class).get(method) if client_class is not None else None
                if own is None or (client_class, method) in patched:
                    continue
                patched.add((client_class, method))
                setattr(client_class, method, _recorded(own, tracer, name, api))


def _recorded(method: Callable[..., Any], tracer: Any, name: str, api: ModelApi) -> Any:
    """The method, with a span for each call."""
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def recorded_async(*args: Any, **kwargs: Any) -> Any:
            call = _Call(tracer, name, api, _request(method, args, kwargs))
            with call.current():
                return call.returns(await method(*args, **kwargs), asynchronous=True)

        return recorded_async

    @functools.wraps(method)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        request = _request(method, args, kwargs)
        if method.__name__ == "stream":
            return _managed(
                method(*args, **kwargs), functools.partial(_Call, tracer, name, api, request)
            )
        call = _Call(tracer, name, api, request)
        with call.current():
            result = method(*args, **kwargs)
            # Methods of asynchronous clients are wrapped in plain functions.
            return call.awaited(result) if inspect.isawaitable(result) else call.returns(result)

    return recorded


class _Call:
    """A call: its span, and what it returned."""

    def __init__(self, tracer: Any, name: str, api: ModelApi, request: dict[str, Any]) -> None:
        model = str(request.get("model", ""))
        provider = name or model.partition("/")[0]
        attributes = {"gen_ai.operation.name": api.OPERATION, "gen_ai.provider.name": provider}
        with _quiet():
            attributes |= api.request_attributes(request)
        self._api = api
        self._done = False
        self._pieces: Any = None
        self._span = tracer.start_span(f"{api.OPERATION} {model}".strip(), attributes=attributes)

    def current(self) -> Any:
        """The span as the current one; it ends here only if the call fails."""
        return _Current(self)

    async def awaited(self, result: Awaitable[Any]) -> Any:
        """The result of a coroutine."""
        with self.current():
            return self.returns(await result, asynchronous=True)

    def returns(self, result: Any, *, asynchronous: bool = False) -> Any:
        """The result; a stream continues the span until it is read."""
        pieces: Any = self.pieces_async if asynchronous else self.pieces
        if not hasattr(result, "__anext__" if asynchronous else "__next__"):
            self.end(plain(_parsed(result)))
        elif hasattr(result, "_iterator"):  # a client's own stream, which users ask for its class
            self._pieces = result._iterator = pieces(result._iterator)
        else:
            self._pieces = pieces(result)
            return _Read(result, self._pieces)
        return result

    def broken_off(self) -> None:
        """A stream that is no longer read ends its span."""
        if self._pieces is not None:
            self._pieces.close()
        self.end(None)

    async def broken_off_async(self) -> None:
        """A stream that is no longer read ends its span."""
        if self._pieces is not None:
            await self._pieces.aclose()
        self.end(None)

    def pieces(self, stream: Iterator[Any]) -> Iterator[Any]:
        """The events of a stream."""
        assembly = self._api.assembly()
        try:
            for event in stream:
                add_event(assembly, event)
                yield event
        except Exception as error:
            self.fail(error)
            raise
        finally:
            self.end(assembly.response(), broken_off=assembly.begun and not assembly.complete)

    async def pieces_async(self, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The events of a stream."""
        assembly = self._api.assembly()
        try:
            async for event in stream:
                add_event(assembly, event)
                yield event
        except Exception as error:
            self.fail(error)
            raise
        finally:
            self.end(assembly.response(), broken_off=assembly.begun and not assembly.complete)

    def fail(self, error: BaseException) -> None:
        """Record an error."""
        from opentelemetry.trace import Status, StatusCode

        self._span.record_exception(error)
        if _was_under_way(error):
            self._span.set_attribute(BROKEN_OFF, True)
        self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))

    def end(self, response: Any, *, broken_off: bool = False) -> None:
        """End the span, once.

        Args:
            response: What came of the response; None without one.
            broken_off: Whether its end is missing.
        """
        if self._done:
            return
        self._done = True
        if broken_off:
            self._span.set_attribute(BROKEN_OFF, True)
        if isinstance(response, Mapping):
            with _quiet():
                for key, value in self._api.response_attributes(response).items():
                    self._span.set_attribute(key, value)
        self._span.end()


def _was_under_way(error: BaseException) -> bool:
    """Whether an error ended a call that the provider may have continued and will charge for."""
    if isinstance(error, asyncio.CancelledError):
        return True
    kinds = {kind.__name__ for cause in (error, error.__cause__) for kind in type(cause).__mro__}
    return "ConnectTimeout" not in kinds and any("Timeout" in kind for kind in kinds)


class _Current:
    def __init__(self, call: _Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        from opentelemetry.trace import use_span

        self._use = use_span(
            self._call._span,
            end_on_exit=False,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._use.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._use.__exit__(None, None, None)
        if error is not None:
            self._call.fail(error)
            self._call.end(None)


class _Read:
    """A stream of another class, read through its span; everything else is the stream's own."""

    def __init__(self, stream: Any, pieces: Any) -> None:
        self._stream = stream
        self._pieces = pieces

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._pieces)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await self._pieces.__anext__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _managed(manager: Any, begin: Callable[[], _Call]) -> Any:
    """A stream's context manager, which sends the request when it is entered."""
    kind = type(manager)
    calls: list[_Call] = []
    if hasattr(kind, "__aenter__"):

        async def aenter(self: Any) -> Any:
            call = begin()
            with call.current():
                entered = call.returns(await kind.__aenter__(self), asynchronous=True)
            calls.append(call)
            return entered

        async def aexit(self: Any, *error: Any) -> Any:
            result = await kind.__aexit__(self, *error)
            for call in calls:
                await call.broken_off_async()
            return result

        own: Any = {"__aenter__": aenter, "__aexit__": aexit}
    else:

        def enter(self: Any) -> Any:
            call = begin()
            with call.current():
                entered = call.returns(kind.__enter__(self))
            calls.append(call)
            return entered

        def leave(self: Any, *error: Any) -> Any:
            result = kind.__exit__(self, *error)
            for call in calls:
                call.broken_off()
            return result

        own = {"__enter__": enter, "__exit__": leave}
    # Private attributes of the manager bear its class's name, so it becomes a subclass in place.
    with suppress(TypeError):
        manager.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **own})
    return manager


def _request(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, as JSON."""
    arguments = dict(kwargs)
    with suppress(TypeError, ValueError):
        signature = inspect.signature(method)
        arguments = {}
        for key, value in signature.bind_partial(*args, **kwargs).arguments.items():
            is_var_keyword = signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD
            arguments |= value if is_var_keyword else {key: value}
        arguments.pop("self", None)
    extra = arguments.pop("extra_body", None)
    request = {
        key: plain(value)
        for key, value in arguments.items()
        if key not in _OF_THE_CLIENT and type(value).__name__ not in _UNSET
    }
    return request | (plain(extra) if isinstance(extra, Mapping) else {})


def plain(value: Any, depth: int = 12) -> Any:
    """A value as JSON has it; pydantic models as their fields, others as their text."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        return {
            str(key): plain(inner, depth - 1)
            for key, inner in value.items()
            if type(inner).__name__ not in _UNSET
        }
    if isinstance(value, list | tuple):
        return [plain(inner, depth - 1) for inner in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        for options in ({"warnings": False}, {}):
            with suppress(Exception):
                return plain(dump(**options), depth - 1)
    return getattr(value, "__name__", None) or str(value)


def _parsed(result: Any) -> Any:
    """What a raw response holds; any other result as it is."""
    if hasattr(result, "parse") and hasattr(result, "http_response"):
        with suppress(Exception):
            return result.http_response.json()
        return None
    return result


def add_event(assembly: Assembly, event: Any) -> None:
    """Add an event of a client's stream; one that cannot be read is left out."""
    with _quiet():
        decoded = plain(event)
        if isinstance(decoded, Mapping):
            assembly.add(decoded)


class _quiet:  # noqa: N801 - used as a statement
    """Log errors in recording; the agent continues."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is not None and isinstance(error, Exception):
            _log.debug("A model call could not be recorded completely.", exc_info=error)
            return True
        return False
