"""Instruments: libraries are switched on whenever they are imported, and never broken by it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ratchet.observe import instruments
from ratchet.observe.instruments import INSTRUMENTS, Instrument, table
from ratchet.observe.instruments.delegating import DelegatingProvider
from ratchet.observe.instruments.duplicates import DuplicateSpan, SilentTracer, duplicate_of
from ratchet.observe.instruments.import_hook import load, when_imported
from ratchet.observe.instruments.mcp import switch_on
from ratchet.observe.instruments.semantic_kernel import _ToEvents
from ratchet.observe.otel_bridge import StandInProvider
from tests.observe.conftest import Exported

LIBRARY = "def call():\n    return 'answer'\n"
INSTRUMENTOR = """
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

class Instrumentor(BaseInstrumentor):
    def instrumentation_dependencies(self):
        return ({dependency!r},)

    def _instrument(self, **kwargs):
        {fault}
        import {name} as library
        tracer, call = kwargs["tracer_provider"].get_tracer("theirs"), library.call

        def traced():
            with tracer.start_as_current_span("call"):
                return call()

        library.call = traced

    def _uninstrument(self, **kwargs):
        pass
"""


class Library:
    """A library and its instrumentor, as installed in a folder of the path."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.instrument = Instrument(
            name=name,
            library=name,
            module=name,
            openinference=f"{name}_instrumentor:Instrumentor",
            needs=f"{name}-instrumentor",
        )

    def install(
        self, *, version: str = "2.0", wants: str = ">= 1.0", fault: str = "pass"
    ) -> Library:
        """Put both there."""
        (self.folder / f"{self.name}.py").write_text(LIBRARY)
        self._distribution(self.name, version)
        dependency = f"{self.name} {wants}"
        made = INSTRUMENTOR.format(name=self.name, dependency=dependency, fault=fault)
        (self.folder / f"{self.name}_instrumentor.py").write_text(made)
        self._distribution(f"{self.name}-instrumentor", "1.5")
        return self

    def _distribution(self, name: str, version: str) -> None:
        folder = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}")
        importlib.invalidate_caches()

    def load(self) -> Any:
        """Import it."""
        return importlib.import_module(self.name)


