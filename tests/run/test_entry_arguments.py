"""Entries with mapped arguments: constants, fields of the input, typed objects and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.run.executing import execute

from ratchet.autopilot.task_inputs import check_task_inputs
from ratchet.run import WorkerExecutor
from ratchet.run.agent_host import AgentHost, HostedAgent
from ratchet.sandbox.interpreter import this_interpreter
from ratchet.types import AgentError, Candidate, Claim, InputError, Outcome, Task
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]
Pool = Callable[..., WorkerExecutor]


def called(
    spec: AgentSpec, *inputs: Any, claims: Claims, candidate: Candidate, **settings: Any
) -> list[Outcome]:
    """How attempts in this process end."""
    agent = load_agent(msgspec.structs.replace(spec, **settings))
    executor = AsyncExecutor(agent, slots=4, timeout_s=20.0)
    return execute(executor, claims(*inputs), candidate)


def test_each_parameter_gets_a_constant_or_a_part_of_the_input(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate
) -> None:
    spec = write_agent("""
        def run(question, /, date, *more, tone="kind", limit=3, **others):
            return [question, date, more, tone, limit, others]
    """)
    given = {"text": "Where?", "date": "2024-05-10", "tags": ["a", "b"]}
    (outcome,) = called(
        spec,
        given,
        arguments={
            "question": "{input.text} ({input.date})",
            "date": "{input.date}",
            "more": "{input.tags}",
            "tone": "{{curt}}",
            "limit": 5,
            "options": {"deep": ["{input.tags.1}", True]},
        },
        claims=claims,
        candidate=candidate,
    )
    assert outcome.error == ""
    assert outcome.output == [
        "Where? (2024-05-10)",
        "2024-05-10",
        ["a", "b"],
        "{curt}",
        5,
        {"options": {"deep": ["b", True]}},
    ]


def test_the_arguments_of_a_recorded_call_are_passed_as_they_are(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate
) -> None:
    spec = write_agent("""
        def run(question, tone):
            return [tone, question]
    """)
    arguments = {"question": "{input}", "tone": "kind"}
    asked = [{"question": "a", "tone": "curt"}, {"question": "a"}, "a"]
    outcomes = called(spec, *asked, arguments=arguments, claims=claims, candidate=candidate)
    assert [outcome.output for outcome in outcomes] == [
        ["curt", "a"],
        ["kind", {"question": "a"}],
        ["kind", "a"],
    ]


TYPED = """
    from __future__ import annotations
    import dataclasses, datetime, enum
    from pathlib import Path
    from typing import Annotated, Literal, Optional, TypedDict, Union
    import pydantic

    class Tone(enum.Enum):
        KIND = "kind"

    @dataclasses.dataclass
    class Order:
        id: int
        when: datetime.date
        tone: Tone = Tone.KIND

    class Message(pydantic.BaseModel):
        type: str
        content: str

    class Human(Message):
        type: Literal["human"] = "human"

    class Answer(Message):
        type: Literal["ai"] = "ai"

    class Customer(pydantic.BaseModel):
        name: str
        orders: list[Order] = []

    class Plain(TypedDict):
        id: int

    class State(TypedDict):
        messages: Annotated[list[Message], "added"]
        rest: dict[str, Order]

    def run(state: State, customer: Customer | None, tone: Optional[Tone], place: Path,
            either: Union[str, Plain, Order], messages: list[Union[Human, Answer]], raw: dict,
            number: int):
        return Customer(
            name=" ".join([
                *(type(each).__name__ for each in (*state["messages"], *messages)),
                type(state["rest"]["a"]).__name__, type(customer).__name__, repr(tone),
                place.name, type(either).__name__, type(raw).__name__, type(number).__name__,
            ]),
            orders=customer.orders,
        )
"""

TYPED_INPUT = {
    "state": {
        "messages": [{"type": "human", "content": "hi"}, {"type": "other", "content": ""}],
        "rest": {"a": {"id": 1, "when": "2024-01-02"}},
    },
    "customer": {"name": "Ann", "orders": [{"id": 7, "when": "2024-05-10", "tone": "kind"}]},
    "tone": "kind",
    "place": "a/b.txt",
    "either": {"id": 2},
    "messages": [{"type": "ai", "content": "x"}, {"type": "human", "content": "y"}],
    "raw": {"id": 1},
    "number": "7",
}


@pytest.mark.parametrize("mapped", [True, False])
def test_objects_are_built_by_the_types_that_are_annotated_and_returned_by_their_own_dump(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate, mapped: bool
) -> None:
    arguments = {name: f"{{input.{name}}}" for name in TYPED_INPUT} if mapped else None
    (outcome,) = called(
        write_agent(TYPED), TYPED_INPUT, arguments=arguments, claims=claims, candidate=candidate
    )
    assert outcome.error == ""
    assert outcome.output == {
        "name": "Human Message Answer Human Order Customer <Tone.KIND: 'kind'> b.txt dict dict str",
        "orders": [{"id": 7, "when": "2024-05-10", "tone": "kind"}],
    }


def test_messages_of_langchain_are_built_as_what_they_say_they_are(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate
) -> None:
    pytest.importorskip("langchain_core")
    spec = write_agent("""
        from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, AIMessage
        def run(messages: list[BaseMessage], any: list[AnyMessage]):
            return [type(each).__name__ for each in (*messages, *any)]
    """)
    dumped = [{"type": "human", "content": "q"}, {"type": "ai", "content": "a", "id": None}]
    given = {"messages": dumped, "any": dumped}
    (outcome,) = called(spec, given, claims=claims, candidate=candidate)
    assert outcome.output == ["HumanMessage", "AIMessage"] * 2


METHODS = """
    class Desk:
        made = 0

        def __init__(self, customer, tone="curt"):
            Desk.made += 1
            self.customer, self.tone, self.asked = customer, tone, []

        def answer(self, question):
            self.asked.append(question)
            return [self.customer, self.tone, self.asked]

        async def later(self, question):
            return self.answer(question)

        @classmethod
        def of(cls, question):
            return cls(0).answer(question)

    desk = Desk(1)
