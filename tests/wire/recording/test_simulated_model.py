"""The simulated model answers in the form that is asked for, through the real libraries."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from ratchet.models import simulated
from ratchet.sandbox.containment import why_no_mounts
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


def test_an_agent_gets_an_image_a_moderation_and_a_transcription(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import io, openai
        client = openai.OpenAI()
        print(client.moderations.create(input="rude?").results[0].flagged)
        client.responses.create(model="gpt-6-luna", input="Draw a hat.")
        print(client.images.generate(model="any", prompt="A hat").data[0].url[:14])
        sound = io.BytesIO(b"RIFF")
        sound.name = "a.wav"
        print(client.audio.transcriptions.create(model="any", file=sound).text)
        """,
    )
    recording = recorded(root, "main.py", simulated=True, OPENAI_API_KEY="")
    answers = ["False", "data:image/png", "Simulated transcription"]
    assert recording.stdout.splitlines() == answers, recording.stderr_tail


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())
def test_nothing_is_real_while_the_simulated_model_answers(tmp_path: Path, upstream: str) -> None:
    root = project(
        tmp_path,
        main="""
        import http.client, os, pathlib, subprocess
        from asking import ask
        print(ask("Where?"))
        pathlib.Path("report.md").write_text("report")
        pathlib.Path("old.txt").unlink()
        subprocess.run(["ls"], capture_output=True, check=True)
        try:
            http.client.HTTPConnection(os.environ["SHOP"]).request("POST", "/orders", "{}")
        except ConnectionRefusedError:
            print("refused")
        """,
    )
    (root / "old.txt").write_text("there")
    with socket.create_server(("127.0.0.1", 0)) as shop:
        place = f"127.0.0.1:{shop.getsockname()[1]}"
        recording = recorded(root, "main.py", simulated=True, upstream=upstream, SHOP=place)
    assert recording.stdout.splitlines() == [recording.calls[0].response, "refused"]
    assert not (root / "report.md").exists()
    assert (root / "old.txt").exists()
    writes = {write.path: write.how for write in recording.writes}
    assert writes == {"report.md": "created", "old.txt": "deleted"}
    [contact] = recording.contacts
    assert contact.requests == {"POST /orders": 1}
    assert [Path(program.path).name for program in recording.programs] == ["ls"]


LOOP = """
import json, os, urllib.request

def ask(system, question):
    body = {"model": "m", "messages": [
        {"role": "system", "content": system}, {"role": "user", "content": question}]}
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]

for system, end in (
    ("Plan the next step. Begin with 'The task is complete:' when none is left.", "complete:"),
    ("Talk with the other agent about its order. Reply TERMINATE once you agree.", "TERMINATE"),
):
    said = ""
    while end not in said:
        said = ask(system, f"So far: {said}")
    print(said)
"""


def test_an_agent_that_loops_until_the_model_says_a_phrase_of_its_prompt_ends(
    tmp_path: Path,
) -> None:
    root = project(tmp_path, main=LOOP)
    recording = recorded(root, "main.py", simulated=True, OPENAI_API_KEY="")
    assert recording.stdout.splitlines() == ["The task is complete:", "TERMINATE"], (
        recording.stderr_tail
    )
    assert len(recording.calls) < 20


STEPS = """
import json, os, urllib.error, urllib.request

def ask(messages):
    tool = {"type": "function", "function": {"name": "run", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}}}}
    body = {"model": "m", "messages": messages, "tools": [tool]}
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]

rules = "Work in a shell. When it is done: `echo ALL_DONE_HERE`."
messages = [{"role": "system", "content": rules}]
while True:
    messages.append({"role": "user", "content": "Go on."})
    calls = ask(messages).get("tool_calls")
    command = json.loads(calls[0]["function"]["arguments"])["command"] if calls else ""
    if command == END:
        break
print("done")
"""


@pytest.mark.parametrize("end", ["echo ALL_DONE_HERE", "never said"])
def test_an_agent_that_loops_until_a_tool_is_called_with_a_phrase_ends(
    tmp_path: Path, end: str
) -> None:
    root = project(tmp_path, main=STEPS.replace("END", repr(end)))
    recording = recorded(root, "main.py", simulated=True, timeout_s=300, OPENAI_API_KEY="")
    if end == "never said":
        assert recording.failed
        assert 300 < len(recording.calls) < 310
        assert b"without --simulated" in recording.calls[-1].answer
    else:
        assert recording.stdout.strip() == "done", recording.stderr_tail
        assert len(recording.calls) < 20


