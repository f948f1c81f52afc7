"""Spans of decorated functions: their tree, inputs, outputs and errors."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

import ratchet
from ratchet.observe import Collector, SideEffectBlocked, carry_context, collect_process
from ratchet.types import Span

Rollout = Callable[[], AbstractContextManager[Collector]]


def by_name(collector: Collector) -> dict[str, Span]:
    return {span.name: span for span in collector.spans}


@ratchet.tool
def look_up(word: str, *more: str, limit: int = 3) -> list[str]:
    return [word, *more][:limit]


@ratchet.trace("think")
def think(question: str) -> str:
    with ratchet.trace("inner", depth=2) as step:
        step.set("note", {"a": [1]})
        step.set("plain", 1.5)
        return look_up(question)[0].upper()


@ratchet.agent(name="helper")
def answer(question: str) -> str:
    return think(question)


def test_concurrent_tasks_keep_their_trees_apart(rollout: Rollout) -> None:
    @ratchet.tool
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @ratchet.agent
    async def gather(n: int) -> list[int]:
        return await asyncio.gather(*(fetch(n + i) for i in range(3)))

    async def one(n: int) -> Collector:
        with rollout() as collector:
            assert await gather(n) == [n, n + 1, n + 2]
        return collector

    async def main() -> list[Collector]:
        return await asyncio.gather(*(one(n) for n in range(10)))

    for n, collector in enumerate(asyncio.run(main())):
        root = by_name(collector)["gather"]
        children = [span for span in collector.spans if span.name == "fetch"]
        assert [span.parent_id for span in children] == [root.span_id] * 3
        results = {int(span.attributes["gen_ai.tool.call.result"]) for span in children}
        assert results == {n, n + 1, n + 2}


@pytest.mark.parametrize(
    "error",
    [ValueError("no such page"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()],
)
def test_what_is_raised_is_recorded_and_goes_on(rollout: Rollout, error: BaseException) -> None:
    @ratchet.tool
    def fail() -> None:
        raise error

    with rollout() as collector, pytest.raises(type(error)):
        fail()
    (span,) = collector.spans
    assert (span.status, "gen_ai.tool.call.result" in span.attributes) == ("error", False)
    if isinstance(error, ValueError):
        assert span.message == "ValueError: no such page"
        assert span.events[0].attributes["exception.type"] == "ValueError"
        assert "no such page" in span.events[0].attributes["exception.stacktrace"]


def test_generators_keep_their_whole_protocol(rollout: Rollout) -> None:
    closed: list[bool] = []

    def original() -> Generator[int, int, str]:
        try:
            got = yield 1
            try:
                yield got
            except KeyError:
                yield -1
            return "end"
        finally:
            closed.append(True)

    def drive(make: Callable[[], Generator[int, int, str]]) -> tuple[list[int], str]:
        generator = make()
        seen = [next(generator), generator.send(5), generator.throw(KeyError("x"))]
        with pytest.raises(StopIteration) as stop:
            next(generator)
        return seen, stop.value.value

    traced = ratchet.trace("stream")(original)
    assert inspect.isgeneratorfunction(traced)
    assert drive(traced) == ([1, 5, -1], "end")
    with rollout() as collector:
        assert drive(traced) == ([1, 5, -1], "end")
        early = traced()
        next(early)
        early.close()
    assert closed == [True] * 3
    whole, cut = collector.spans
    assert whole.attributes["ratchet.output"] == "[1,5,-1]"
    assert cut.attributes["ratchet.output"] == "[1]", "as far as somebody read it"
    assert (whole.status, cut.status) == ("unset", "unset")


def test_a_stream_that_fails_keeps_what_came_before(rollout: Rollout) -> None:
    @ratchet.llm_call(name="chat")
    def stream() -> Iterator[str]:
        yield "Hello "
        yield "wor"
        raise ConnectionError("gone")

    with rollout() as collector, pytest.raises(ConnectionError):
        list(stream())
    (span,) = collector.spans
    assert span.status == "error"
    assert "Hello wor" in str(span.attributes)


def test_properties_may_be_marked(rollout: Rollout) -> None:
    class Desk:
        def __init__(self) -> None:
            self.kept = 1
            self.counted = 0

        @ratchet.tool
        @property
        def rooms(self) -> int:
            return self.kept

        @rooms.setter  # type: ignore[attr-defined]
        def rooms(self, value: int) -> None:
            self.kept = value

        @ratchet.trace
        @functools.cached_property
        def floors(self) -> int:
            self.counted += 1
            return 3

    desk: Any = Desk()
    with rollout() as collector:
        desk.rooms = 7
        assert desk.rooms == 7
        assert (desk.floors, desk.floors, desk.counted) == (3, 3, 1)
    assert [span.name for span in collector.spans] == ["rooms", "floors"]


def test_async_generators_keep_their_whole_protocol(rollout: Rollout) -> None:
    closed: list[bool] = []

    @ratchet.trace("stream")
    async def stream() -> AsyncIterator[Any]:
        try:
            got = yield 1
            try:
                yield got
            except KeyError:
                yield -1
        finally:
            closed.append(True)

    assert inspect.isasyncgenfunction(stream)

    async def drive() -> list[Any]:
        generator: Any = stream()
        seen = [
            await generator.asend(None),
            await generator.asend(5),
            await generator.athrow(KeyError("x")),
        ]
        with pytest.raises(StopAsyncIteration):
            await generator.asend(None)
        early: Any = stream()
        await anext(early)
        await early.aclose()
        assert len(closed) % 2 == 0, "closed at once, not when it is collected"
        return seen

    assert asyncio.run(drive()) == [1, 5, -1]
    with rollout() as collector:
        assert asyncio.run(drive()) == [1, 5, -1]
        assert asyncio.run(_collect(stream())) == [1, None]
    assert [s.attributes.get("ratchet.output") for s in collector.spans] == [
        "[1,5,-1]",
        "[1]",
        "[1,null]",
    ]


async def _collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_an_endless_stream_costs_no_memory(rollout: Rollout) -> None:
    alive: list[int] = []

    class Item:
        def __init__(self) -> None:
            alive.append(1)

        def __del__(self) -> None:
            alive.pop()

    @ratchet.trace
    def endless() -> Iterator[Item]:
        while True:
            yield Item()

    for number, _ in enumerate(endless()):
        if number == 1000:
            break
    assert len(alive) <= 2
    with rollout():
        for number, _ in enumerate(endless()):
            if number == 20_000:
                break
        assert len(alive) < 17_000


def test_methods_are_recorded_without_their_self(rollout: Rollout) -> None:
    class Agent:
        @ratchet.trace
        def method(self, x: int) -> int:
            return x

        @classmethod
        @ratchet.trace
        def of_class(cls, x: int) -> int:
            return x

        @staticmethod
        @ratchet.trace
        def static(x: int) -> int:
            return x

        @ratchet.trace
        @classmethod
        def class_from_outside(cls, x: int) -> int:
            return x

        @ratchet.trace("named")
        @staticmethod
        def static_from_outside(x: int) -> int:
            return x

    with rollout() as collector:
        assert Agent().method(1) + Agent.of_class(2) + Agent.static(3) == 6
        assert Agent.class_from_outside(4) + Agent().static_from_outside(5) == 9
    inputs = [span.attributes["ratchet.input"] for span in collector.spans]
    assert inputs == [f'{{"x":{number}}}' for number in range(1, 6)]
    assert [span.name for span in collector.spans][3:] == ["class_from_outside", "named"]


def test_objects_that_can_be_called_are_steps_too(rollout: Rollout) -> None:
    class Sync:
        def __call__(self, x: int) -> int:
            return x

    class Async:
        async def __call__(self, x: int) -> int:
            return x

    with rollout() as collector:
        assert ratchet.tool(Sync())(1) == 1
        assert asyncio.run(ratchet.tool(Async())(2)) == 2
        assert ratchet.tool(functools.partial(look_up.__wrapped__, "a"))() == ["a"]  # type: ignore[attr-defined]
    assert [(s.name, s.attributes["gen_ai.tool.call.result"]) for s in collector.spans] == [
        ("Sync", "1"),
        ("Async", "2"),
        ("partial", '["a"]'),
    ]


def test_a_wrong_call_raises_what_it_always_raised(rollout: Rollout) -> None:
    with rollout() as collector, pytest.raises(TypeError, match="missing 1 required positional"):
        look_up()  # type: ignore[call-arg]
    assert collector.spans[0].status == "error"


def test_decorated_functions_keep_their_face() -> None:
    assert (look_up.__name__, inspect.signature(look_up)) == (
        "look_up",
        inspect.signature(look_up.__wrapped__),  # type: ignore[attr-defined]
    )

    @ratchet.agent
    async def entry() -> None: ...

    assert inspect.iscoroutinefunction(entry)


def test_outside_of_rollouts_nothing_is_recorded_and_nothing_changes() -> None:
    sent: list[str] = []

    @ratchet.tool(side_effects=True)
    def send(text: str) -> str:
        sent.append(text)
        return "sent"

    assert (answer("why"), send("hello"), sent) == ("WHY", "sent", ["hello"])
    with ratchet.trace("step") as step:
        step.set("a", object())
        step.output = step
        assert not step.recording
    ratchet.emit_reward(1.0)


def test_nothing_of_opentelemetry_is_imported_before_the_first_span() -> None:
    code = (
        "import sys, ratchet\n@ratchet.agent\ndef f(x): return x\nf(1)\n"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr


def test_spans_of_threads_stand_under_the_step_that_started_them(rollout: Rollout) -> None:
    carry_context()
    with rollout() as collector, ratchet.trace("root"):
        thread = threading.Thread(target=look_up, args=("thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look_up, map(str, range(50))))
    root = by_name(collector)["root"]
    children = [span for span in collector.spans if span.name == "look_up"]
    assert len(children) == 51
    assert {span.parent_id for span in children} == {root.span_id}


def test_threads_without_context_report_to_the_rollout_of_their_process() -> None:
    collector = Collector()
    collect_process(collector)
    try:
        look_up("x")
    finally:
        collect_process(None)
    assert [span.name for span in collector.spans] == ["look_up"]


def test_spans_beyond_the_limit_are_counted_not_kept(
    rollout: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.observe.collector.MAX_SPANS", 3)
    with rollout() as collector:
        for _ in range(5):
            look_up("x")
    assert (len(collector.spans), collector.dropped) == (3, 2)


def test_an_agents_seed_changes_no_ids_and_tracing_no_random_numbers(rollout: Rollout) -> None:
    def draw() -> list[float]:
        random.seed(7)
        numbers = []
        for _ in range(3):
            answer("why")
            numbers.append(random.random())
        return numbers

    plain = draw()
    with rollout() as first:
        assert draw() == plain
    with rollout() as second:
        assert draw() == plain
    ids = [span.span_id for span in (*first.spans, *second.spans)]
    assert len(set(ids)) == len(ids) == 24


def test_a_reward_is_kept_with_its_name(rollout: Rollout) -> None:
    import numpy

    with rollout() as collector:
        ratchet.emit_reward(0.2)
        ratchet.emit_reward(True, rationale="good")
        ratchet.emit_reward(numpy.float32(0.5), name="other")  # type: ignore[arg-type]
    assert {(s.evaluator, s.value, s.rationale) for s in collector.scores} == {
        ("reward", 1.0, "good"),
        ("other", 0.5, ""),
    }


def test_the_reward_of_a_call_is_a_span_and_no_score(rollout: Rollout) -> None:
    with rollout() as collector:
        ratchet.emit_reward(0.25, call=True)
        ratchet.emit_reward(-1, call="chatcmpl-1", rationale="a wrong tool")
    assert collector.scores == ()
    assert [(span.name, dict(span.attributes)) for span in collector.spans] == [
        ("reward", {"ratchet.reward.value": 0.25}),
        (
            "reward",
            {
                "ratchet.reward.value": -1.0,
                "ratchet.reward.response_id": "chatcmpl-1",
                "ratchet.reward.rationale": "a wrong tool",
            },
        ),
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None])
def test_a_reward_that_is_no_finite_number_is_refused(rollout: Rollout, value: Any) -> None:
    with rollout() as collector, pytest.raises(ratchet.RatchetError, match="finite number"):
        ratchet.emit_reward(value)
    assert not collector.scores


def _kinds(acted: list[str]) -> dict[str, Callable[[], Any]]:
    tool = ratchet.tool(side_effects=True)

    def sync(x: str = "sync") -> None:
        acted.append(x)

    async def coroutine() -> None:
        acted.append("async")

    def generator() -> Iterator[int]:
        acted.append("generator")
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        acted.append("async generator")
        yield 1

    return {
        "sync": tool(sync),
        "async": lambda: asyncio.run(tool(coroutine)()),
        "generator": lambda: list(tool(generator)()),
        "async generator": lambda: asyncio.run(_collect(tool(async_generator)())),
    }


@pytest.mark.parametrize("kind", ["sync", "async", "generator", "async generator"])
def test_a_tool_with_side_effects_never_acts_in_a_rollout(rollout: Rollout, kind: str) -> None:
    acted: list[str] = []
    call = _kinds(acted)[kind]
    with rollout() as collector, pytest.raises(SideEffectBlocked, match="side effects"):
        call()
    assert not acted
    assert collector.blocked
    assert collector.spans[0].status == "error"
    call()
    assert acted == [kind]


def test_a_tool_with_side_effects_does_not_act_in_a_child_process_of_a_rollout(
    tmp_path: Any,
) -> None:
    code = (
        "import ratchet\n@ratchet.tool(side_effects=True)\ndef pay(): print('paid')\n"
        "try:\n    pay()\nexcept ratchet.RatchetError: print('blocked')"
    )
    path = tmp_path / "binding.json"
    for variable, said in ((str(path), "blocked"), ("/no/such/folder/x", "blocked"), ("", "paid")):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={"RATCHET_BINDING": variable},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.stdout.strip() == said, ran.stderr
    assert (tmp_path / "binding.json.blocked").read_text() == "pay"
