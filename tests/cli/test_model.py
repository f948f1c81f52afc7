"""`ratchet model`, and commands whose agent calls a local model, as a person runs them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ratchet._http import httpx2
from ratchet.cli import app
from ratchet.store import Store
from tests import interpreters
from tests.cli.conftest import MakeProject
from tests.local_models import GROUP, require_model
from tests.models.gguf_files import gguf

pytestmark = pytest.mark.xdist_group(GROUP)

AGENT = """
from openai import OpenAI

import ratchet

client = OpenAI()


@ratchet.agent
def answer(word):
    asked = [{"role": "user", "content": word}]
    reply = client.chat.completions.create(model="any", messages=asked, max_tokens=2)
    return [reply.model, reply.usage.completion_tokens]
"""

CONFIG = """
[agent]
entry = "agent:answer"
model = "local"

[[evaluators]]
use = "exact_match"

[run]
executor = "EXECUTOR"
concurrency = 1
"""

COMMAND = """
import json, os, sys, urllib.request

body = {"model": "any", "messages": [{"role": "user", "content": json.load(sys.stdin)["input"]}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({**body, "max_tokens": 2}).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    reply = json.load(response)
    print(json.dumps([reply["model"], reply["usage"]["completion_tokens"]]))
"""


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that ends with the exit code of a model that cannot be used."""
    assert app.run(["model", *arguments]) == 9
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_it_serves_until_it_is_told_to_stop() -> None:
    require_model()
    with interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", "model", "smollm2", "--port", "0", "--json"],
        env={**os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        body: Any = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        reply = httpx2.post(f"{ready['url']}/chat/completions", json=body, timeout=60)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert reply.json()["usage"]["completion_tokens"] == 2
    assert (process.returncode, out, err) == (0, "", "")
    assert not psutil.pid_exists(ready["pid"])


@pytest.mark.torch
def test_a_models_server_in_a_project_has_the_adapters_that_were_trained_there(
    tmp_path: Path,
) -> None:
    from ratchet.autopilot.adapters import AdapterFolder, served_name
    from ratchet.models.policy import load_base
    from tests.models.policy.tiny_models import save_adapter, save_model

    tiny, other = (save_model(tmp_path / name, seed=seed) for seed, name in enumerate("ab"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "ratchet.toml").write_text("")
    kept = AdapterFolder(project / ".ratchet" / "adapters")
    hashes = [
        kept.keep(save_adapter(tmp_path / f"adapter-{base.name}", load_base(base)))
        for base in (tiny, other)
    ]
    changed = kept.keep(save_adapter(tmp_path / "changed", load_base(tiny), seed=2))
    kept.path(changed).rename(kept.path("0" * 64))
    with subprocess.Popen(
        [sys.executable, "-m", "ratchet", "model", str(tiny), "--port", "0", "--json"],
        cwd=project,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        listed = httpx2.get(f"{ready['url']}/models", timeout=60).json()["data"]
        process.send_signal(signal.SIGTERM)
    adapters = [(one["id"], one["version"]) for one in listed if one["parent"]]
    assert adapters == [(served_name(hashes[0]), hashes[0])]


def test_a_file_that_is_no_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.gguf").write_text("nothing of the kind")
    assert "is not a GGUF file" in refused([str(tmp_path / "model.gguf")], capsys)


def test_fetching_says_where_the_model_is(capsys: pytest.CaptureFixture[str]) -> None:
    require_model()
    assert app.run(["model", "smollm2", "--fetch", "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["path"]).is_file()


def test_without_a_name_it_lists_the_models_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    file = tmp_path / "huggingface/hub/models--Qwen--Tiny-GGUF/snapshots/abc/tiny-q8_0.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(gguf())
    assert app.run(["model", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(model["name"], model["path"]) for model in listed["box"]] == [
        ("smollm2", None),
        ("qwen2.5-coder-0.5b", None),
        ("qwen2.5-coder-1.5b", None),
    ]
    (cached,) = listed["caches"]
    assert (cached["name"], cached["path"]) == ("Qwen/Tiny-GGUF/tiny-q8_0", str(file))
    assert app.run(["model"]) == 0
    out = capsys.readouterr().out
    assert "1,117 MB  fetched on first use" in out
    assert "Qwen/Tiny-GGUF/tiny-q8_0" in out


@pytest.mark.parametrize("executor", ["inline", "process"])
@pytest.mark.long
def test_an_agent_calls_the_local_model_that_the_project_names(
    executor: str, make_project: MakeProject
) -> None:
    require_model()
    config = CONFIG.replace("EXECUTOR", executor)
    project = make_project(agent=AGENT, config=config, tasks=4)
    # What the environment names is another model, which does not answer.
    elsewhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none"}
    done = project.ratchet("run", "joy", "--json", env=elsewhere)
    assert done.returncode == 0, done.stderr
    (rollout,) = json.loads(done.stdout)["rollouts"]
    assert rollout["output"] == ["local/smollm2", 2]
    assert rollout["cost_usd"] == 0.0


@pytest.mark.parametrize("option", [["--gateway"], ["--ray", "local"]])
def test_a_runner_refuses_options_that_lead_elsewhere(
    option: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "ratchet.toml").write_text('[agent]\nentry = "a:b"\nmodel = "local"\n')
    monkeypatch.chdir(tmp_path)
    assert app.run(["runner", "--server", "http://127.0.0.1:9", *option]) == 2
    assert f"{option[0]} and model" in capsys.readouterr().err


def test_another_model_in_its_place_is_refused(
    make_project: MakeProject,
) -> None:
    config = CONFIG.replace('"local"', '"gpt-5"').replace("EXECUTOR", "inline")
    done = make_project(agent=AGENT, config=config, tasks=4).ratchet("run", "joy")
    assert done.returncode == 2
    assert 'agent.model = \'gpt-5\': should be "local" or "local:NAME"' in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["smollm2", "--deterministic"], "--deterministic needs PyTorch"),
        (["smollm2", "--device", "cuda"], "--device needs PyTorch"),
        (["smollm2", "--adapter", "policy"], "--adapter policy is not NAME=PATH"),
    ],
)
def test_options_of_open_weights_are_refused_with_what_is_missing(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["model", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_command_is_answered_by_the_local_model_through_the_gateway(
    make_project: MakeProject,
) -> None:
    require_model()
    config = CONFIG.replace(
        'entry = "agent:answer"', f'command = "{shlex.quote(sys.executable)} agent.py"'
    )
    project = make_project(agent=COMMAND, config=config.replace('executor = "EXECUTOR"', ""))
    found: Any = project.json("run", "Say hello.")
    (rollout,) = found["rollouts"]
    assert rollout["status"] == "succeeded", rollout["error"]
    assert rollout["output"][1] == 2
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        (call,) = (
            s for s in store.spans.of(rollout["id"]) if "gen_ai.usage.output_tokens" in s.attributes
        )
        assert call.attributes["gen_ai.usage.output_tokens"] == 2
