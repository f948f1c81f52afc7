"""An agent that answers although its model cannot be reached is not measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.free_ports import free_port
from tests.repositories import committed

AGENT = """
import json, os, sys, urllib.request

body = json.dumps({"model": "m", "messages": [{"role": "user", "content": sys.argv[1]}]}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body, {"content-type": "application/json"})
try:
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
except OSError as error:
    print("Error:", error)
"""
CONFIG = """
[agent]
command = "{python} agent.py {{input}}"

[[evaluators]]
use = "exact_match"
"""


def test_eval_and_improve_refuse_answers_that_no_model_call_is_behind(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "ratchet.toml").write_text(CONFIG.format(python=sys.executable))
    rows = (f'{{"input": "What is {number}?", "expected": "{number}"}}\n' for number in range(10))
    (tmp_path / "tasks.jsonl").write_text("".join(rows))
    committed(tmp_path)
    environ = {
        **{name: value for name, value in os.environ.items() if "RATCHET" not in name},
        "OPENAI_BASE_URL": f"http://127.0.0.1:{free_port()}/v1",
        "OPENAI_API_KEY": "sk-of-the-owner",
    }
    for words in (["eval", "--split", "all"], ["improve"]):
        done = subprocess.run(
            [sys.executable, "-m", "ratchet", *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 3, said
        assert "All model calls failed" in said, said
        assert "cannot be reached" in said