"""


@pytest.mark.parametrize("method", ["answer", "later"])
def test_each_attempt_of_a_method_has_an_object_of_its_own(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate, method: str
) -> None:
    outcomes = called(
        write_agent(METHODS, f"Desk.{method}"),
        {"q": "a", "who": 17},
        {"q": "b", "who": 18},
        arguments={"question": "{input.q}"},
        construct={"customer": "{input.who}", "tone": "kind"},
        claims=claims,
        candidate=candidate,
    )
    assert [outcome.output for outcome in outcomes] == [
        [17, "kind", ["a"]],
        [18, "kind", ["b"]],
    ]
    names = {span.name for span in outcomes[0].spans}
    agent = load_agent(
        msgspec.structs.replace(
            write_agent(METHODS, "Desk.answer"),
            arguments={"question": "q"},
            construct={"customer": "{input.who}"},
        )
    )
    with pytest.raises(InputError, match=r"\[agent.construct\] customer names {input.who}"):
        agent.check_input({"q": "a"})
    assert names == {method}


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (
            "run",
            {"arguments": {"q": "{input}"}},
            "it has no parameter 'q'; its parameter 'que",
        ),
        ("run", {"arguments": {}}, "its parameter 'question' has no value"),
        ("run", {"construct": {"a": 1}}, "[agent.construct] is for a method of a class"),
        (
            "Desk.answer",
            {},
            "[agent.construct] does not fit Desk(customer): its parameter 'customer'",
        ),
        ("Desk.answer", {"construct": {"x": 1, "customer": 1}}, "it has no parameter 'x'"),
    ],
)
def test_settings_that_do_not_fit_the_function_are_told_when_it_is_loaded(
    write_agent: WriteAgent, function: str, settings: dict[str, Any], said: str
) -> None:
    spec = write_agent(
        """
        def run(question, tone="kind"):
            return question
        class Desk:
            def __init__(self, customer): ...
            def answer(self, question): ...
        """,
        function,
    )
    with pytest.raises(AgentError) as failed:
        load_agent(msgspec.structs.replace(spec, **settings))
    assert said in failed.value.message


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("def run(x):\n    yield 'a'\n    yield x", "ab"),
        ("def run(x):\n    yield {'a': 1}\n    yield x", [{"a": 1}, "b"]),
        ("async def run(x):\n    yield 'a'\n    yield x", "ab"),
        ("async def go(x):\n    return x\ndef run(x):\n    return go(x)", "b"),
        ("async def go(x):\n    yield x\ndef run(x):\n    return go(x)", "b"),
        ("def go(x):\n    yield x\nasync def run(x):\n    return go(x)", "b"),
        ("def run(x):\n    return map(str.upper, x)", "B"),
        ("def run(x):\n    return iter([])", []),
        ("class A:\n    def __call__(self, x): return x * 2\nrun = A()", "bb"),
        ("class A:\n    async def __call__(self, x): return x * 2\nrun = A()", "bb"),
        (
            "import functools\ndef go(a, x):\n    return a + x\nrun = functools.partial(go, 'a')",
            "ab",
        ),
    ],
)
def test_what_is_produced_piece_by_piece_or_later_or_by_an_object_is_the_output(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate, source: str, output: Any
) -> None:
    (outcome,) = called(write_agent(source), "b", claims=claims, candidate=candidate)
    assert outcome.error == ""
    assert outcome.output == output
    (root,) = [span for span in outcome.spans if span.parent_id is None]
    assert " object at 0x" not in str(root.attributes["ratchet.output"])


def test_arguments_reach_worker_processes_and_the_agents_own_interpreter(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate, pool: Pool
) -> None:
    spec = msgspec.structs.replace(
        write_agent("def run(question, tone):\n    return f'{tone}: {question}'"),
        arguments={"question": "{input.text}", "tone": "kind"},
    )
    outcomes = execute(pool(spec), claims({"text": "a"}, {"text": "b"}), candidate)
    assert [outcome.output for outcome in outcomes] == ["kind: a", "kind: b"]

    host = AgentHost(this_interpreter())
    try:
        hosted = HostedAgent(host, spec)
        tasks = [Task("t1", {"text": "a"}), Task("t2", {"tex": "b"}), Task("t3", "c")]
        check_task_inputs(hosted, tasks[:1])
        with pytest.raises(InputError) as failed:
            check_task_inputs(hosted, tasks)
        version = hosted.source_version()
        changed = msgspec.structs.replace(spec, arguments={"question": "{input}", "tone": "curt"})
        assert HostedAgent(host, changed).source_version() != version
    finally:
        host.close()
    assert failed.value.message == (
        "Task 't2' cannot be run: [agent.arguments] question names {input.text}, but the task's"
        " input has no field 'text'; it has 'tex'. 1 other task cannot be run either."
    )
