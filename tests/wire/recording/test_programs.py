"""Chat loops, terminals, commands that do not end, and agents in other languages."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.wire.recording.recorded import functions, project, recorded

LOOP = """
import sys
from asking import ask
while True:
    try:
        line = input("you> ")
    except EOFError:
        break
    print(ask(line))
"""


def test_a_chat_loop_gets_its_line_and_then_the_end_of_input(tmp_path: Path, upstream: str) -> None:
    root = project(tmp_path, chat=LOOP)
    recording = recorded(root, "chat.py", upstream=upstream, stdin="Where is it?")
    assert recording.exit_code == 0, recording.stderr_tail
    [call] = recording.calls
    assert call.texts[-1].text == "Where is it?"
    assert call.response in recording.stdout


def test_a_program_that_opens_the_terminal_is_told_that_there_is_none(
    tmp_path: Path, upstream: str
) -> None:
    recording = recorded(project(tmp_path, main="open('/dev/tty')"), "main.py", upstream=upstream)
    assert any("needs a terminal, which rollouts do not have" in note for note in recording.notes)


def test_a_command_that_does_not_end_is_ended_with_its_grandchildren(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import subprocess, sys
        from asking import ask
        ask("Where?")
        subprocess.run([sys.executable, "left.py"])
        """,
        left="""
        import os, time
        os.setsid()
        open("pid", "w").write(str(os.getpid()))
        time.sleep(99)
        """,
    )
    recording = recorded(root, "main.py", upstream=upstream, timeout_s=3)
    assert recording.timed_out
    assert recording.exit_code is None
    assert len(recording.calls) == 1
    pid = int((root / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


NODE = """
import https from "node:https";
import http from "node:http";
async function withFetch(question) {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: question }] });
  const response = await fetch(`${process.env.UPSTREAM}/v1/chat/completions`, {
    method: "POST", headers: { "content-type": "application/json" }, body });
  return (await response.json()).choices[0].message.content;
}
function withRequest(question) {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: question }] });
  return new Promise((resolve, reject) => {
    const url = new URL(`${process.env.UPSTREAM}/v1/chat/completions`);
    const request = http.request(url, { method: "POST" }, (response) => {
      let text = "";
      response.on("data", (piece) => (text += piece));
      response.on("end", () => resolve(JSON.parse(text).choices[0].message.content));
    });
    request.on("error", reject);
    request.end(body);
  });
}
export async function answer(question) {
  await fetch(`${process.env.UPSTREAM}/search`, { method: "POST", body: "{}" });
  return [await withFetch(question), await withRequest(question)].join(" | ");
}
console.log(await answer(process.argv[2]));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
def test_an_agent_in_node_is_recorded_with_files_and_functions(
    tmp_path: Path, upstream: str
) -> None:
    root = project(tmp_path)
    (root / "agent.mjs").write_text(NODE)
    recording = recorded(root, "node", "agent.mjs", "Where?", upstream=upstream, python="")
    assert recording.exit_code == 0, recording.stderr_tail
    fetched, requested = recording.calls
    assert recording.stdout.strip() == f"{fetched.response} | {requested.response}"
    assert functions(fetched)[-2:] == ["answer", "withFetch"]
    assert (fetched.stack[-1].file, requested.client) == ("agent.mjs", "http")
    assert "withRequest" in functions(requested)
    [contact] = recording.contacts
    assert contact.requests == {"POST /search": 1}


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
def test_variables_that_an_agent_in_node_read_are_named_and_those_of_idle_files_are_not(
    tmp_path: Path,
) -> None:
    root = project(tmp_path)
    (root / "package.json").write_text('{"type": "module"}')
    (root / "agent.js").write_text(
        """
        import { spawnSync } from "node:child_process";
        process.env.SHOP_MODE = "quick";
        const { SHOP_MODE, HOME } = process.env;
        import { read as require_quickly } from "./node_modules/a-package/index.mjs";
        const child = spawnSync("sh", ["-c", "echo $SHOP_MODE"]).stdout.toString().trim();
        if (child !== SHOP_MODE || !("SHOP_MODE" in { ...process.env })) throw new Error(child);
        for (let n = 0; n < 200000; n++) require_quickly("NODE_ENV");
        if (!Object.hasOwn(process.env, "SHOP_API_KEY")) throw new Error("No key.");
        const client = connect(process.env.MODEL_API_KEY);
        """
    )
    package = root / "node_modules" / "a-package"
    package.mkdir(parents=True)
    (package / "index.mjs").write_text("export const read = (name) => process.env[name];\n")
    (root / "idle.js").write_text("export const key = process.env.TRANSLATOR_API_KEY;\n")
    recording = recorded(root, "node", "agent.js", "Where?", python="")
    assert "No key." in recording.stderr_tail
    lacking = {entry.name: entry.why for entry in recording.missing if entry.kind == "variable"}
    assert lacking.keys() == {"SHOP_API_KEY", "MODEL_API_KEY"}
    assert lacking["SHOP_API_KEY"] == "agent.js reads it."
    assert lacking["MODEL_API_KEY"].startswith("agent.js:10 reads it")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
def test_a_settings_file_that_node_does_not_find_is_named_with_its_example(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "package.json").write_text("{}")
    (root / "agent.js").write_text("console.log(process.env.SHOP_KEY, process.env.SHOP_URL);\n")
    (root / ".env.example").write_text("SHOP_KEY=\n# SHOP_URL=http://localhost:8000\n")
    (root / "README.md").write_text("```\nSHOP_URL=http://localhost:8000\n```\n")
    recording = recorded(root, "node", "--env-file=.env.local", "agent.js", python="")
    lacking = {entry.name: entry.fix for entry in recording.missing}
    assert lacking[".env.local"] == "Copy .env.example to it, and fill it in."
    assert lacking.keys() == {".env.local", "SHOP_KEY"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed.")
def test_a_shell_agent_is_led_by_the_default_that_its_source_states(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "ask.sh").write_text(
        """#!/bin/sh
        url="${SHOP_BASE_URL:-https://api.example.com/v1}"
        mkfifo answer
        message="{\\"role\\": \\"user\\", \\"content\\": \\"$1\\"}"
        curl -s -d "{\\"messages\\": [$message]}" "$url/chat/completions" > answer &
        cat answer
        """
    )
    recording = recorded(root, "sh", "ask.sh", "Where is it?", python="", simulated=True)
    assert recording.exit_code == 0, recording.stderr_tail
    [call] = recording.calls
    assert (call.host, call.path) == ("api.example.com", "/v1/chat/completions")
    assert call.texts[0].text == "Where is it?"
    assert call.response in recording.stdout


def test_recording_a_trivial_agent_costs_little(tmp_path: Path, upstream: str) -> None:
    root = project(tmp_path, main="import sys\nfrom asking import ask\nprint(ask(sys.argv[1]))")
    started = time.monotonic()
    recording = recorded(root, "main.py", "Where?", upstream=upstream)
    assert recording.overhead_s < 15
    assert recording.seconds + recording.overhead_s <= time.monotonic() - started + 0.1
