"""The simulator over HTTP, called by OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from ratchet._http import httpx2
from tests.examples.room_booking import PROMPT, TOOLS, tasks
from tests.simulator import Settings, SimulatorProcess, SimulatorThread, asking
from tests.simulator.server import SERVER

ASKED: list[Any] = [
    {"role": "system", "content": PROMPT},
    {"role": "user", "content": tasks()[1]["input"]["request"]},
]


def client(base_url: str, key: str = "none") -> OpenAI:
    """OpenAI's client, which tries nothing again."""
    return OpenAI(base_url=base_url, api_key=key, max_retries=0)


def test_the_task_model_calls_the_tool_and_reports_usage(simulator: SimulatorThread) -> None:
    completion = client(simulator.url).chat.completions.create(
        model="simulated-task", messages=ASKED, tools=TOOLS
    )
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    assert choice.message.tool_calls[0].function.name == "list_rooms"
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"date": "2026-03-04"}
    assert completion.usage
    assert completion.usage.prompt_tokens > 50
    assert completion.usage.total_tokens == (
        completion.usage.prompt_tokens + completion.usage.completion_tokens
    )


def test_a_stream_says_the_same_as_a_whole_answer(simulator: SimulatorThread) -> None:
    asked: Any = asking.edit(PROMPT, asking.TOO_SMALL)
    caller = client(simulator.url)
    whole = caller.chat.completions.create(model="simulated-coach", messages=asked, temperature=0)
    chunks = list(
        caller.chat.completions.create(
            model="simulated-coach",
            messages=asked,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    tool = list(
        caller.chat.completions.create(
            model="simulated-task", messages=ASKED, tools=TOOLS, stream=True
        )
    )
    calls = [c.choices[0].delta.tool_calls for c in tool if c.choices[0].delta.tool_calls]
    assert calls[0][0].function
    assert calls[0][0].function.name == "list_rooms"
    assert tool[-1].choices[0].finish_reason == "tool_calls"


def test_seeds_and_labels_in_the_base_url(simulator: SimulatorThread) -> None:
    asked: Any = asking.edit(PROMPT, asking.TOO_SMALL)

    def said(seed: int, label: str) -> list[str | None]:
        caller = client(simulator.base_url(seed=seed, label=label))
        return [
            caller.chat.completions.create(model="simulated-coach", messages=asked)
            .choices[0]
            .message.content
            for _ in range(6)
        ]

    before = simulator.counters("seeds-b", "simulated-coach")
    first, other = said(7001, "seeds-a"), said(7002, "seeds-b")
    assert first != other
    assert len(set(first)) > 1  # equal questions are sampled anew
    assert before == {}
    counted = simulator.counters("seeds-b", "simulated-coach")
    assert (counted["calls"], counted["conversations"], counted["errors"]) == (6, 6, 0)
    assert counted["output_tokens"] > 0
    with SimulatorThread(Settings(seed="another")) as again:
        caller = client(again.base_url(seed=7001))
        repeated = [
            caller.chat.completions.create(model="simulated-coach", messages=asked)
            .choices[0]
            .message.content
            for _ in range(6)
        ]
    assert repeated == first


def test_temperature_zero_says_the_same_each_time(simulator: SimulatorThread) -> None:
    asked: Any = asking.edit(PROMPT, asking.BOOKED)
    caller = client(simulator.url)
    said = {
        caller.chat.completions.create(model="simulated-coach", messages=asked, temperature=0)
        .choices[0]
        .message.content
        for _ in range(4)
    }
    assert len(said) == 1
    several = caller.chat.completions.create(model="simulated-coach", messages=asked, n=4)
    assert len({choice.message.content for choice in several.choices}) > 1


def test_latency_and_concurrency_are_as_set_and_counted() -> None:
    async def ask(base_url: str) -> float:
        async with AsyncOpenAI(base_url=base_url, api_key="none") as caller:
            began = time.perf_counter()
            await asyncio.gather(
                *(
                    caller.chat.completions.create(model="simulated-task", messages=ASKED, seed=n)
                    for n in range(12)
                )
            )
            return time.perf_counter() - began

    with SimulatorThread(Settings(latency_ms=150)) as slow:
        took = asyncio.run(ask(slow.base_url(label="all")))
        counted = slow.counters("all")
    assert took >= 0.15
    assert counted["calls"] == 12
    assert 2 <= counted["most_in_flight"] <= 12
    assert counted["in_flight"] == 0


def test_a_limit_of_tokens_cuts_the_answer(simulator: SimulatorThread) -> None:
    asked: Any = asking.gradient(PROMPT, asking.TOO_SMALL)
    answer = client(simulator.url).chat.completions.create(
        model="simulated-coach", messages=asked, max_tokens=5
    )
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].message.content or "") == 20


def test_a_wrong_key_is_refused() -> None:
    with SimulatorThread(Settings(key="sk-right")) as locked:
        with pytest.raises(openai.AuthenticationError):
            client(locked.url, "sk-wrong").models.list()
        names = [model.id for model in client(locked.url, "sk-right").models.list().data]
        assert "sk-right" not in json.dumps(locked.admin("settings"))
    assert names[:5] == [
        "simulated-task",
        "simulated-coach",
        "simulated-grader",
        "simulated-author",
        "simulated-judge",
    ]


def test_it_fails_as_often_as_it_is_told() -> None:
    with SimulatorThread(Settings(error_rate=0.4)) as failing:
        caller = client(failing.base_url(label="x"))
        statuses: list[int] = []
        for number in range(60):
            try:
                caller.chat.completions.create(model="simulated-task", messages=ASKED, seed=number)
            except openai.APIStatusError as error:
                statuses.append(error.status_code)
        assert 10 < len(statuses) < 40
        assert set(statuses) == {429, 500, 503}
        assert failing.counters("x")["errors"] == len(statuses)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/chat/completions", b"{", 400, "not JSON"),
        ("/v1/chat/completions", b"[]", 400, "not a JSON object"),
        ("/v1/chat/completions", b'{"model": "gpt-5"}', 404, "this is a simulator"),
        ("/v1/chat/completions", b'{"model": "simulated-task"}', 400, "messages"),
        ("/v1/chat/completions", b'{"model": "simulated-task", "messages": [1]}', 400, "role"),
        ("/v1/embeddings", b"{}", 404, "no POST"),
        ("/nowhere", b"{}", 404, "nothing at"),
    ],
)
def test_bad_requests_are_named(
    simulator: SimulatorThread, path: str, body: bytes, status: int, words: str
) -> None:
    answer = httpx2.post(f"{simulator.root}{path}", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_it_says_everywhere_that_it_is_a_simulator(simulator: SimulatorThread) -> None:
    answer = httpx2.get(f"{simulator.url}/models")
    assert answer.headers["server"] == SERVER
    assert all(model["owned_by"] == "simulator" for model in answer.json()["data"])
    assert "simulator" in SERVER
    assert simulator.admin("counters")["server"] == SERVER


def test_the_command_serves_until_it_is_ended() -> None:
    with SimulatorProcess("--seed", "3", "--latency-ms", "1", "--jitter", "0.5") as process:
        answer = client(process.base_url(label="cli")).chat.completions.create(
            model="simulated-task", messages=ASKED, tools=TOOLS
        )
        assert answer.system_fingerprint == "simulator"
        assert process.admin("settings")["seed"] == "3"
        assert process.counters("cli")["calls"] == 1
        log = process.admin("log")["requests"]
        assert [(entry["model"], entry["status"]) for entry in log] == [("simulated-task", 200)]
        process.reset()
        assert process.counters("cli") == {}
