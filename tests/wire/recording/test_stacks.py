"""At each model call stand the repository's functions with their arguments, whatever is between."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wire.recording.recorded import arguments, frame, functions, project, recorded


def test_an_agent_of_tasks_threads_and_pools_has_whole_stacks(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        desk__agent="""
        import asyncio, functools, threading
        from concurrent.futures import ThreadPoolExecutor
        from asking import ask

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args, **named):
                return function(*args, **named)
            return wrapper

        class Desk:
            def __init__(self, tone, limit=3):
                self.tone = tone

            async def answer(self, question: str, customer=17):
                question = question.strip()
                own = asyncio.create_task(self.pooled(question))
                return await asyncio.gather(own, asyncio.to_thread(self.threaded, question))

            async def pooled(self, text):
                loop = asyncio.get_running_loop()
                kindly = functools.partial(polite, text, tone="kind")
                return await loop.run_in_executor(None, kindly)

            def threaded(self, text):
                said = []
                thread = threading.Thread(target=lambda: said.append(ask(text)))
                thread.start()
                thread.join()
                return said[0]

        @logged
        def polite(text, tone):
            with ThreadPoolExecutor() as pool:
                return list(pool.map(ask, [text]))[0]
        """,
        main="""
        import asyncio, sys
        from desk.agent import Desk

        def main():
            print(asyncio.run(Desk("kind").answer(sys.argv[1])))

        main()
        """,
    )
    recording = recorded(root, "main.py", " Where is it? ", upstream=upstream)
    assert recording.exit_code == 0, recording.stderr_tail
    pooled, threaded = sorted(recording.calls, key=lambda call: "Desk.threaded" in functions(call))
    outer = ["<module>", "main", "Desk.answer"]
    assert functions(pooled) == [
        *outer,
        *("Desk.pooled", "logged.<locals>.wrapper", "polite", "ask"),
    ]
    inner = "Desk.threaded.<locals>.<lambda>"
    assert functions(threaded) == [*outer, "Desk.threaded", inner, "ask"]
    answer = frame(pooled, "Desk.answer")
    assert (answer.file, answer.module, answer.kind) == ("desk/agent.py", "desk.agent", "coroutine")
    assert answer.activation == frame(threaded, "Desk.answer").activation
    assert answer.returned is not None
    assert answer.returned.value == [pooled.response, threaded.response]
    _, question, customer = answer.arguments
    assert (question.value, question.rebound, question.whole) == ("Where is it?", True, True)
    assert (customer.value, customer.is_default) == (17, True)
    assert arguments(frame(pooled, "polite")) == {"text": "Where is it?", "tone": "kind"}
    [constructor] = recording.constructors
    assert constructor.function == "Desk.__init__"
    assert arguments(constructor) == {"tone": "kind", "limit": 3}
    assert [text.text for text in pooled.texts] == ["Answer shortly.", "Where is it?"]


def test_generators_are_told_from_functions_and_keep_their_items_and_errors(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import asyncio, threading
        from concurrent.futures import ThreadPoolExecutor
        from asking import ask

        def words(question, *parts, **options):
            yield ask(question)
            yield from [1, 2]

        async def streamed(question):
            yield await asyncio.to_thread(ask, question)
            await asyncio.sleep(0)
            yield "end"

        async def collected():
            return [item async for item in streamed("async")]

        def pooled():
            with ThreadPoolExecutor() as pool:
                return pool.submit(ask, "pooled").result()

        def threaded():
            thread = threading.Thread(target=pooled)
            thread.start()
            thread.join()

        def failing():
            ask("failing")
            raise ValueError("no such order")

        def twice():
            ask("first")
            ask("second")

        list(words("sync", "a", "b", tone="kind"))
        asyncio.run(collected())
        twice()
        twice()
        [ask(question) for question in ("in a comprehension",)]
        next(words("left early"))
        threaded()
        failing()
        """,
    )
    recording = recorded(root, "main.py", upstream=upstream)
    assert recording.exit_code == 1
    assert "ratchet_recording_hook" not in recording.stderr_tail
    sync, asynchronous, *rest = recording.calls
    words, streamed = frame(sync, "words"), frame(asynchronous, "streamed")
    assert (words.kind, streamed.kind) == ("generator", "async_generator")
    assert words.returned is not None
    assert streamed.returned is not None
    assert words.returned.value == [sync.response, 1, 2]
    assert streamed.returned.value == [asynchronous.response, "end"]
    assert arguments(words) == {
        "question": "sync",
        "*parts": ["a", "b"],
        "**options": {"tone": "kind"},
    }
    activations = [frame(call, "twice").activation for call in rest[:4]]
    assert activations[0] == activations[1] != activations[2] == activations[3]
    assert functions(rest[4]) == ["<module>", "ask"]
    left, pooled = frame(rest[5], "words"), frame(rest[6], "pooled")
    assert left.returned is not None
    assert pooled.returned is not None
    assert left.returned.value == [rest[5].response]
    assert pooled.returned.value == rest[6].response
    assert frame(rest[7], "failing").raised == "ValueError: no such order"