def test_an_argument_takes_a_name_that_the_prompt_lists() -> None:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"agent_name": text, "reason": text}}
    function = {"name": "transfer", "parameters": schema}
    said = "Choose one:\nStock Lookup Agent: Looks up prices\n- Login Agent: Logs in\nUser: unknown"
    turn = simulated.turn_of(
        {"tools": [{"type": "function", "function": function}]}, [said], (), "1", calls=True
    )
    assert turn.arguments["agent_name"] == "Login Agent"
    assert turn.arguments["reason"].startswith("simulated")


def test_the_tool_that_ends_the_conversation_is_called_last_in_either_spelling_of_gemini() -> None:
    day = {"type": "string", "description": "First day, YYYY-MM-DD"}
    fields = {"type": "object", "properties": {"begin": day, "due_date": {"type": "string"}}}
    ends = {"name": "Report", "description": "Call it as the last and final tool."}
    look = {"name": "look", "description": "Looks up orders."}
    declared = [{**tool, "parameters_json_schema": fields} for tool in (ends, look)]
    body = {"tools": [{"function_declarations": declared}], "tool_config": {}}
    called: list[str] = []
    while (turn := simulated.turn_of(body, ["Hi"], called, "1", calls=True)).tool:
        called.append(turn.tool)
        assert turn.arguments == {"begin": "2026-01-02", "due_date": "2026-01-02"}
    assert called == ["look", "Report"]


KEYED = """
import json, os, urllib.request

print(os.environ.get("SPARE_KEY"))
request = urllib.request.Request(
    os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode(),
    {"content-type": "application/json", "authorization": os.environ["OPENAI_API_KEY"]})
with urllib.request.urlopen(request) as response:
    print(json.load(response)["choices"][0]["message"]["content"])
"""


def test_a_key_that_only_the_dotenv_sets_is_said_not_to_be_loaded(
    tmp_path: Path,
) -> None:
    root = project(tmp_path, main=KEYED)
    (root / ".env").write_text("OPENAI_API_KEY=sk-of-the-owner\n")
    said = recorded(root, "main.py", simulated=True)
    assert any(
        ".env sets OPENAI_API_KEY, but the run used a placeholder" in note for note in said.notes
    )
    assert said.stdout.startswith("None"), said.stderr_tail
    [lacking] = recorded(root, "main.py").missing
    assert (lacking.name, lacking.fix) == (
        "OPENAI_API_KEY",
        "The command does not load .env: set it in the environment.",
    )


def test_a_key_that_the_example_comments_out_gets_no_placeholder(tmp_path: Path) -> None:
    root = project(tmp_path, main=KEYED)
    (root / ".env.example").write_text("SEARCH_KEY=\n# SPARE_KEY=\n")
    (root / "README.md").write_text("    SPARE_KEY=of-the-second-provider\n")
    said = recorded(root, "main.py", simulated=True)
    assert "SEARCH_KEY" in said.placeholders
    assert "SPARE_KEY" not in said.placeholders


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())
def test_a_contained_run_reaches_the_hosts_that_its_owner_allows(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        main="""
        import os, socket
        socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))).close()
        print("reached")
        """,
    )
    with socket.create_server(("127.0.0.1", 0)) as database:
        port = database.getsockname()[1]
        hosts = [("127.0.0.1", port)]
        said = recorded(root, "main.py", simulated=True, hosts=hosts, PORT=str(port))
        assert said.stdout.strip() == "reached", said.stderr_tail
        assert recorded(root, "main.py", simulated=True, PORT=str(port)).exit_code == 1


def test_a_launcher_on_the_path_starts_the_helpers_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "made", main="print('It ran.')")
    launcher, helper = tmp_path / "own" / "libexec" / "launch", "launch-run"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nexec "{launcher.parent}/{helper}" "$@"\n')
    (launcher.parent / helper).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for file in launcher.parent.iterdir():
        file.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "launch").symlink_to(launcher)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    recording = recorded(root, "launch", "main.py", simulated=True, python="")
    assert recording.stdout.strip() == "It ran."


def test_a_program_outside_of_the_path_and_the_project_runs_with_the_simulated_model(
    tmp_path: Path,
) -> None:
    helper = tmp_path / "elsewhere" / "helper"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\necho helped\n")
    helper.chmod(0o755)
    main = f"import subprocess\nsubprocess.run([{str(helper)!r}], check=True)\n{KEYED}"
    said = recorded(project(tmp_path, main=main), "main.py", simulated=True, OPENAI_API_KEY="k")
    assert "helped" in said.stdout, said.stderr_tail
    assert str(helper) in [program.path for program in said.programs]
