"""Conversations: what was said, each message once, put together from what calls resend."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.made import pages

from ratchet.store import Store
from ratchet.store.dialogue import ConversationStep, RecordedCall, dialogue
from ratchet.store.messages import messages_in
from ratchet.types import Feedback, InputError, Span, SpanRecord
from ratchet.types.trace import ConversationMessage

_numbers = itertools.count(1)
SECOND = 1_000_000_000

Turn = tuple[str, str]


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def asks(words: str) -> dict[str, Any]:
    return text("user", words)


def answers(words: str) -> dict[str, Any]:
    return text("assistant", words)


def calls(name: str, id: str = "c1", **arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def returns(response: Any, id: str = "c1") -> dict[str, Any]:
    return {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": id, "response": response}],
    }


class Talk:
    """Spans of a conversation, made one after another."""

    def __init__(self, id: str = "chat") -> None:
        self.id = id
        self.spans: list[Span] = []
        self._at = 0

    def span(self, trace: str, name: str, parent: str | None = None, **attributes: Any) -> str:
        """Add a span; returns its id."""
        self._at += 1
        number = next(_numbers)
        self.spans.append(
            Span(
                trace_id=trace,
                span_id=f"{number:016x}",
                parent_id=parent,
                name=name,
                start_ns=self._at * SECOND,
                end_ns=self._at * SECOND + SECOND // 2,
                attributes={"gen_ai.conversation.id": self.id, **attributes},
            )
        )
        return self.spans[-1].span_id

    def call(
        self,
        trace: str,
        given: list[dict[str, Any]],
        made: list[dict[str, Any]],
        parent: str | None = None,
        **attributes: Any,
    ) -> str:
        """Add a call of a model."""
        messages = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(given),
            "gen_ai.output.messages": json.dumps(made),
        }
        return self.span(trace, "chat gpt", parent, **messages, **attributes)

    def steps(self) -> list[ConversationStep]:
        """As the store reads them."""
        return [
            ConversationStep(
                each.trace_id,
                each.span_id,
                each.parent_id,
                each.name,
                each.start_ns,
                each.end_ns,
                str(each.attributes.get("gen_ai.conversation.id", "")),
                RecordedCall(
                    operation=each.attributes.get("gen_ai.operation.name"),
                    agent=each.attributes.get("gen_ai.agent.name"),
                    inputs=each.attributes.get("gen_ai.input.messages"),
                    outputs=each.attributes.get("gen_ai.output.messages"),
                    system=each.attributes.get("gen_ai.system_instructions"),
                    input=each.attributes.get("ratchet.input"),
                    output=each.attributes.get("ratchet.output"),
                ),
            )
            for each in self.spans
        ]

    def said(self) -> list[Turn]:
        """Roles and words, in order."""
        return [shown(one) for one in dialogue(self.steps(), self.id).messages]


def shown(said: ConversationMessage) -> Turn:
    words = []
    for part in said.parts:
        if part["type"] == "tool_call":
            words.append(f"{part['name']}()")
        else:
            words.append(str(part.get("content", part.get("response"))))
    return said.role, " ".join(words)


def put(store: Store, talk: Talk, agent: str = "bot") -> None:
    store.spans.put([SpanRecord(span=each, agent=agent) for each in talk.spans])


U1, A1, U2, A2, U3, A3 = (
    asks("hi"),
    answers("hello"),
    asks("and now?"),
    answers("this"),
    asks("thanks"),
    answers("welcome"),
)


def turns(*messages: dict[str, Any]) -> list[Turn]:
    return [(m["role"], m["parts"][0].get("content")) for m in messages]


def test_where_the_server_keeps_the_history_each_call_brings_what_is_new() -> None:
    talk = Talk()
    yes = asks("yes")
    talk.call("t1", [U1], [A1])
    talk.call("t2", [yes], [A2])
    talk.call("t3", [yes], [A3])
    assert talk.said() == turns(U1, A1, yes, A2, yes, A3)


def test_an_answer_that_comes_back_in_another_form_is_not_told_twice() -> None:
    talk = Talk()
    talk.call("t1", [U1], [answers("hello **there**")])
    talk.call("t2", [U1, answers("hello there"), U2], [A2])
    talk.call("t3", [U1, answers("hello there"), U2, A2, U3], [A3])
    assert talk.said() == turns(U1, answers("hello **there**"), U2, A2, U3, A3)


def test_tool_calls_and_their_results_stand_in_their_place() -> None:
    talk = Talk()
    call, result = calls("find", id="x1", city="Rome"), returns({"rooms": 3}, id="x1")
    talk.call("t1", [U1], [call])
    # The ids are others, and what was an object is its text now.
    again = [U1, calls("find", id="y1", city="Rome"), returns('{"rooms": 3}', id="y1")]
    talk.call("t1", again, [A1])
    talk.call("t2", [U1, call, result, A1, U2], [A2])
    assert talk.said() == [
        ("user", "hi"),
        ("assistant", "find()"),
        ("tool", '{"rooms": 3}'),
        *turns(A1, U2, A2),
    ]


def test_a_call_that_a_library_beneath_reports_again_is_told_once() -> None:
    talk = Talk()
    outer = talk.call("t1", [U1], [A1])
    talk.call("t1", [U1], [A1], parent=outer)
    assert talk.said() == turns(U1, A1)


def test_system_prompts_stand_apart() -> None:
    talk = Talk()
    system = [{"type": "text", "content": "Be kind."}]
    talk.call("t1", [U1], [A1], **{"gen_ai.system_instructions": json.dumps(system)})
    leading = [text("system", "Be kind."), U1, A1, text("developer", "Be short."), U2]
    talk.call("t2", leading, [A2])
    found = dialogue(talk.steps(), "chat")
    assert [(one.text, one.calls) for one in found.instructions] == [
        ("Be kind.", 2),
        ("Be short.", 1),
    ]
    assert [shown(one) for one in found.messages] == turns(U1, A1, U2, A2)


def test_what_agents_say_to_one_another_is_nested() -> None:
    talk = Talk()
    agent = {"gen_ai.operation.name": "invoke_agent"}
    outer = talk.span("t1", "desk", **agent)
    talk.call("t1", [U1], [calls("research")], parent=outer)
    tool = talk.span("t1", "research", outer, **{"gen_ai.operation.name": "execute_tool"})
    inner = talk.span("t1", "researcher", tool, **agent)
    talk.call("t1", [asks("Look this up")], [answers("Found")], parent=inner)
    talk.call("t1", [U1, calls("research"), returns("Found")], [A1], parent=outer)
    found = dialogue(talk.steps(), "chat").messages
    assert [(shown(one), one.nested, one.agent) for one in found] == [
        (("user", "hi"), False, "desk"),
        (("assistant", "research()"), False, "desk"),
        (("user", "Look this up"), True, "researcher"),
        (("assistant", "Found"), True, "researcher"),
        (("tool", "Found"), False, "desk"),
        (("assistant", "hello"), False, "desk"),
    ]


def test_where_no_call_was_recorded_the_agents_input_and_output_are_what_was_said() -> None:
    talk = Talk()
    captured = {"ratchet.input": '{"question": "hi"}', "ratchet.output": '"hello"'}
    root = talk.span("t1", "answer", **captured)
    talk.span("t1", "step", root, **{"ratchet.input": '"not said"'})
    assert talk.said() == [("user", "hi"), ("assistant", "hello")]


def test_messages_whose_end_was_cut_are_read_as_far_as_they_are_whole() -> None:
    whole = json.dumps([U1, A1, U2])
    talk = Talk()
    cut = whole[: len(whole) - 20] + "… [20 more characters]"
    talk.span("t1", "chat", **{"gen_ai.input.messages": cut})
    found = dialogue(talk.steps(), "chat")
    assert ([shown(one) for one in found.messages], found.cut) == (turns(U1, A1), True)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "",
        " ",
        "[",
        "{",
        "x",
        "[[[[",
        "null",
        '"text"',
        "[1, 2]",
        '[{"role": 1}]',
        '[{"role": "user", "parts": "p"}]',
        '[{"role": "user", "content": {"a": 1}}]',
        '[{"role": "user", "parts": [1, null, {"type": 5}]}]',
        "[" * 100_000,
        7,
        [None, {"role": None, "parts": None}],
        {"role": "user"},
    ],
)
def test_no_attribute_breaks_a_log(odd: Any) -> None:
    messages, _ = messages_in(odd)
    assert all(isinstance(m["role"], str) and isinstance(m["parts"], list) for m in messages)
    talk = Talk()
    talk.span("t1", "chat", **{"gen_ai.input.messages": odd, "gen_ai.system_instructions": odd})
    around = {"ratchet.input": odd, "gen_ai.operation.name": odd, "gen_ai.agent.name": odd}
    outer = talk.span("t1", "step", **around)
    talk.call("t1", [U1], [A1], parent=outer)
    assert ("user", "hi") in talk.said()


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    window=st.integers(2, 8),
    words=st.lists(st.sampled_from(["a", "b", "c"]), min_size=30, max_size=30),
)
def test_no_message_is_lost_whatever_is_resent(
    sizes: list[int], window: int, words: list[str]
) -> None:
    talk = Talk()
    history: list[dict[str, Any]] = []
    supply = iter(enumerate(words))
    for number, size in enumerate(sizes):
        for _ in range(size):
            place, word = next(supply)
            history.append(asks(f"{word}{place}"))
        reply = answers(f"reply {number}")
        talk.call(f"t{number}", history[-window - size :], [reply])
        history.append(reply)
    assert talk.said() == turns(*history)


def test_a_conversation_has_the_input_of_its_first_trace_as_its_title(store: Store) -> None:
    talk = Talk()
    talk.call("a" * 32, [asks("Where is\nmy pan?")], [answers("On its way.")])
    talk.call("b" * 32, [asks("And my cup?")], [answers("Lost.")])
    put(store, talk)
    assert [told.title for told in store.conversations.list()[0]] == [""]
    store.trace_index.complete()
    [told], _ = store.conversations.list()
    assert (told.title, told.turns) == ("Where is my pan?", 2)


def test_a_log_a_list_and_operations_from_the_store(store: Store) -> None:
    talk = Talk()
    root = talk.span("t1", "desk", **{"gen_ai.operation.name": "invoke_agent"})
    usage = {
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.request.model": "gpt",
    }
    talk.call("t1", [U1], [A1], parent=root, **usage)
    talk.call("t2", [U1, A1, U2], [A2])
    other = Talk("other")
    other.call("o1", [U1], [A1])
    put(store, talk)
    put(store, other, agent="second")
    store.feedback.add(
        [
            Feedback(id="1", kind="thumbs", value=0.0, trace_id="t2"),
            Feedback(id="2", kind="rating", value=0.5, conversation_id="chat"),
            Feedback(id="3", kind="rating", value=0.75, conversation_id="chat", trace_id="t1"),
        ],
        1.0,
    )
    found = store.conversations.log("chat")
    assert found is not None
    held = found.conversation
    assert (held.id, held.agent, held.turns, held.feedback, held.worst) == ("chat", "bot", 2, 3, 0)
    assert (held.start_ns, held.last_ns) == (SECOND, 3 * SECOND)
    assert [shown(one) for one in found.messages] == turns(U1, A1, U2, A2)
    assert not found.cut
    assert [one.id for one in store.conversations.list()[0]] == ["chat", "other"]
    assert [one.id for one in store.conversations.list(agent="second")[0]] == ["other"]
    page, cursor = store.conversations.operations(
        "chat", limit=2, price=lambda call: call.input_tokens / 4
    )
    assert [(one.kind, one.name) for one in page] == [
        ("invoke_agent", "desk"),
        ("chat", "chat gpt"),
    ]
    call = page[1].call
    assert call is not None
    assert (call.model, call.input_tokens, call.cost_usd) == ("gpt", 10, 2.5)
    rest, end = store.conversations.operations("chat", limit=2, cursor=cursor)
    assert ([one.trace_id for one in rest], end) == (["t2"], None)
    assert store.conversations.log("nothing") is None
    assert store.conversations.operations("nothing") == ([], None)


def test_pages_of_conversations_hold_each_once_by_what_happened_last(store: Store) -> None:
    talks = [Talk(f"c{number}") for number in range(5)]
    for round in range(3):
        for number, talk in enumerate(talks):
            talk._at = round * 10 + number
            talk.call(f"{talk.id}-{round}", [U1], [A1])
    for talk in reversed(talks):
        put(store, talk)
    listed = pages(lambda at: store.conversations.list(limit=2, cursor=at))
    every = [one for page in listed for one in page]
    assert {one.turns for one in every} == {3}
    found = [one.id for one in every]
    assert found == ["c4", "c3", "c2", "c1", "c0"]
    with pytest.raises(InputError, match="is invalid"):
        store.conversations.list(cursor="x")
    assert store.conversations.find("c") == found[::-1]
    assert store.conversations.find("c3") == ["c3"]
    assert store.conversations.find("") == store.conversations.find("z") == []


def test_a_trace_of_several_conversations_belongs_to_each_with_its_own_part(store: Store) -> None:
    talk = Talk()
    talk.span("t", "batch", **{"gen_ai.conversation.id": ""})
    first = talk.span("t", "one", talk.spans[0].span_id)
    talk.call("t", [U1], [A1], parent=first, **{"gen_ai.conversation.id": ""})
    talk.id = "second"
    talk.call("t", [U2], [A2], parent=talk.spans[0].span_id)
    put(store, talk)
    assert sorted(one.id for one in store.conversations.list()[0]) == ["chat", "second"]
    for id, expected in (("chat", turns(U1, A1)), ("second", turns(U2, A2))):
        found = store.conversations.log(id)
        assert found is not None
        assert [shown(one) for one in found.messages] == expected
    assert [one.trace_id for one in store.traces.list()[0]] == ["t"]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.conversation.id": "a", "session.id": "b"}, "a"),
        ({"session.id": "b"}, "b"),
        ({"session.id": 7}, "7"),
        ({"session.id": "a\x00b"}, "a\ufffdb"),
        ({"session.id": "x" * 500}, "x" * 200),
    ],
)
def test_the_conversation_of_a_span_is_what_it_names(
    store: Store, attributes: dict[str, Any], expected: str
) -> None:
    span = Span(trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2, attributes=attributes)
    store.spans.put([SpanRecord(span=span, agent="bot")])
    assert [one.id for one in store.conversations.list()[0]] == [expected]


@pytest.mark.parametrize("odd", [None, "", [], {}, True, 1.5, ["a"]])
def test_a_conversation_that_is_no_name_is_none(store: Store, odd: Any) -> None:
    span = Span(
        trace_id="t", span_id="s", name="n", start_ns=1, end_ns=2, attributes={"session.id": odd}
    )
    store.spans.put([SpanRecord(span=span, agent="bot")])
    assert store.conversations.list() == ([], None)
