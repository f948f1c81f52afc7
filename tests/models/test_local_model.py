"""A real language model in a process of its own: what it answers, how it starts and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
from openai import OpenAI
from tests.local_models import GROUP, require_model

from ratchet._http import httpx2
from ratchet.llm import Usage, dollars
from ratchet.models import LocalModel, ModelUnavailable, find_model, local_model, shared_model

pytestmark = pytest.mark.xdist_group(GROUP)

LABEL = {"role": "system", "content": "Label each word as positive or negative."}


def ask(client: OpenAI, word: str = "happy", **options: Any) -> Any:
    messages: Any = [LABEL, {"role": "user", "content": word}]
    given = {"model": "any", "max_tokens": 8, "temperature": 0, **options}
    return client.chat.completions.create(messages=messages, **given)


def test_it_answers_the_same_with_the_same_seed(client: OpenAI) -> None:
    first, second = (ask(client, seed=7, temperature=1.0, max_tokens=12) for _ in range(2))
    assert first.choices[0].message.content
    assert first.choices[0].message.content == second.choices[0].message.content


def test_it_keeps_to_a_json_schema(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["positive", "negative"]}},
        "required": ["label"],
        "additionalProperties": False,
    }
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    text = ask(client, response_format=shape, max_tokens=40).choices[0].message.content
    assert text.replace(" ", "").replace("\n", "") in (
        '{"label":"positive"}',
        '{"label":"negative"}',
    )


def test_prompts_that_take_turns_on_fewer_slots_keep_their_beginnings(client: OpenAI) -> None:
    reused = []
    for turn in range(2):
        for number in range(6):
            rules = f"Prompt {number * 7919}. " + "Label each word as positive or negative. " * 5
            messages: Any = [
                {"role": "system", "content": rules},
                {"role": "user", "content": f"word {turn}"},
            ]
            answer = client.chat.completions.create(model="any", messages=messages, max_tokens=1)
            if turn:
                reused.append(answer.usage.prompt_tokens_details.cached_tokens)
    assert min(reused) > 40


def test_its_slots_answer_at_once_and_the_rest_wait(client: OpenAI) -> None:
    words = ["joy", "grief", "sun", "rain", "gift", "theft"]
    with ThreadPoolExecutor(len(words)) as threads:
        answers = list(threads.map(lambda word: ask(client, word, max_tokens=2), words))
    assert all(answer.usage.completion_tokens == 2 for answer in answers)


def test_it_answers_by_its_own_name_whose_calls_cost_nothing(client: OpenAI) -> None:
    answer = ask(client, model="gpt-5", max_tokens=1)
    assert answer.model == "local/smollm2"
    assert dollars("openai", answer.model, Usage(input_tokens=10, output_tokens=5)) == 0.0


def test_web_pages_and_other_programs_do_not_read_along(local_model: LocalModel) -> None:
    root = local_model.base_url.removesuffix("/v1")
    key = {"authorization": f"Bearer {local_model.key}", "origin": "http://evil.example"}
    health = httpx2.get(f"{root}/health", headers=key)
    assert health.headers.get("access-control-allow-origin") != "http://evil.example"
    assert httpx2.get(f"{root}/slots", headers=key).status_code != 200


def test_a_prompt_beyond_its_slot_is_refused_with_a_sentence(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        ask(client, "happy " * 9000)


def test_an_answer_without_end_ends_with_its_slot() -> None:
    require_model()
    file = find_model("smollm2", print)
    with (
        LocalModel(file, slots=1, context=256) as small,
        OpenAI(base_url=small.base_url, api_key=small.key, max_retries=0, timeout=60) as client,
    ):
        options: Any = {"max_tokens": 10_000, "extra_body": {"ignore_eos": True}}
        answer = ask(client, "happy " * 180, **options)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens <= 256 + 1


def test_users_share_one_process_and_the_last_one_ends_it(tmp_path: Path) -> None:
    require_model()
    (tmp_path / "model.gguf").symlink_to(find_model("local", print).path)
    with shared_model("local:model.gguf", print, tmp_path) as first:
        with shared_model("local:model.gguf", print, tmp_path) as second:
            assert first is second
            pid = first.pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


def test_it_ends_with_a_parent_that_was_killed() -> None:
    require_model()
    program = """
import msgspec, time
from ratchet.models import LocalModel, find_model
model = LocalModel(find_model("smollm2", print), slots=1, context=256)
model.settings = msgspec.structs.replace(model.settings, linger_s=0.0)
with model:
    print(model.pid, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_crash_is_reported_by_its_signal() -> None:
    require_model()
    with LocalModel(find_model("smollm2", print), slots=1, context=256) as model:
        os.kill(model.pid, signal.SIGSEGV)
        with pytest.raises(ModelUnavailable, match=r"Q4_1.gguf ended by SIGSEGV"):
            model.wait()


def test_a_file_that_lacks_its_end_is_refused_by_the_engine_s_last_words(tmp_path: Path) -> None:
    require_model()
    whole = find_model("smollm2", print).path.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[:-100])
    with (
        pytest.raises(ModelUnavailable, match=r"(?s)cut.gguf could not be loaded: .*exit code 1.*"),
        LocalModel(find_model(str(cut), print)),
    ):
        pass


def test_a_port_that_is_taken_is_named() -> None:
    require_model()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(
                ModelUnavailable, match=f"port {port} of 127.0.0.1: Address already in use"
            ),
            LocalModel(find_model("smollm2", print), port=port),
        ):
            pass


def test_an_engine_that_does_not_fit_the_machine_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_model()
    (tmp_path / "xllamacpp.py").write_text('raise ImportError("GLIBC_2.99 not found")')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = r"(?s)ended with exit code 1\..*does not run on this machine: GLIBC_2\.99 not found"
    with (
        pytest.raises(ModelUnavailable, match=expected),
        LocalModel(find_model("smollm2", print)),
    ):
        pass


@pytest.mark.parametrize(("wanted", "policy"), [(None, "passive"), ("active", "active")])
def test_its_threads_sleep_while_they_wait_unless_the_user_says_otherwise(
    wanted: str | None, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenMP reads the variable when the engine is loaded."""
    require_model()
    (tmp_path / "xllamacpp.py").write_text(
        'import os\nraise ImportError("threads are " + os.environ["OMP_WAIT_POLICY"])'
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if wanted is None:
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", wanted)
    with (
        pytest.raises(ModelUnavailable, match=f"threads are {policy}"),
        LocalModel(find_model("smollm2", print)),
    ):
        pass


def test_without_the_engine_the_python_and_the_cpu_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_model, "find_spec", lambda name: None)
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ModelUnavailable, match=r"CPython 3\.99\.0 on \w+ riscv64") as error:
        local_model.require_engine()
    assert "agent-ratchet[local]" in (error.value.hint or "")
