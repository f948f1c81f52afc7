"""The simulated model answers in the form that is asked for, through the real libraries."""

from __future__ import annotations

from pathlib import Path

from tests.wire.recording.recorded import project, recorded

AGENT = """
import sys
from typing import Literal
from agents import Agent, Runner, function_tool
from pydantic import BaseModel
import anthropic, openai

class Answer(BaseModel):
    text: str
    urgency: Literal["low", "high"]
    steps: list[str]

@function_tool
def look_up(order: str, deep: bool) -> str:
    "Look an order up."
    print("looked up", deep)
    return "It is on its way."

agent = Agent("Desk", instructions="You help.", tools=[look_up], output_type=Answer)
answer = Runner.run_sync(agent, sys.argv[1]).final_output
print(answer.urgency in ("low", "high"), len(answer.steps))
with anthropic.Anthropic().messages.stream(
    model="claude", max_tokens=9, system="Be kind.", messages=[{"role": "user", "content": "Hi"}]
) as stream:
    print("".join(stream.text_stream).startswith("Simulated answer"))
client = openai.OpenAI()
chunks = client.chat.completions.create(
    model="m", stream=True, messages=[{"role": "user", "content": "Hi"}]
)
print("".join(chunk.choices[0].delta.content or "" for chunk in chunks)[:16])
vectors = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"]).data
print(len(vectors), vectors[0].embedding != vectors[1].embedding)
"""


def test_tools_schemas_streams_and_embeddings_without_a_key(tmp_path: Path) -> None:
    root = project(tmp_path, main=AGENT)
    recording = recorded(
        root, "main.py", "Where?", simulated=True, OPENAI_API_KEY="", ANTHROPIC_API_KEY=""
    )
    assert recording.stdout.splitlines() == [
        "looked up True",
        "True 1",
        "True",
        "Simulated answer",
        "2 True",
    ], recording.stderr_tail
    dialects = [call.dialect for call in recording.calls]
    assert dialects == [
        *("openai-responses", "openai-responses", "anthropic", "openai-chat", "openai-embeddings")
    ]
    assert "look_up" in recording.calls[0].response
    assert not recording.contacts
    assert any("placeholders" in note for note in recording.notes)