_count = iter(range(10_000))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """A library of its own for each test, the only one in the table."""
    made = Library(tmp_path, f"ratchet_test_library_{next(_count)}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(instruments, "INSTRUMENTS", (made.instrument,))
    monkeypatch.setattr(instruments, "_installed", {})
    monkeypatch.setattr(DelegatingProvider, "target", None)
    yield made
    for name in (made.name, f"{made.name}_instrumentor"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("when", ["before", "later"])
def test_a_library_is_switched_on_whenever_it_is_imported(
    library: Library, exported: tuple[TracerProvider, Exported], when: str
) -> None:
    library.install()
    if when == "before":
        library.load()
    provider, spans = exported
    assert instruments.install(provider) == [library.name]
    if when == "later":
        assert library.name not in sys.modules
        assert f"{library.name}_instrumentor" not in sys.modules
    assert library.load().call() == "answer"
    assert [span.name for span in spans()] == ["call"]


def test_nothing_is_instrumented_twice_and_the_last_provider_gets_the_spans(
    library: Library, exported: tuple[TracerProvider, Exported]
) -> None:
    library.install()
    provider, spans = exported
    instruments.install(None)
    loaded = library.load()
    assert loaded.call() == "answer"
    assert instruments.install(provider) == instruments.install(provider) == [library.name]
    loaded.call()
    assert [span.name for span in spans()] == ["call"]
    instruments.install(None)
    loaded.call()
    assert len(spans()) == 1


def test_what_is_not_installed_is_passed_by(library: Library) -> None:
    assert instruments.install(None) == []


@pytest.mark.parametrize(
    "fault", ["raise ValueError('broken')", "raise SystemError", "import no_such_module"]
)
def test_a_broken_instrumentor_costs_one_line_and_no_program(
    library: Library, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    library.install(fault=fault)
    instruments.install(None)
    assert library.load().call() == "answer"
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert f"{library.name} could not be instrumented" in line.getMessage()


def test_versions_that_do_not_fit_cost_one_line(
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    exported: tuple[TracerProvider, Exported],
) -> None:
    monkeypatch.setattr(table, "INSTRUMENTS", (library.instrument,))
    library.install(version="0.9")
    instruments.install(exported[0])
    assert library.load().call() == "answer"
    assert exported[1]() == []
    (line,) = caplog.records
    assert "0.9" in line.getMessage()
    assert f"{library.name}-instrumentor 1.5 does not fit it" in line.getMessage()
    assert table.misfits() == [(library.name, "0.9", f"{library.name}-instrumentor", "1.5", False)]


@pytest.mark.parametrize("case", ["version does not fit", "it fails", "it is not installed"])
def test_where_the_instrumentor_cannot_record_a_client_we_do(
    case: str,
    library: Library,
    exported: tuple[TracerProvider, Exported],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def older(provider: Any) -> None:
        loaded = library.load()
        tracer, call = provider.get_tracer("ours"), loaded.call

        def recorded() -> str:
            with tracer.start_as_current_span("ours"):
                return str(call())

        loaded.call = recorded

    ours = ModuleType(f"{library.name}_ours")
    ours.older = older  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, ours.__name__, ours)
    row = msgspec.structs.replace(library.instrument, older=f"{ours.__name__}:older")
    monkeypatch.setattr(instruments, "INSTRUMENTS", (row,))
    wants = ">= 3.0" if case == "version does not fit" else ">= 1.0"
    fault = "raise TypeError('no')" if case == "it fails" else "pass"
    library.install(wants=wants, fault=fault)
    if case == "it is not installed":
        missing = f"{library.name}-instrumentor"
        monkeypatch.setattr(table, "_is_there", lambda name: name != missing)
    provider, spans = exported
    assert instruments.install(provider) == [library.name]
    assert library.load().call() == "answer"
    assert [span.name for span in spans()] == ["ours"]


def test_what_the_user_has_instrumented_stays_as_it_is(
    library: Library, exported: tuple[TracerProvider, Exported]
) -> None:
    loaded = library.install().load()
    theirs = importlib.import_module(f"{library.name}_instrumentor").Instrumentor()
    theirs.instrument(tracer_provider=exported[0])
    instruments.install(TracerProvider(shutdown_on_exit=False))
    loaded.call()
    assert [span.name for span in exported[1]()] == ["call"]


def test_a_library_that_another_instrumentor_tells_of_is_left_to_it(
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    exported: tuple[TracerProvider, Exported],
) -> None:
    rival = ModuleType("rival_of_tests")
    rival.Rival = lambda: SimpleNamespace(is_instrumented_by_opentelemetry=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rival_of_tests", rival)
    told = Instrument(
        name=library.name,
        library=library.name,
        module=library.name,
        openinference=library.instrument.openinference,
        needs=library.instrument.needs,
        rivals=("not_imported:Rival", "rival_of_tests:Rival"),
    )
    monkeypatch.setattr(instruments, "INSTRUMENTS", (told,))
    library.install()
    instruments.install(exported[0])
    library.load().call()
    assert exported[1]() == []


def test_a_library_that_is_too_old_for_our_own_way_costs_one_line(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = Instrument(
        name=library.name,
        library=library.name,
        module=library.name,
        own="no_such_module:switch_on",
        at_least=(2, 1),
    )
    monkeypatch.setattr(instruments, "INSTRUMENTS", (own,))
    library.install(version="2.0.9rc1")
    assert instruments.install(None) == [library.name]
    assert library.load().call() == "answer"
    assert "2.0.9rc1 is older than what can be instrumented, which is 2.1" in caplog.text


def test_an_import_that_fails_is_waited_for_again(library: Library) -> None:
    library.install()
    path = library.folder / f"{library.name}.py"
    path.write_text("raise RuntimeError('not yet')")
    told: list[str] = []
    when_imported(library.name, lambda: told.append("now"))
    with pytest.raises(RuntimeError, match="not yet"):
        library.load()
    assert told == []
    path.write_text(LIBRARY + "# ready\n")
    importlib.invalidate_caches()
    library.load()
    assert told == ["now"]


def test_threads_that_import_at_once_switch_on_once(library: Library) -> None:
    library.install()
    told: list[int] = []
    together = threading.Barrier(8)
    when_imported(library.name, lambda: told.append(1))

    def go() -> None:
        together.wait(30)
        library.load()

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told == [1]


def test_no_library_is_imported_by_installing_all() -> None:
    code = """
import sys
from ratchet.observe import instruments
names = instruments.install(None)
print(names, [each.module for each in instruments.INSTRUMENTS if each.module in sys.modules],
      [name for name in sys.modules if name.startswith("openinference")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    names = ["openai", "anthropic", "openai-agents", "pydantic-ai", "mcp"]
    assert ran.stdout.strip() == f"{names} [] []", ran.stderr


def test_each_row_of_the_table_can_be_used() -> None:
    assert len({each.name for each in INSTRUMENTS}) == len(INSTRUMENTS)
    for each in INSTRUMENTS:
        assert each.openinference or each.own
        assert bool(each.openinference) == bool(each.needs)
        if each.own:
            assert callable(load(each.own))


def test_a_call_within_a_call_of_the_same_model_is_told_once_with_its_tokens(
    exported: tuple[TracerProvider, Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, spans = exported
    monkeypatch.setattr(DelegatingProvider, "target", provider)
    framework, client = (
        DelegatingProvider().get_tracer("framework"),
        DelegatingProvider(innermost=True).get_tracer("client"),
    )
    kind = {"openinference.span.kind": "LLM"}
    with framework.start_as_current_span("outer", attributes=kind) as outer:
        with client.start_as_current_span("inner", attributes=kind) as inner:
            assert inner.get_span_context() == outer.get_span_context()
            inner.set_attributes({"llm.token_count.prompt": 42, "input.value": "secret"})
            with client.start_as_current_span("innermost", attributes=kind) as innermost:
                innermost.set_attribute("llm.token_count.prompt", 1)
                innermost.set_attribute("llm.token_count.completion", 7)
        with framework.start_as_current_span("beside"):
            pass
    assert [span.name for span in spans()] == ["beside", "outer"]
    said = spans()[-1].attributes
    assert said is not None
    assert dict(said) == {**kind, "llm.token_count.prompt": 42, "llm.token_count.completion": 7}


def test_a_call_that_stands_alone_is_told(
    exported: tuple[TracerProvider, Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, spans = exported
    monkeypatch.setattr(DelegatingProvider, "target", provider)
    client = DelegatingProvider(innermost=True).get_tracer("client")
    with (
        DelegatingProvider().get_tracer("framework").start_as_current_span("agent"),
        client.start_as_current_span("call", attributes={"openinference.span.kind": "LLM"}),
    ):
        pass
    ended = provider.get_tracer("x").start_span(
        "over", attributes={"gen_ai.operation.name": "chat"}
    )
    ended.end()
    with trace.use_span(ended):
        client.start_span("after").end()
    assert [span.name for span in spans()] == ["call", "agent", "over", "after"]


def test_a_tool_within_a_tool_of_its_name_is_told_once(
    exported: tuple[TracerProvider, Exported],
) -> None:
    tracer = exported[0].get_tracer("framework")
    with tracer.start_as_current_span("tool", attributes={"gen_ai.tool.name": "look"}) as outer:
        assert isinstance(duplicate_of(outer, {"gen_ai.tool.name": "look"}), DuplicateSpan)
        assert duplicate_of(outer, {"gen_ai.tool.name": "other"}) is None
        assert duplicate_of(outer, {}) is None


def test_a_root_span_that_is_told_twice_is_recorded_once(
    exported: tuple[TracerProvider, Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, spans = exported
    monkeypatch.setattr(DelegatingProvider, "target", provider)
    tracer = DelegatingProvider(repeats_root=True).get_tracer("framework")
    kinds = [{"openinference.span.kind": kind} for kind in ("AGENT", "CHAIN")]
    with (
        tracer.start_as_current_span("run", attributes=kinds[0]) as root,
        tracer.start_as_current_span("run", attributes=kinds[1]) as repeated,
        tracer.start_as_current_span("turn", attributes=kinds[1]) as turn,
        tracer.start_as_current_span("turn", attributes=kinds[1]),
        tracer.start_as_current_span("run", attributes=kinds[0]),
    ):
        assert repeated.get_span_context() == root.get_span_context()
        assert turn.parent.span_id == root.get_span_context().span_id  # type: ignore[attr-defined]
    assert [span.name for span in spans()] == ["run", "turn", "turn", "run"]


def test_a_silent_tracer_keeps_the_place_in_the_trace(
    exported: tuple[TracerProvider, Exported],
) -> None:
    tracer = exported[0].get_tracer("framework")
    with (
        tracer.start_as_current_span("outer") as outer,
        SilentTracer().start_as_current_span("left out"),
        tracer.start_as_current_span("inner") as inner,
    ):
        assert inner.parent.span_id == outer.get_span_context().span_id  # type: ignore[attr-defined]
    assert len(exported[1]()) == 2


def test_a_span_of_ours_holds_the_attributes_of_a_long_conversation() -> None:
    span = StandInProvider().get_tracer("x").start_span("chat")
    for number in range(500):
        span.set_attribute(f"llm.input_messages.{number}.message.content", "x")
    assert len(span.attributes) == 500  # type: ignore[attr-defined]


@pytest.mark.parametrize(("level", "seen"), [("WARNING", []), ("INFO", ["said"])])
def test_semantic_kernels_messages_become_events_and_the_log_stays_as_it_was(
    exported: tuple[TracerProvider, Exported],
    caplog: pytest.LogCaptureFixture,
    level: str,
    seen: list[str],
) -> None:
    logger = logging.getLogger(f"ratchet_test_kernel.{level}")
    above = logging.getLogger("ratchet_test_kernel")
    logger.addFilter(_ToEvents(logger, logger.level))
    logger.setLevel(logging.INFO)
    above.setLevel(level)
    with exported[0].get_tracer("kernel").start_as_current_span("chat"):
        logger.info("said", extra={"event.name": "gen_ai.user.message"})
        logger.info("other")
    (span,) = exported[1]()
    assert [(event.name, dict(event.attributes or {})) for event in span.events] == [
        ("gen_ai.user.message", {"gen_ai.event.content": "said"})
    ]
    assert [record.getMessage() for record in caplog.records][:1] == seen


class _Session:
    """What an MCP session answers, by the tool's name."""

    async def call_tool(self, name: str, arguments: Any = None) -> Any:
        if name == "fails":
            raise ConnectionError("gone")
        texts = [SimpleNamespace(type="text", text=text) for text in ("18 C", "sunny")]
        if name == "refuses":
            return SimpleNamespace(content=texts[:1], isError=True)
        return SimpleNamespace(content=texts[: 1 if name == "weather" else 2], isError=False)


async def _call(session: Any, name: str) -> Any:
    return await session.call_tool(name, {"city": "Paris"})


@pytest.mark.parametrize(
    ("name", "result", "status"),
    [
        ("weather", '"18 C"', "UNSET"),
        ("both", '["18 C","sunny"]', "UNSET"),
        ("refuses", '"18 C"', "ERROR"),
        ("fails", None, "ERROR"),
    ],
)
def test_calls_of_mcp_tools_are_told(
    exported: tuple[TracerProvider, Exported],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    result: str | None,
    status: str,
) -> None:
    seen = type("Seen", (_Session,), {"call_tool": _Session.call_tool})
    for module, content in (
        ("mcp.client.session", {"ClientSession": seen}),
        ("mcp.shared._otel", {"_tracer": None}),
    ):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**content))  # type: ignore[misc]
    switch_on(exported[0])
    if name == "fails":
        with pytest.raises(ConnectionError, match="gone"):
            asyncio.run(_call(seen(), name))
    else:
        assert asyncio.run(_call(seen(), name)).content[0].text == "18 C"
    (span,) = exported[1]()
    said = dict(span.attributes or {})
    assert said["gen_ai.tool.name"] == name
    assert said["gen_ai.tool.call.arguments"] == '{"city":"Paris"}'
    assert said.get("gen_ai.tool.call.result") == result
    assert span.status.status_code.name == status
