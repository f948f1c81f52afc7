"""The coach through litellm, against the same loopback server; skipped where it is missing."""

from __future__ import annotations

import asyncio

import pytest

from ratchet.llm import Coach, CoachModel, CoachSettings, CoachUnavailable, Message, Reply
from tests.llm.endpoint import Endpoint, Reaction, answer, error

pytest.importorskip("litellm", reason="the extra litellm is not installed")

KEY = "sk-test-0123456789abcdefghijklmnopqrstuv"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def ask(reactions: list[Reaction], **settings: float) -> tuple[Reply, Endpoint]:
    left = iter(reactions)

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async def work(url: str) -> Reply:
        model = CoachModel(name="litellm:openai/gpt-4o-mini", base_url=url, key_env="MY_KEY")
        made = CoachSettings(**settings)  # type: ignore[arg-type]
        environ = {"MY_KEY": KEY}
        async with Coach([model], settings=made, environ=environ, sleep=no_wait) as coach:
            return await coach.ask([Message("user", "Count.")], schema=SCHEMA)

    with Endpoint(lambda _: next(left)) as endpoint:
        return asyncio.run(work(endpoint.url)), endpoint


def test_an_answer_by_schema_with_its_costs() -> None:
    reply, endpoint = ask([answer('{"a": 1}')])
    assert reply.data == {"a": 1}
    assert (reply.input_tokens, reply.output_tokens) == (100, 10)
    assert reply.cost_usd == pytest.approx((100 * 0.15 + 10 * 0.6) / 1e6)
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_wrong_key_is_told_without_it() -> None:
    with pytest.raises(CoachUnavailable, match="was refused") as caught:
        ask([error(401, f"Incorrect API key provided: {KEY}")])
    assert KEY[3:] not in str(caught.value)
