"""Agents of other libraries, with their real packages, traced with the npm package."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tests.frameworks.model_simulator import ANSWERING, ASKING, ModelSimulator
from tests.javascript.built import run
from tests.javascript.conftest import Site, newer_node
from tests.node_packages import node

pytestmark = [pytest.mark.xdist_group("node"), pytest.mark.long]

HANDBOOK = Path(__file__).parents[2] / "docs" / "javascript.md"


@pytest.mark.parametrize("library", ["openai", "anthropic", "langchain", "vercel"])
def test_its_model_calls_and_tools_are_in_the_agents_trace(
    site: Site, programs: Path, library: str
) -> None:
    _traced(site, programs, library, node())


def test_version_7_of_the_ai_sdk_is_in_the_agents_trace(site: Site, newer_programs: Path) -> None:
    _traced(site, newer_programs, "vercel7", newer_node())


def _traced(site: Site, programs: Path, library: str, node: str) -> None:
    name = f"{library}-{uuid.uuid4().hex}"
    with ModelSimulator() as simulator:
        done = run(
            [node, f"{library}.mjs"],
            programs,
            RATCHET_AGENT=name,
            SIMULATOR=simulator.url,
            **site.variables(),
        )
        assert done.returncode == 0, done.stderr
        calls = simulator.calls
    answer = json.loads(done.stdout)
    assert "sunny in Paris" in answer
    assert calls == [ASKING, ANSWERING]
    spans, _ = site.store.spans.live(name)
    by_id = {span.span_id: span for span in spans}
    (root,) = [span for span in spans if span.parent_id is None]
    assert root.name == "weather"
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert all(span.parent_id in by_id for span in spans if span is not root)

    def of(operation: str) -> list[dict[str, object]]:
        found = [s for s in spans if s.attributes.get("gen_ai.operation.name") == operation]
        return [span.attributes for span in sorted(found, key=lambda one: one.start_ns)]

    first, last = of("chat")
    for call, (given, made) in zip((first, last), (ASKING, ANSWERING), strict=True):
        assert call["gen_ai.usage.input_tokens"] == given
        assert call["gen_ai.usage.output_tokens"] == made
    if library != "langchain":  # whose instrumentation leaves the system prompt out
        said = str(first.get("gen_ai.input.messages")) + str(
            first.get("gen_ai.system_instructions")
        )
        assert "You tell the weather." in said
    assert "sunny in Paris" in str(last["gen_ai.output.messages"])
    assert "get_weather" in str(first["gen_ai.output.messages"])
    (tool,) = of("execute_tool")
    assert tool["gen_ai.tool.name"] == "get_weather"
    assert "Paris" in str(tool["gen_ai.tool.call.arguments"])
    assert "sunny in Paris" in str(tool["gen_ai.tool.call.result"])


def test_what_the_handbook_shows_works(site: Site, programs: Path) -> None:
    shown = re.search(r"```js\n// weather.mjs\n(.*?)```", HANDBOOK.read_text(), re.DOTALL)
    assert shown is not None
    source = shown[1].replace("http://127.0.0.1:8765", site.url)
    (programs / "shown.mjs").write_text(source)
    with ModelSimulator() as simulator:
        done = run(
            [node(), "shown.mjs"],
            programs,
            RATCHET_KEY=site.ingest_key,
            OPENAI_BASE_URL=f"{simulator.url}/v1",
            OPENAI_API_KEY="none",
        )
    assert done.returncode == 0, done.stderr
    assert "It is sunny in Paris" in done.stdout
    spans, _ = site.store.spans.live("weather")
    operations = sorted(str(span.attributes.get("gen_ai.operation.name")) for span in spans)
    assert operations == ["chat", "chat", "execute_tool", "invoke_agent"]
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {"chat-1"}
    (given,), _ = site.store.feedback.list(conversation_id="chat-1")
    assert (given.kind, given.value) == ("thumbs", 1.0)
