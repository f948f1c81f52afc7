"""The simulator over HTTP, called by OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from ratchet._http import httpx2
from tests.examples.room_booking import PROMPT, TOOLS, tasks
from tests.simulator import Settings, SimulatorProcess, SimulatorThread

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
