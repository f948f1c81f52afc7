"""The npm package merges streams and reads usage as Python does: by the same tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.observe.model_apis import MODEL_APIS, ModelApi
from tests.javascript.built import environment
from tests.node_packages import node
from tests.observe import test_streams, test_usage
from tests.observe.test_streams import (  # noqa: F401 - collected here too
    test_a_streamed_chat_equals_one_that_was_not_streamed,
    test_a_streamed_completion_equals_one_that_was_not_streamed,
    test_a_streamed_message_equals_one_that_was_not_streamed,
    test_a_streamed_response_equals_one_that_was_not_streamed,
    test_tool_calls_are_told_apart_by_id_then_index_then_arrival,
    test_tool_calls_without_ids_of_their_own_are_told_apart_by_name_and_by_whole_arguments,
)

pytestmark = pytest.mark.xdist_group("node")

SERVER = """
import { createInterface } from "node:readline";
import apis from "./dist/model_apis.js";
const known = { openai: apis.OPENAI, anthropic: apis.ANTHROPIC };
for await (const line of createInterface({ input: process.stdin })) {
  const { provider, path, events, answer } = JSON.parse(line);
  const api = known[provider][path];
  const assembly = api.assembly();
  for (const event of events ?? []) assembly.add(event);
  const whole = answer ?? assembly.answer();
  const { begun, complete } = assembly;
  console.log(JSON.stringify({ answer: whole, told: api.told(whole), begun, complete }));
}
"""

_PATHS = {
    id(api): place
    for place, api in reversed(MODEL_APIS.items())
    if place[0] in ("openai", "anthropic")
}  # a server of Ollama speaks OpenAI's protocol too

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask(package: Path) -> Iterator[Ask]:
    """Asks a process of Node what the package makes of events, or of an answer."""
    program = package / "streams.mjs"
    program.write_text(SERVER)
    process = subprocess.Popen(
        [node(), program.name],
        cwd=package,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def answered(api: ModelApi, **given: Any) -> dict[str, Any]:
        provider, path = _PATHS[id(api)]
        stdin.write(json.dumps({"provider": provider, "path": path, **given}) + "\n")
        stdin.flush()
        found: dict[str, Any] = json.loads(stdout.readline())
        return found

    yield answered
    stdin.close()
    process.wait(10)
    program.unlink()


@pytest.fixture(scope="module", autouse=True)
def merged_by_node(ask: Ask) -> Iterator[None]:
    """The tests of Python's assemblies, of the package's."""

    def streamed(api: ModelApi, events: Iterable[dict[str, Any]]) -> dict[str, Any]:
        sent = list(events)
        ours = api.assembly()
        for event in sent:
            ours.add(event)
        found = ask(api, events=sent)
        assert (found["begun"], found["complete"]) == (ours.begun, ours.complete)
        attributes = test_streams.recorded(api, found["answer"])
        assert found["told"] == without_content(attributes)
        return attributes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_streams, "streamed", streamed)
        yield


def without_content(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in attributes.items() if key != "gen_ai.output.messages"}


@pytest.mark.parametrize(
    ("api", "usage", "expected"),
    [
        *[(report[2], report[3], report[4]) for report in test_usage.REPORTS],
        *[(test_usage.chat, usage, expected) for usage, expected in test_usage.UNLISTED],
    ],
)
def test_usage_is_read_as_in_python(
    ask: Ask, api: ModelApi, usage: dict[str, Any], expected: dict[str, int]
) -> None:
    assert test_usage.counts(ask(api, answer={"usage": usage})["told"]) == expected


@pytest.mark.parametrize("last", test_usage.LAST_CHUNKS)
def test_the_usage_of_a_stream_is_read_wherever_it_stands(ask: Ask, last: dict[str, Any]) -> None:
    first = {"choices": [{"delta": {"content": "Hi"}}], "x_groq": {"id": "r"}}
    found = ask(test_usage.chat, events=[first, last])["told"]
    assert test_usage.counts(found) == {"input_tokens": 7, "output_tokens": 2}
