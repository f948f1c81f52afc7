"""Lists of messages: each message is searched once, with the result of searching the whole."""

from __future__ import annotations

import json
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.redaction import RedactionRules, Redactor, memory
from ratchet.observe.redaction.finding import Finder
from ratchet.types import Span
from tests.observe.redaction import corpus

KEY, OTHER = "gen_ai.input.messages", "gen_ai.output.messages"
PLANTED = [one.text for one in corpus.planted(rounds=1)]
FILLER = "A sentence without any secret, which only makes the list long. " * 16

_content = st.sampled_from(PLANTED) | st.text(max_size=20)
_json = st.recursive(
    _content | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["password", "a", "token"]) | _content, inner, max_size=3)
    ),
    max_leaves=6,
)
_message = st.builds(
    lambda role, content, nested: {
        "role": role,
        "parts": [{"type": "text", "content": json.dumps(content) if nested else content}],
    },
    st.sampled_from(["user", "assistant", "tool"]),
    _content | _json,
    st.booleans(),
)


def message(words: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": words}]}


def redacted(redactor: Redactor, messages: Any, key: str = KEY, **options: Any) -> str:
    """The messages as a span's attribute after redaction."""
    text = json.dumps(messages, **options)
    span = Span(
        trace_id="t", span_id="s", name="chat", start_ns=1, end_ns=2, attributes={key: text}
    )
    return str(redactor.span(span).attributes[key])


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the rules searched."""
    texts: list[str] = []
    real = Finder.cleaned

    def cleaned(self: Finder, text: str) -> str:
        texts.append(text)
        return real(self, text)

    monkeypatch.setattr(Finder, "cleaned", cleaned)
    return texts


@pytest.mark.parametrize("rules", [RedactionRules(), RedactionRules(keys=("a", "x.b"))])
@given(st.lists(_message, min_size=1, max_size=5))
def test_a_list_is_redacted_message_by_message_as_the_whole_would_be(
    rules: RedactionRules, messages: list[Any]
) -> None:
    messages = [message(FILLER), *messages]
    redactor = Redactor(rules)
    whole = Redactor(rules).value(messages)
    for _ in range(2):  # the second time from memory
        assert json.loads(redacted(redactor, messages)) == whole
        assert json.loads(redacted(redactor, messages, separators=(",", ":"))) == whole
        assert json.loads(redacted(redactor, messages, indent=1)) == whole


def test_messages_that_come_again_are_not_searched_again(searched: list[str]) -> None:
    redactor = Redactor()
    history = [message(FILLER)]
    for number in range(10):
        history.append(message(f"Write to user{number}@example.com. {FILLER}"))
        left = redacted(redactor, history)
        assert left.count("[redacted:email]") == number + 1
        assert "@example.com" not in left
    for number in range(10):
        assert sum(f"user{number}@example.com" in text for text in searched) == 1


def test_the_result_of_a_tool_is_searched_once_in_its_span_and_in_messages(
    searched: list[str],
) -> None:
    redactor = Redactor()
    found = json.dumps({"mail": "user@example.com", "note": FILLER})
    span = Span(
        trace_id="t",
        span_id="s",
        name="execute_tool",
        start_ns=1,
        end_ns=2,
        attributes={"gen_ai.tool.call.result": found},
    )
    part = {"type": "tool_call_response", "id": "c", "response": found}
    assert "[redacted:email]" in str(redactor.span(span).attributes)
    assert "[redacted:email]" in redacted(redactor, [{"role": "tool", "parts": [part]}])
    assert sum("user@example.com" in text for text in searched) == 1


def test_a_list_under_a_secret_key_is_a_secret_as_a_whole() -> None:
    redactor = Redactor(RedactionRules(keys=("input.messages",)))
    assert redacted(redactor, [message(FILLER)]) == "[redacted:field]"
    assert redacted(redactor, [message(FILLER)], key=OTHER) != "[redacted:field]"


def test_a_projects_field_is_found_at_its_path_and_left_at_others() -> None:
    redactor = Redactor(RedactionRules(keys=("$.gen_ai.input.messages.secretive",)))
    messages = [{"role": "user", "secretive": "word", "parts": [FILLER]}]
    for _ in range(2):
        assert "[redacted:field]" in redacted(redactor, messages)
        assert "word" in redacted(redactor, messages, key=OTHER)


def test_a_card_number_that_is_no_string_is_found() -> None:
    messages = [{"role": "user", "n": 4111111111111111, "parts": [FILLER]}]
    assert json.loads(redacted(Redactor(), messages))[0]["n"] == "[redacted:card]"
    assert "4111111111111111" not in redacted(Redactor(), [4111111111111111, FILLER])


def test_what_is_remembered_holds_no_secret_and_no_message() -> None:
    redactor = Redactor()
    redacted(redactor, [message(f"user@example.com {FILLER}"), message(f"harmless {FILLER}")])
    remembered = pickle.dumps(vars(redactor._memory))
    assert b"user@example.com" not in remembered
    assert b"harmless" not in remembered
    assert b"[redacted:email]" in remembered


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_TEXTS", 10)
    redactor = Redactor()
    messages = [message(f"user{number}@example.com {FILLER}") for number in range(50)]
    for _ in range(2):
        assert redacted(redactor, messages).count("[redacted:email]") == 50
        assert len(redactor._memory._results) <= 10
    monkeypatch.setattr(memory, "MAX_CHARACTERS", 40_000)
    assert redacted(redactor, messages).count("[redacted:email]") == 50
    assert sum(map(len, redactor._memory._results.values())) <= 40_000 + len(FILLER) + 1_000


def test_threads_that_share_a_redactor_leave_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_TEXTS", 5)  # memory is replaced all the time
    redactor = Redactor()
    messages = [message(f"user{number}@example.com {FILLER}") for number in range(12)]
    left: list[str] = []

    def work() -> None:
        left.extend(redacted(redactor, messages) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(left) == 80
    assert not any("@example.com" in text for text in left)