def test_values_are_copied_by_their_types_bounded_and_without_secrets(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import attrs, dataclasses, datetime, enum, msgspec, pydantic
        from typing import TypedDict
        from asking import ask

        class Kind(enum.Enum):
            MAIL = "mail"

        @dataclasses.dataclass
        class Mail:
            text: str
            kind: Kind
            password: str

        class Order(pydantic.BaseModel):
            number: int
            on: datetime.date

        class State(TypedDict):
            mail: Mail

        @attrs.define
        class Part:
            weight: float

        class Item(msgspec.Struct):
            name: str

        class Session:
            pass

        def handle(state, order, part, item, session, long, api_key, note, again):
            return ask(state["mail"].text)

        loop = []
        loop.append(loop)
        handle(
            State(mail=Mail("Where?", Kind.MAIL, "hunter2")),
            Order(number=4711, on=datetime.date(2026, 1, 2)),
            Part(1.5), Item("lamp"), Session(), "x" * 100_000, "key-of-mine",
            "the key is one-that-nobody-may-see", loop,
        )
        """,
    )
    secret = {"CRM_TOKEN": "one-that-nobody-may-see"}
    recording = recorded(root, "main.py", upstream=upstream, **secret)
    [call] = recording.calls
    by_name = {argument.name: argument for argument in frame(call, "handle").arguments}
    values = {name: argument.value for name, argument in by_name.items()}
    mail = {"text": "Where?", "kind": "mail", "password": "[redacted]"}
    assert values["state"] == {"mail": mail}
    assert values["order"] == {"number": 4711, "on": "2026-01-02"}
    assert (values["part"], values["item"]) == ({"weight": 1.5}, {"name": "lamp"})
    assert by_name["order"].type == "__main__.Order"
    whole = {name for name, argument in by_name.items() if argument.whole}
    assert whole == {"order", "part", "item"}
    assert (values["session"], values["api_key"]) == (None, "[redacted]")
    assert values["note"] == "the key is [redacted:CRM_TOKEN]"
    assert len(str(values["long"])) < 100_000


def test_objects_that_fail_when_they_are_looked_at_harm_nothing(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import asking

        class Hostile:
            def __getattr__(self, name):
                raise RuntimeError("outside a request")
            def __eq__(self, other):
                raise RuntimeError("not comparable")
            def model_dump(self):
                raise RuntimeError("no dump")

        def wrapped(password):
            return asking.ask("Where?")

        def answer(function, thing):
            return function(thing)

        hidden, wrapped = wrapped, Hostile()
        print(answer(hidden, Hostile()))
        """,
    )
    recording = recorded(root, "main.py", upstream=upstream)
    [call] = recording.calls
    assert recording.stdout.strip() == call.response
    assert functions(call) == ["<module>", "answer", "wrapped", "ask"]


OWN = """
import sys
from asking import ask
class Agent:
    def __init__(self, tone):
        self.tone = tone
    def answer(self, question):
        yield ask(question)
print(list(Agent("kind").answer(sys.argv[1])))
"""


def interpreters() -> list[str]:
    """Other versions of Python on this machine."""
    found = {}
    for minor in range(8, 16):
        path = shutil.which(f"python3.{minor}")
        places = [path] if path else []
        places += map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for place in places:
            if not subprocess.run([place, "-c", ""], capture_output=True).returncode:
                found.setdefault(minor, place)
    return list(found.values())


def test_every_python_of_this_machine_is_recorded_alike(tmp_path: Path, upstream: str) -> None:
    root = project(tmp_path, main=OWN)
    (pythons := interpreters()) or pytest.skip("There is no other Python.")
    for python in pythons:
        recording = recorded(root, "main.py", "Where?", upstream=upstream, python=python)
        assert recording.exit_code == 0, (python, recording.stderr_tail)
        [call] = recording.calls
        assert functions(call)[-2:] in (["Agent.answer", "ask"], ["answer", "ask"]), python
        returned = call.stack[-2].returned
        assert returned is not None, python
        assert returned.value == [call.response]
        assert arguments(recording.constructors[0]) == {"tone": "kind"}


def test_processes_that_are_started_carry_the_stack_of_those_who_start_them(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import multiprocessing, sys
        from asking import ask

        def handle(question):
            for way in ("spawn", "fork"):
                with multiprocessing.get_context(way).Pool(1) as pool:
                    pool.map(ask, [question])

        if __name__ == "__main__":
            handle("Where?")
        """,
    )
    spawned, forked = recorded(root, "main.py", upstream=upstream).calls
    assert functions(spawned) == functions(forked) == ["<module>", "handle", "ask"]
    assert frame(spawned, "handle").activation == frame(forked, "handle").activation


def test_an_own_sitecustomize_still_runs_and_an_isolated_interpreter_is_told_of(
    tmp_path: Path, upstream: str
) -> None:
    root = project(tmp_path, main="import builtins; print(builtins.marked)")
    own = project(tmp_path / "own", sitecustomize="import builtins; builtins.marked = 'here'")
    recording = recorded(root, "main.py", upstream=upstream, PYTHONPATH=str(own))
    assert recording.stdout == "here\n"
    isolated = recorded(root, "-I", "-c", "print(1)", upstream=upstream)
    assert isolated.python is None
    assert any("does not load" in note for note in isolated.notes)
