"""What a coach is sent: redacted, explained, and not at all if redaction fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ratchet.llm import Coach, Message, Reply
from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.observe.redaction.finding import Finder
from tests.llm.endpoint import Endpoint, answer

MAIL = "ann@example.com"


def asked(endpoint: Endpoint, *messages: str, schema: Any = None, **rules: Any) -> Reply:
    async def go() -> Reply:
        redactor = Redactor(RedactionRules(**rules))
        async with Coach("m", base_url=endpoint.url, key_env="", redactor=redactor) as coach:
            return await coach.ask([Message("user", text) for text in messages], schema=schema)

    return asyncio.run(go())


def test_marks_are_explained_only_where_there_are_some() -> None:
    with Endpoint(lambda _: answer("Fine.")) as endpoint:
        asked(endpoint, f"Write to {MAIL}.")
        asked(endpoint, "Write to nobody.")
        asked(endpoint, f"Write to {MAIL}.", enabled=False)
    first, *others = [request.body["messages"] for request in endpoint.requests]
    assert [message["role"] for message in first] == ["system", "user"]
    assert "stand for values that were removed" in first[0]["content"]
    assert first[1]["content"] == "Write to [redacted:email]."
    assert [[m["content"] for m in messages] for messages in others] == [
        ["Write to nobody."],
        [f"Write to {MAIL}."],
    ]


def test_a_repair_and_the_form_of_the_answer_are_redacted_too() -> None:
    form = {
        "type": "object",
        "properties": {
            "password": {"type": "string"},
            "to": {"enum": [MAIL, "bob@example.com", "nobody"]},
        },
        "required": ["to"],
    }
    replies = iter([f"It is {MAIL}", '{"to": "[redacted:email]"}'])
    with Endpoint(lambda _: answer(next(replies))) as endpoint:
        reply = asked(endpoint, "To whom?", schema=form)
    assert reply.data == {"to": "[redacted:email]"}
    sent = json.dumps([request.body for request in endpoint.requests])
    assert MAIL not in sent
    assert "bob@example.com" not in sent
    schema = endpoint.requests[0].body["response_format"]["json_schema"]["schema"]
    assert schema["properties"] == {
        "password": {"type": "string"},
        "to": {"enum": ["[redacted:email]", "nobody"]},
    }


def test_what_cannot_be_redacted_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Finder, text: str) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Finder, "may_contain_secret", fail)
    with Endpoint(lambda _: answer("Fine.")) as endpoint:
        reply = asked(endpoint, f"Write to {MAIL}.")
    assert "not sent, because it could not be redacted" in reply.problem
    assert endpoint.requests == []


@pytest.mark.parametrize(
    "text",
    [
        'Of {"owner": "Miller, Ann", "n": 1}: fine.',
        "Of owner: 'Miller, Ann', n: 1",
        'Of {"owner": {"first": "Ann", "last": "Miller"}, "n": 1}: fine.',
        'Of [{"owner": ["Ann", "Miller"]}]',
        'As JSON in JSON: {"body": "{\\"owner\\": \\"Miller, Ann\\"}"}',
    ],
)
def test_a_projects_fields_are_found_within_prose(text: str) -> None:
    with Endpoint(lambda _: answer("Fine.")) as endpoint:
        asked(endpoint, text, keys=("owner",))
    assert "[redacted:field]" in endpoint.requests[0].said
    assert "Ann" not in endpoint.requests[0].said


def test_the_beginning_of_a_secret_before_a_cut_is_removed_wherever_it_stands() -> None:
    cuts = [
        "Write to ann.miller@exa… [30 more characters]\nand more",
        "Write to ann.miller@exa\n[... 30 characters left out ...]\nand more",
    ]
    with Endpoint(lambda _: answer("Fine.")) as endpoint:
        for cut in cuts:
            asked(endpoint, cut)
    assert not any("ann.miller" in request.said for request in endpoint.requests)
