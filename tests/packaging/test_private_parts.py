"""Private and undocumented parts of other libraries that are used, each with what it has to do.

They may change with any release of theirs. A test that fails here names the library, its version
that is installed, what of it has changed and which of our files has to be changed with it.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import http.client
import importlib
import importlib.metadata
import json
import multiprocessing.process
import multiprocessing.util
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import aiohttp
import httpx
import msgspec
import openai
import pydantic
import pytest
from opentelemetry import trace
from tests.frameworks.table import FRAMEWORKS
from tests.packaging.source_trees import SOURCE, source_trees

pytestmark = pytest.mark.xdist_group("source-trees")

DOCUMENTED = {
    ("os", "_exit"),
    ("sys", "_current_frames"),
    ("sys", "_getframe"),
}
"""Attributes with an underscore that their libraries document."""

NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
"""What every named tuple has, documented."""

OURS = {
    ("observe/collector.py", "_process"),
}
"""Attributes of our own modules, used from others of them."""


class Part(NamedTuple):
    """A part of another library that it does not promise to keep."""

    library: str
    """Distribution, or `Python`."""
    name: str
    """As the source spells it."""
    file: str
    """Who uses it, below src/ratchet."""
    holds: Callable[[], bool] | None
    """Whether it is there and does what it is used for."""
    framework: str = ""
    """The row of tests/frameworks/table.py that tries it in an environment of its own, where the
    library is not one of those that the tests run with."""


def _unregistered_tasks_do_not_hold_a_loop() -> bool:
    async def main() -> bool:
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio._unregister_task(task)
        seen = task in asyncio.all_tasks()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return not seen

    return asyncio.run(main())


def _stream() -> object:
    response = httpx.Response(200, content=b"")
    return openai.Stream(cast_to=str, response=response, client=openai.OpenAI(api_key="k"))


def _async_stream() -> object:
    response = httpx.Response(200, content=b"")
    client = openai.AsyncOpenAI(api_key="k")
    return openai.AsyncStream(cast_to=str, response=response, client=client)


def _tasks_that_are_destroyed_while_pending_can_be_silent() -> bool:
    said: list[str] = []

    async def main(silent: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context["message"]))
        task = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        asyncio._unregister_task(task)
        if silent:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        del task

    counts = []
    for silent in (False, True):
        asyncio.run(main(silent))
        gc.collect()
        counts.append(len(said))
    return counts == [1, 1]


def _an_aiohttp_reader_keeps_what_came_before_its_error() -> bool:
    async def main() -> bool:
        protocol = aiohttp.base_protocol.BaseProtocol(asyncio.get_running_loop())
        reader = aiohttp.StreamReader(protocol, 2**16, loop=asyncio.get_running_loop())
        reader.feed_data(b"the last ")
        reader.feed_data(b"words")
        reader.set_exception(aiohttp.ClientPayloadError("cut"))
        return b"".join(reader._buffer) == b"the last words"

    return asyncio.run(main())


def _tunnel() -> http.client.HTTPSConnection:
    connection = http.client.HTTPSConnection("proxy.invalid")
    connection.set_tunnel("host.invalid", 443)
    return connection


def _an_aiohttp_session_makes_urls_and_requests_in_one_place() -> bool:
    async def main() -> bool:
        async with aiohttp.ClientSession(base_url="http://host.invalid/") as session:
            url = session._build_url("v1/chat")
            return str(url) == "http://host.invalid/v1/chat" and asyncio.iscoroutinefunction(
                session._request
            )

    return asyncio.run(main())


def _the_guard_of_the_tracer_provider_can_be_wrapped() -> bool:
    once = trace._TRACER_PROVIDER_SET_ONCE
    source = trace.set_tracer_provider.__globals__
    return callable(once.do_once) and source["_TRACER_PROVIDER_SET_ONCE"] is once


def _a_provider_put_there_is_the_global_one() -> bool:
    before = trace._TRACER_PROVIDER
    mine = trace.NoOpTracerProvider()
    try:
        trace._TRACER_PROVIDER = mine
        return trace.get_tracer_provider() is mine
    finally:
        trace._TRACER_PROVIDER = before


def _an_openinference_span_knows_its_kind_before_it_ends() -> bool:
    from openinference.instrumentation import OITracer, TraceConfig

    span: Any = OITracer(trace.NoOpTracer(), TraceConfig()).start_span("call")
    span.set_attribute("openinference.span.kind", "LLM")
    return bool(span._self_important_attributes == {"openinference.span.kind": "LLM"})


def _openinference_reads_answers_with_classes_of_its_module() -> bool:
    module: Any = importlib.import_module("openinference.instrumentation.openai._request")
    streams = ("_ChatCompletionAccumulator", "_CompletionAccumulator", "_ResponsesAccumulator")
    reads = ("process_chunk", "get_extra_attributes")
    whole = module._ResponseAttributes
    return (
        all(hasattr(getattr(module, name), read) for name in streams for read in reads)
        and hasattr(whole, "get_extra_attributes")
        and hasattr(whole, "_response")
    )


def _openinference_reads_a_message_with_a_function_of_each_module() -> bool:
    return all(
        hasattr(
            importlib.import_module(f"openinference.instrumentation.anthropic.{name}"),
            "_get_output_message_attributes",
        )
        for name in ("_stream", "_wrappers")
    )


def _mcp_makes_its_spans_with_the_tracer_of_its_module() -> bool:
    own = importlib.import_module("mcp.shared._otel")
    before, asked = own._tracer, []

    class Tracer(trace.NoOpTracer):
        def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return super().start_as_current_span(name, *args, **kwargs)

    try:
        own._tracer = Tracer()
        with own.otel_span("call", kind=trace.SpanKind.CLIENT):
            return asked == ["call"]
    finally:
        own._tracer = before


def _anthropic_asks_its_module_for_a_tracer() -> bool:
    from anthropic import Anthropic

    module: Any = importlib.import_module("anthropic._base_client")
    before, asked = module.get_tracer, []

    def get_tracer(options: Any, version: str, **kwargs: Any) -> Any:
        asked.append((options.get("tracer_provider"), kwargs["scope"]))
        return trace.NoOpTracer()

    try:
        module.get_tracer = get_tracer
        made: Any = Anthropic(api_key="none")
        return made._tracer is not None and len(asked) == 1
    finally:
        module.get_tracer = before


def _pydantic_ai_says_how_agents_are_instrumented() -> bool:
    from pydantic_ai import Agent

    before: Any = Agent._instrument_default
    try:
        said = []
        for asked in (False, True):
            Agent.instrument_all(asked)
            said.append(Agent._instrument_default)
        return said == [False, True]
    finally:
        Agent.instrument_all(before)


def _patterns_are_parsed_into_operations() -> bool:
    parsed: Any = re._parser.parse(r"a\d{1,3}")  # type: ignore[attr-defined]
    return [str(operation) for operation, _ in parsed] == ["LITERAL", "MAX_REPEAT"]


def _children_of_multiprocessing_run_finalizers() -> bool:
    ran: list[int] = []
    finalizer = multiprocessing.util.Finalize(None, ran.append, args=(1,), exitpriority=10)
    finalizer()
    exits = multiprocessing.process.BaseProcess._bootstrap.__code__.co_names  # type: ignore[attr-defined]
    return ran == [1] and "_exit_function" in exits


def _msgspec_names_the_field_and_where_it_is() -> bool:
    inner = msgspec.defstruct("Inner", [("given", int)], forbid_unknown_fields=True)
    outer = msgspec.defstruct("Outer", [("inner", list[inner])])  # type: ignore[valid-type]
    said = []
    for wrong in ({"given": 1, "other": 2}, {}, {"given": "x"}):
        try:
            msgspec.convert({"inner": [wrong]}, outer)
        except msgspec.ValidationError as error:
            said.append(str(error))
    return said == [
        "Object contains unknown field `other` - at `$.inner[0]`",
        "Object missing required field `given` - at `$.inner[0]`",
        "Expected `int`, got `str` - at `$.inner[0].given`",
    ]


def _json_says_that_a_text_is_not_ended() -> bool:
    try:
        json.loads('{"a": "not')
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated")
    return False


def _pydantic_puts_two_words_before_a_validator_s_own() -> bool:
    def refuse(_: object) -> None:
        raise ValueError("too blue")

    made = pydantic.TypeAdapter(Annotated[int, pydantic.AfterValidator(refuse)])
    try:
        made.validate_python(1)
    except pydantic.ValidationError as error:
        return [each["msg"] for each in error.errors()] == ["Value error, too blue"]
    return False


PARTS = (
    Part(
        "Python", "_unregister_task", "worker/inprocess.py", _unregistered_tasks_do_not_hold_a_loop
    ),
    Part(
        "Python",
        "_log_destroy_pending",
        "worker/inprocess.py",
        _tasks_that_are_destroyed_while_pending_can_be_silent,
    ),
    Part(
        "Python", "_parser", "observe/redaction/patterns.py", _patterns_are_parsed_into_operations
    ),
    Part(
        "aiohttp",
        "_buffer",
        "server/gateway/relay.py",
        _an_aiohttp_reader_keeps_what_came_before_its_error,
    ),
    *(
        Part("Python", name, "hooks/python/ratchet_recording_hook/clients.py", holds)
        for name, holds in (
            ("_tunnel_host", lambda: _tunnel()._tunnel_host == "host.invalid"),  # type: ignore[attr-defined]
            ("_tunnel_port", lambda: _tunnel()._tunnel_port == 443),  # type: ignore[attr-defined]
        )
    ),
    Part(
        "Python",
        "_data",
        "hooks/python/ratchet_recording_hook/values.py",
        lambda: set(os.environ._data) == {os.fsencode(name) for name in os.environ},
    ),
    Part(
        "Python",
        "_bootstrap",
        "hooks/python/ratchet_recording_hook/carrying.py",
        lambda: callable(multiprocessing.process.BaseProcess._bootstrap),  # type: ignore[attr-defined]
    ),
    Part(
        "httpx",
        "_transport",
        "hooks/python/ratchet_recording_hook/clients.py",
        lambda: isinstance(httpx.Client()._transport, httpx.HTTPTransport),
    ),
    Part(
        "httpx",
        "_content",
        "hooks/python/ratchet_recording_hook/clients.py",
        lambda: httpx.Request("POST", "http://x", content=b"body")._content == b"body",
    ),
    Part(
        "aiohttp",
        "_build_url",
        "hooks/python/ratchet_recording_hook/clients.py",
        _an_aiohttp_session_makes_urls_and_requests_in_one_place,
    ),
    Part(
        "aiohttp",
        "_request",
        "hooks/python/ratchet_recording_hook/clients.py",
        _an_aiohttp_session_makes_urls_and_requests_in_one_place,
    ),
    Part(
        "dspy",
        "dspy._vendor.lm15",
        "hooks/python/ratchet_recording_hook/clients.py",
        None,
        "dspy",
    ),
    Part("verl", "_load_balancer", "weights/verl/manager.py", None, "verl"),
    Part(
        "opentelemetry-api",
        "_TRACER_PROVIDER",
        "observe/otel_bridge.py",
        _a_provider_put_there_is_the_global_one,
    ),
    Part(
        "opentelemetry-api",
        "_TRACER_PROVIDER_SET_ONCE",
        "observe/otel_bridge.py",
        _the_guard_of_the_tracer_provider_can_be_wrapped,
    ),
    Part(
        "openinference-instrumentation",
        "_self_important_attributes",
        "observe/instruments/duplicates.py",
        _an_openinference_span_knows_its_kind_before_it_ends,
    ),
    Part(
        "openai",
        "_iterator",
        "observe/instruments/client_calls.py",
        lambda: all("_iterator" in vars(made) for made in (_stream(), _async_stream())),
    ),
    Part(
        "openinference-instrumentation-openai",
        "openinference.instrumentation.openai._request",
        "observe/instruments/openinference_answers.py",
        _openinference_reads_answers_with_classes_of_its_module,
    ),
    Part(
        "openinference-instrumentation-openai",
        "_ResponseAttributes",
        "observe/instruments/openinference_answers.py",
        _openinference_reads_answers_with_classes_of_its_module,
    ),
    Part(
        "openinference-instrumentation-anthropic",
        "_get_output_message_attributes",
        "observe/instruments/openinference_answers.py",
        _openinference_reads_a_message_with_a_function_of_each_module,
    ),
    Part(
        "openinference-instrumentation-langchain",
        "openinference.instrumentation.langchain._tracer:OpenInferenceTracer",
        "observe/instruments/langchain.py",
        None,
        "langgraph",
    ),
    Part(
        "openinference-instrumentation-langchain",
        "_end_trace",
        "observe/instruments/langchain.py",
        None,
        "langgraph",
    ),
    Part(
        "langchain-core",
        "_set_config_context",
        "observe/instruments/langchain.py",
        None,
        "langgraph",
    ),
    Part(
        "langgraph",
        "langgraph._internal._runnable",
        "observe/instruments/langchain.py",
        None,
        "langgraph",
    ),
    Part(
        "autogen-core",
        "autogen_core._telemetry._genai",
        "observe/instruments/autogen.py",
        None,
        "autogen",
    ),
    Part(
        "mcp",
        "mcp.shared._otel",
        "observe/instruments/mcp.py",
        _mcp_makes_its_spans_with_the_tracer_of_its_module,
    ),
    Part(
        "mcp",
        "_tracer",
        "observe/instruments/mcp.py",
        _mcp_makes_its_spans_with_the_tracer_of_its_module,
    ),
    Part(
        "anthropic",
        "anthropic._base_client",
        "observe/instruments/anthropic.py",
        _anthropic_asks_its_module_for_a_tracer,
    ),
    Part(
        "pydantic-ai-slim",
        "_instrument_default",
        "observe/instruments/pydantic_ai.py",
        _pydantic_ai_says_how_agents_are_instrumented,
    ),
)
"""Every private part that the source uses."""

UNDOCUMENTED = (
    Part(
        "Python",
        "util.Finalize",
        "observe/background.py",
        _children_of_multiprocessing_run_finalizers,
    ),
    Part(
        "msgspec",
        "Object (contains unknown|missing required) field",
        "server/app.py",
        _msgspec_names_the_field_and_where_it_is,
    ),
    Part(
        "Python",
        "Unterminated",
        "curate/importing/file_values.py",
        _json_says_that_a_text_is_not_ended,
    ),
    Part(
        "pydantic",
        "Value error, ",
        "autopilot/sections.py",
        _pydantic_puts_two_words_before_a_validator_s_own,
    ),
)
"""Parts without an underscore that no documentation promises: names, and words of messages that
carry what has no field of its own."""


def complaint(part: Part, why: str) -> str:
    """What to say of a part that is no longer as it was."""
    version = platform.python_version()
    if part.library != "Python":
        version = importlib.metadata.version(part.library)
    return f"{part.library} {version}: {part.name}, used in {part.file}, {why}"


def broken(part: Part) -> str:
    """What is wrong with a part; empty when it does what it is used for."""
    assert part.holds is not None
    try:
        return "" if part.holds() else complaint(part, "does something else than it did.")
    except Exception as error:
        return complaint(part, f"is not there or fails: {type(error).__name__}: {error}")


def _tried_here(parts: tuple[Part, ...]) -> list[Any]:
    return [
        pytest.param(each, id=f"{each.library}-{each.name}-{Path(each.file).stem}")
        for each in parts
        if each.holds is not None
    ]


@pytest.mark.parametrize("part", _tried_here(PARTS + UNDOCUMENTED))
def test_a_private_part_of_a_library_does_what_it_is_used_for(part: Part) -> None:
    assert not broken(part), broken(part)


def test_what_is_not_tried_here_is_tried_by_the_tests_of_a_framework() -> None:
    named = {each.name for each in FRAMEWORKS}
    named.add("verl")  # tried by `make test-verl`
    assert {each.framework for each in PARTS if each.holds is None} <= named


def test_a_part_that_changed_is_told_with_its_library_and_version() -> None:
    def fails() -> bool:
        raise AttributeError("no _buffer")

    for holds, why in ((lambda: False, "something else"), (fails, "AttributeError: no _buffer")):
        said = broken(Part("aiohttp", "_buffer", "server/gateway/relay.py", holds))
        assert f"aiohttp {importlib.metadata.version('aiohttp')}: _buffer" in said
        assert "server/gateway/relay.py" in said
        assert why in said


_PRIVATE = re.compile(r"_[A-Za-z]\w*")
_PRIVATE_PATH = re.compile(r"[A-Za-z]\w*(\.\w+)*\._[A-Za-z]\w*(\.\w+)*(:\w+)?")


def private_uses(tree: ast.Module) -> set[tuple[str, str]]:
    """What a module's source uses of others that begins with an underscore.

    Attributes of `self`, `cls` and `super()` are its own, and so are those whose name the module
    itself defines: as a function, or as an attribute of `self`, of a class or of `__slots__`.

    Returns:
        Pairs of the object, as it stands there, and the name; the object is empty for a name in
        an import or in a text.
    """
    nodes = list(ast.walk(tree))
    own = set(_defined(nodes))
    return {
        (owner, name)
        for owner, name in _uses(nodes)
        if name not in own
        and name not in NAMED_TUPLE
        and not name.startswith("__")
        and owner not in ("self", "cls", "super()")
    }


def _defined(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id
                elif isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__slots__":
                    yield from ast.literal_eval(each.value)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def _uses(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    asked = _asked_for(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and _PRIVATE.fullmatch(node.attr):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _PRIVATE_PATH.fullmatch(alias.name):
                    yield "", alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                if _PRIVATE_PATH.fullmatch(path) and not path.startswith("ratchet."):
                    yield "", path
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (node.value in asked or _PRIVATE_PATH.fullmatch(node.value))
        ):
            yield "", node.value


def _asked_for(nodes: list[ast.AST]) -> set[str]:
    """Private names that getattr and the like are asked for, or that a constant holds for them."""
    names = set()
    constants = {
        node.targets[0].id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "setattr", "hasattr", "delattr")
        ):
            asked = node.args[1]
            if isinstance(asked, ast.Name):
                names.add(constants.get(asked.id, ""))
            elif isinstance(asked, ast.Constant):
                names.add(str(asked.value))
    return {name for name in names if _PRIVATE.fullmatch(name)}


def test_the_source_uses_no_private_part_that_stands_not_in_the_table() -> None:
    found = set()
    for path, (_, tree) in source_trees().items():
        file = path.relative_to(SOURCE).as_posix()
        for owner, name in private_uses(tree):
            if (owner, name) not in DOCUMENTED and (file, name) not in OURS:
                found.add((file, name))
    listed = {(part.file, part.name) for part in PARTS}
    assert not found - listed, f"not in the table of {Path(__file__).name}: {found - listed}"
    assert not listed - found, f"used no more: {listed - found}"


def test_what_the_table_names_beside_them_stands_in_the_source() -> None:
    for part in UNDOCUMENTED:
        assert part.name in (SOURCE / part.file).read_text(), part


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import aiohttp\naiohttp.x._y", {("aiohttp.x", "_y")}),
        ("def f(loop): loop._ready.clear()", {("loop", "_ready")}),
        ("import a._b.c", {("", "a._b.c")}),
        ("from a._b import c", {("", "a._b.c")}),
        ("from a import _b", {("", "a._b")}),
        ("getattr(span, '_links', None)", {("", "_links")}),
        ("N = '_links'\nsetattr(span, N, 1)", {("", "_links")}),
        ("load('a.b._c:D')", {("", "a.b._c:D")}),
        ("class A:\n  def f(self): self._x = 1\ndef g(a): return a._x", set()),
        ("class A:\n  _x: int\ndef g(a): return a._x", set()),
        ("class A:\n  def f(self): return super()._f() or self._g", set()),
        ("from ratchet._version import v\nx.__dict__\nfrom __future__ import annotations", set()),
        ("x = '_links'", set()),
    ],
)
def test_a_use_of_a_private_part_is_found_however_it_is_written(
    text: str, found: set[tuple[str, str]]
) -> None:
    assert private_uses(ast.parse(text)) == found
