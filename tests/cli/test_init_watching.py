"""`ratchet init -- COMMAND`: recorded, derived, verified, committed, and taken back."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet._command_answer import INTERRUPTED
from ratchet.wire.deriving.prompts import sent_sources
from ratchet.wire.recording.recording import ModelText
from tests import interpreters
from tests.cli.simulated_model import simulated_model
from tests.free_ports import free_port
from tests.repositories import committed, git
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply
from tests.waiting import until

SHOP = {
    "support/__init__.py": "",
    "support/agent.py": """
        import json, os, urllib.request

        SYSTEM = "You answer for the shop. Say unknown where you don't know."

        def ask(system, question):
            base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
            body = {"model": "m", "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": question}]}
            request = urllib.request.Request(
                base + "/chat/completions", json.dumps(body).encode(),
                {"content-type": "application/json", "authorization": "Bearer k"})
            with urllib.request.urlopen(request) as response:
                return json.load(response)["choices"][0]["message"]["content"]

        def answer(question: str, tone: str = "kind"):
            ask("Sort the question into order, refund or other. Say one word.", question)
            return ask(f"{SYSTEM} Be {tone}.", question)
    """,
    "support/__main__.py": """
        import sys
        from support.agent import answer
        print(answer(sys.argv[1], tone="brief"))
    """,
}


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    model = simulated_model()
    yield model
    model.close()


class Wired:
    """A repository, and `ratchet` in it."""

    def __init__(self, root: Path, upstream: StubUpstream) -> None:
        self.root = root
        self.environ = {
            **{name: text for name, text in os.environ.items() if "RATCHET" not in name},
            "OPENAI_BASE_URL": upstream.url,
            "OPENAI_API_KEY": "sk-of-the-owner",
        }

    def ratchet(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ratchet", *words]
        return interpreters.run(command, cwd=self.root, env=self.environ)

    def init(self, *words: str) -> dict[str, Any]:
        done = self.ratchet("init", "--json", *words)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    @property
    def branch(self) -> str:
        return git(self.root, "branch", "--show-current").strip()

    @property
    def is_clean(self) -> bool:
        return git(self.root, "status", "--short") == ""

    @property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.root / "ratchet.toml").read_text())


def repository(tmp_path: Path, upstream: StubUpstream, files: dict[str, str]) -> Wired:
    root = tmp_path / "shop"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text).lstrip())
    committed(root)
    return Wired(root, upstream)


def test_a_command_is_wired_by_its_outermost_function_with_the_input(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    before = git(shop.root, "rev-parse", "HEAD^{tree}")
    said = shop.init("--", sys.executable, "-m", "support", "Where is my pan?")
    assert said["mode"] == "entry"
    agent = shop.settings["agent"]
    assert agent["entry"] == "support.agent:answer"
    assert agent["arguments"] == {"question": "{input}", "tone": "brief"}
    assert agent["allow"] == {"hosts": [], "programs": [], "folders": []}
    assert {finding["name"]: finding["holds"] for finding in said["findings"]} == {
        "model calls": True,
        "prompts": True,
        "changed prompt": True,
        "answer": True,
    }
    assert [(prompt["path"], prompt["line"]) for prompt in said["prompts"]] == [
        ("support/agent.py", 3),
        ("support/agent.py", 16),
    ]
    assert said["learned"] == [
        "shop.system (support/agent.py:3)",
        "shop.system_2 (support/agent.py:16)",
    ]
    assert shop.branch == "ratchet/init"
    assert shop.is_clean
    done = shop.ratchet("run", "Where is my cup?", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rollouts"][0]["output"] == "cup?"
    again = shop.ratchet("init", "--yes", "--", sys.executable, "-m", "support", "Where is my pan?")
    assert (again.returncode, "ratchet init --undo" in again.stderr) == (2, True)
    assert shop.ratchet("init", "--undo").returncode == 0
    assert shop.branch == "main"
    assert git(shop.root, "rev-parse", "HEAD^{tree}") == before
    assert shop.is_clean


def test_what_is_wired_learns_with_ten_answered_tasks_and_declares_nothing(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    source = SHOP["support/agent.py"].replace('f"{SYSTEM} Be {tone}."', "SYSTEM")
    source = source.replace("def answer", "open('last.txt', 'w').close()\n\n        def answer")
    one_prompt = source.replace('ask("Sort', 'print("Sort').replace('word.", question)', 'word.")')
    shop = repository(tmp_path, upstream, {**SHOP, "support/agent.py": one_prompt})
    said = shop.init("--", sys.executable, "-m", "support", "Where is my pan?")
    assert said["left_by_run"] == [{"how": "created", "path": "last.txt"}]
    products = ["pan", "cup", "jar", "mug", "pot", "lid", "fork", "bowl", "tray", "dish"]
    rows = [{"id": name, "input": f"What is {name}", "expected": name.upper()} for name in products]
    (shop.root / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (shop.root / "ratchet.toml").open("a") as file:
        file.write('\n[[evaluators]]\nuse = "exact_match"\n\n[improve]\nalgorithm = "few_shot"\n')
    git(shop.root, "commit", "-qam", "Tasks")
    done = shop.ratchet("eval", "--split", "all", "--json")
    assert done.returncode == 0, done.stderr
    improved = shop.ratchet("improve", "--json")
    assert improved.returncode == 0, improved.stderr
    assert json.loads(improved.stdout)["verdict"] in ("promote", "not_proved", "no_gain")
    assert "Output: " in shop.ratchet("diff", "source", "best").stdout
    undone = " ".join(shop.ratchet("init", "--undo").stdout.split())
    assert (
        "The recorded run created last.txt, and left it there. To remove it: rm -r -- last.txt"
        in undone
    )
    assert (shop.root / "last.txt").exists()


def test_a_command_without_the_sdk_is_run_with_the_input_as_a_word(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s"}]}' "$2")
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    said = shop.init("--", "sh", "agent.sh", "--question", "Where is my pan?")
    assert said["mode"] == "command"
    assert shop.settings["agent"]["command"] == "sh agent.sh --question {input}"
    assert all(finding["holds"] for finding in said["findings"])


def test_a_program_in_go_is_run_with_the_input_as_a_word(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    desk = """
        package main

        import (
            "bytes"
            "encoding/json"
            "fmt"
            "net/http"
            "os"
        )

        const rules = "You answer for the shop. Say unknown where you don't know."

        func main() {
            body, _ := json.Marshal(map[string]any{"model": "m", "messages": []map[string]string{
                {"role": "system", "content": rules}, {"role": "user", "content": os.Args[1]}}})
            url := os.Getenv("OPENAI_BASE_URL") + "/chat/completions"
            answer, err := http.Post(url, "application/json", bytes.NewReader(body))
            if err != nil {
                panic(err)
            }
            var said struct{ Choices []struct{ Message struct{ Content string } } }
            json.NewDecoder(answer.Body).Decode(&said)
            fmt.Println(said.Choices[0].Message.Content)
        }
    """
    shop = repository(tmp_path, upstream, {"main.go": desk})
    environ = {**os.environ, "GOCACHE": str(tmp_path / "go"), "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", "desk", "main.go"], cwd=shop.root, env=environ, check=True)
    before = git(shop.root, "rev-parse", "HEAD^{tree}")
    said = shop.init("--", "./desk", "Where is my pan?")
    assert shop.settings["agent"]["command"] == "./desk {input}"
    assert [prompt["path"] for prompt in said["prompts"]] == ["main.go"]
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.ratchet("init", "--undo").returncode == 0
    assert git(shop.root, "status", "--short") == "?? desk\n"
    assert git(shop.root, "rev-parse", "HEAD^{tree}") == before


def test_a_clock_in_a_prompt_is_no_difference(tmp_path: Path, upstream: StubUpstream) -> None:
    clock = """
        import sys
        from datetime import datetime
        from support.agent import SYSTEM, ask
        RULES = f"Answer in one word. It is {datetime.now()}."
        print(ask("\\n".join([SYSTEM, RULES]), sys.argv[1]))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "clock.py": clock})
    said = shop.init("--", sys.executable, "clock.py", "Where is my pan?")
    [prompts] = [finding for finding in said["findings"] if finding["name"] == "prompts"]
    assert (prompts["holds"], "apart from the current date" in prompts["said"]) == (True, True)
    assert said["learned"] == ["shop.system (clock.py:4 + support/agent.py:3)"]


def test_a_chat_loop_is_given_the_input_as_a_line(tmp_path: Path, upstream: StubUpstream) -> None:
    loop = """
        import sys
        from support.agent import ask
        while True:
            line = input("you: ")
            if line == "bye":
                break
            print("agent:", ask("You answer for the shop, in one word.", line))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "chat.py": loop})
    said = shop.init("--stdin", "Where is my pan?\nbye", "--", sys.executable, "chat.py")
    # ask() got the input too; but with it the prompt would stand in the settings.
    assert said["mode"] == "command"
    assert shop.settings["agent"]["stdin"] == "{input}\nbye\n"
    written = (shop.root / "ratchet.toml").read_text().splitlines()[0]
    assert "ratchet init --stdin $'Where is my pan?\\nbye' -- " in written


def test_answers_to_two_questions_are_both_input(tmp_path: Path, upstream: StubUpstream) -> None:
    source = """
        from support.agent import ask
        role = input("Which role? ")
        level = input("Which level? ")
        print(ask("You interview people, in one word.", f"The role: {role}, the level: {level}"))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "interview.py": source})
    said = shop.init("--stdin", "Data Scientist\nSenior", "--", sys.executable, "interview.py")
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.settings["agent"]["stdin"] == "{input.line_1}\n{input.line_2}\n"


@pytest.mark.parametrize("end", ["        talk()", """
        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(talk))
        asyncio.run(main())"""], ids=["at once", "in a group of tasks"])  # fmt: skip
def test_a_chat_loop_that_ends_with_its_input_has_answered(
    tmp_path: Path, upstream: StubUpstream, end: str
) -> None:
    loop = """
        import asyncio, atexit, sys
        from support.agent import ask
        atexit.register(print, "Gave up sending traces.", file=sys.stderr)
        def talk():
            while True:
                print("agent:", ask("You answer for the shop, in one word.", input("you: ")))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "chat.py": loop.rstrip() + "\n" + end})
    said = shop.init("--stdin", "Where is my pan?", "--", sys.executable, "chat.py")
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.ratchet("eval").returncode == 0  # it needs no evaluator
    assert ": succeeded" in shop.ratchet("run", "Where is it?").stdout


def test_a_run_that_fails_wires_nothing_and_says_why(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    done = shop.ratchet("init", "--yes", "--", sys.executable, "-m", "support")
    assert done.returncode == 3
    assert "The agent's own run failed" in done.stderr
    assert "IndexError" in done.stderr
    assert "Traceback" not in done.stderr.split("Its last output:")[0]
    assert shop.is_clean


def test_a_crash_of_another_cause_is_not_explained_by_the_hosts_of_the_run(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    metrics = StubUpstream(lambda _, wire: wire.send(reply({})))
    script = f"""
        from urllib.request import urlopen
        urlopen("http://localhost:{metrics.port}/batch", data=b"started").read()
        dict(1)
    """
    manifest = '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.99"\n'
    shop = repository(tmp_path, upstream, {"agent.py": script, "pyproject.toml": manifest})
    done = shop.ratchet("init", "--yes", "--", sys.executable, "agent.py", "Where is my pan?")
    metrics.close()
    assert "pyproject.toml asks for Python 3.99, but this was 3." in done.stderr
    assert done.returncode == 3
    assert "TypeError" in done.stderr
    assert str(metrics.port) not in done.stderr.split("Its last output:")[0]


def test_a_run_that_is_told_to_end_leaves_nothing(tmp_path: Path, upstream: StubUpstream) -> None:
    script = """
        import time
        open("../started", "w").close()
        time.sleep(600)
    """
    shop = repository(tmp_path, upstream, {"agent.py": script})
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "ratchet", "init", "--", sys.executable, "agent.py", "Hello"],
        cwd=shop.root,
        env={**shop.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
    )
    until((tmp_path / "started").exists)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, said
    assert list((tmp_path / "temporary").iterdir()) == []
    assert shop.is_clean


def test_a_run_without_a_model_call_wires_nothing(tmp_path: Path, upstream: StubUpstream) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    done = shop.ratchet("init", "--yes", "--", sys.executable, "-c", "print('hello')")
    assert done.returncode == 3
    assert "No model call was seen" in done.stderr


def test_a_variable_of_ones_own_that_names_the_models_host_without_a_version_is_led(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        curl -s "$SEARCH_URL/models" > /dev/null
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s"}]}' "$1")
        curl -s "$SHOP_URL/v1/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    shop.environ["SHOP_URL"] = shop.environ.pop("OPENAI_BASE_URL").removesuffix("/v1")
    search = StubUpstream(lambda _, wire: wire.send(reply({})))
    shop.environ["SEARCH_URL"] = f"http://localhost:{search.port}"
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    search.close()
    agent = shop.settings["agent"]
    assert agent["model_base_url"] == ["SHOP_URL"]
    assert f"localhost:{search.port}" in agent["allow"]["hosts"]
    assert all(finding["holds"] for finding in said["findings"])
    done = shop.ratchet("run", "Where is my cup?", "--json")
    assert done.returncode == 0, done.stderr
    assert upstream.seen[-1].target == "/v1/chat/completions"


def test_rollouts_build_the_index_that_the_recorded_run_built_though_prompts_differ_each_time(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        ask() {
            message="{\\"role\\":\\"user\\",\\"content\\":\\"$1\\"}"
            curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' \\
            -d "{\\"model\\":\\"m\\",\\"messages\\":[$message]}"
        }
        [ -d index ] || { ask "Sum up our page on pans." > /dev/null; mkdir index; touch index/1; }
        ask "$1 (asked at $(date +%s%N | rev))"
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    assert shop.settings["agent"]["allow"]["absent"] == ["index"]
    held = {finding["name"]: finding["holds"] for finding in said["findings"]}
    assert (held["model calls"], held["prompts"]) == (True, None)


def test_rollouts_begin_without_the_answers_that_the_recorded_run_kept(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        cd "$HOME"
        mkdir -p .answers
        [ -s .answers/last ] && { cat .answers/last; exit; }
        message="{\\"role\\":\\"user\\",\\"content\\":\\"$1\\"}"
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' \\
        -d "{\\"model\\":\\"m\\",\\"messages\\":[$message]}" > .answers/last
        cat .answers/last
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    home = tmp_path / "home"
    home.mkdir()
    shop.environ["HOME"] = str(home)
    shop.init("--", "sh", "agent.sh", "Where is my pan?")
    assert shop.settings["agent"]["allow"]["absent"] == ["~/.answers/last"]
    for _ in range(2):
        before = len(upstream.seen)
        done = shop.ratchet("run", "Where is my pan?", "--json")
        assert done.returncode == 0, done.stderr
        assert len(upstream.seen) == before + 1
    assert (home / ".answers" / "last").exists()
    assert shop.ratchet("init", "--undo").returncode == 0
    again = shop.ratchet("init", "--yes", "--", "sh", "agent.sh", "Where is my pan?")
    assert again.returncode == 3
    assert "clear any cached answers" in " ".join(again.stderr.split())


def test_settings_that_rollouts_do_not_see_are_named_with_what_allows_them(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    reading = '        open(os.path.expanduser("~/.config/support/model")).read()\n'
    source = SHOP["support/agent.py"].replace(
        "            base =", f"    {reading}            base ="
    )
    shop = repository(tmp_path, upstream, {**SHOP, "support/agent.py": source})
    settings = tmp_path / "home" / ".config" / "support"
    settings.mkdir(parents=True)
    (settings / "model").write_text("m")
    shop.environ["HOME"] = str(tmp_path / "home")
    words = ("--", sys.executable, "-m", "support", "Where is my pan?")
    done = shop.ratchet("init", "--yes", *words)
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    assert "The recorded run used ~/.config/support/model, which rollouts do not see." in said
    assert "Allow it: ratchet init --allow ~/.config/support --" in said
    shop.init("--allow", "~/.config/support", *words)
    assert shop.settings["agent"]["allow"]["folders"] == ["~/.config/support"]


def test_what_a_program_reads_and_writes_as_files_is_its_input_and_its_answer(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    mail = "Dear shop, the pan that I ordered in May has not come. Where is it?"
    shop = repository(
        tmp_path, upstream, {**SHOP, "data/mail.md": mail, "sort.py": """
            import pathlib
            from support.agent import ask
            mail = pathlib.Path("data/mail.md").read_text()
            pathlib.Path("out").mkdir(exist_ok=True)
            pathlib.Path("out/reply.txt").write_text(ask("You reply to a mail.", mail))
            print("Sorted 1 mail.")
        """},
    )  # fmt: skip
    said = shop.init("--simulated", "--", sys.executable, "sort.py")
    agent = shop.settings["agent"]
    assert (agent["input"], agent["output"]) == ("file:data/mail.md", "file:out/reply.txt")
    assert json.loads((shop.root / "tasks.jsonl").read_text())["input"] == mail
    assert {finding["name"]: finding["holds"] for finding in said["findings"]}["answer"]
    assert shop.is_clean
    assert not (shop.root / "out").exists()


def test_a_log_is_no_answer_and_a_file_that_was_not_sent_no_input(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(
        tmp_path, upstream, {**SHOP, "count.py": """
            import pathlib, sys
            from support.agent import ask
            pathlib.Path("agent.log").write_text("began, and ended")
            print(len(ask("You answer for the shop.", sys.argv[1])))
        """, "notes.md": "Nobody sends these notes to any model."},
    )  # fmt: skip
    words = ("--", sys.executable, "count.py", "Where is my pan?")
    done = shop.ratchet("init", "--input", "notes.md", *words)
    assert done.returncode != 0
    assert "notes.md is not the task's input: its text did not reach the model" in done.stderr
    for simulated in ((), ("--simulated",)):
        shop.init(*simulated, *words)
        assert "output" not in shop.settings["agent"]
        (shop.root / "agent.log").unlink(missing_ok=True)
        assert shop.ratchet("init", "--undo").returncode == 0


def test_a_long_input_hides_no_prompt(tmp_path: Path) -> None:
    """Pieces of a prompt may occur in the input by chance."""
    (tmp_path / "agent.py").write_text('PROMPT = f"Sort the mail: {mail}, and say why."\n')
    long_input = "Dear shop, the pan, and say why. " * 9
    texts = [ModelText(role="user", text=f"Sort the mail: {long_input}, and say why.")]
    found = sent_sources(tmp_path, ["agent.py"], [texts], inputs=[long_input])
    assert [source.line for source in found.prompts] == [1]


def test_an_agent_without_an_input_is_told_where_its_question_is_written(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(
        tmp_path, upstream, {**SHOP, "ask.py": """
            from support.agent import ask
            QUESTION = "Where is the pan that I ordered in May?"
            TASK = "Read the mail ({question}) and find out what its writer wants."
            EXPECTED = "One word for the matter, and nothing else that would have to be removed."
            task = TASK.format(question=QUESTION)
            print(ask("You sort the mail of the shop.", task + " Expected: " + EXPECTED))
        """},
    )  # fmt: skip
    said = shop.init("--", sys.executable, "ask.py")
    places = ["ask.py:3", "ask.py:4", "ask.py:6"]
    assert [f"{prompt['path']}:{prompt['line']}" for prompt in said["prompts"]] == places
    learned = ["shop.user (ask.py:3)", "shop.user_2 (ask.py:4)", "shop.system (ask.py:6)"]
    assert said["learned"] == learned
    [note] = [note for note in said["recorded"]["notes"] if "every task would run the same" in note]
    assert "is written at ask.py:2." in note
    assert said["next"] == [step for step in said["next"] if "ratchet init --undo" in step]
    rows = [{"input": number, "expected": "pan"} for number in range(10)]
    (shop.root / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with (shop.root / "ratchet.toml").open("a") as file:
        file.write('\n[[evaluators]]\nuse = "exact_match"\n')
    done = shop.ratchet("eval", "--split", "all")
    page = " ".join(done.stdout.split())
    assert "All 10 tasks run the same: nothing in [agent] takes their input." in page
    for prompt in learned:
        assert prompt.removesuffix(")") in page


def test_what_an_agent_reports_to_others_need_not_be_allowed(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        echo "Reporting to the metrics."
        curl -s "$METRICS_ADDRESS/batch" -d '{}' > /dev/null
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s"}]}' "$1")
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    metrics = StubUpstream(lambda _, wire: wire.send(reply({})))
    shop.environ["METRICS_ADDRESS"] = f"http://localhost:{metrics.port}"
    page = shop.ratchet("init", "--yes", "--", "sh", "agent.sh", "Where is my pan?").stdout
    metrics.close()
    said = " ".join(page.split())
    assert f"It tried localhost:{metrics.port}; this was denied." in said
    assert "Even so, the agent sent its model the same texts, so rollouts do not need it." in said
    assert "text of 2 lines, with the model's words in the last" in said
    assert shop.settings["agent"]["allow"]["hosts"] == []
    ended = " ".join(shop.ratchet("run", "Where is my cup?").stdout.split())
    assert "It answered without it; if the answer is incomplete, allow it with hosts" in ended


def test_what_only_the_contained_run_tried_is_not_said_to_be_needed(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        [ -z "$TRACEPARENT" ] || curl -s http://localhost:9/updates > /dev/null
        found=$(curl -s "$SEARCH_ADDRESS/query" -d '{}' | sed 's/[^a-z]//g')
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s %s"}]}' "$found" "$1")
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    search = StubUpstream(lambda _, wire: wire.send(reply({"found": "pans"})))
    shop.environ |= {"SEARCH_ADDRESS": f"http://localhost:{search.port}"}
    done = shop.ratchet("init", "--yes", "--", "sh", "agent.sh", "Where is my pan?")
    search.close()
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "It tried localhost:9; this was denied." in said
    assert f"record again with --allow localhost:{search.port} " in said


def test_what_the_run_changed_in_a_tracked_file_waits_in_the_stash_and_of_an_ignored_one_is_said(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        memory=$(cat memory.txt)
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"For us. %s"},'\\
        '{"role":"user","content":"%s"}]}' "$memory" "$1")
        printf 'They asked: %s' "$1" > memory.txt
        printf '%s' "$1" >> app.db
        : >> seen.db
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    files = {"agent.sh": script, "memory.txt": "Nothing so far", "notes.txt": "Old"}
    shop = repository(tmp_path, upstream, files | {".gitignore": "*.db"})
    (shop.root / "notes.txt").write_text("The owner's own edit")
    (shop.root / "app.db").write_text("rows")
    (shop.root / "seen.db").write_text("rows")
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    assert said["stashed"] == ["memory.txt"]
    assert said["left_by_run"] == [{"how": "changed", "path": "app.db"}]
    findings = {finding["name"]: finding["holds"] for finding in said["findings"]}
    assert findings["prompts"]
    assert (shop.root / "memory.txt").read_text() == "Nothing so far"
    assert (shop.root / "notes.txt").read_text() == "The owner's own edit"
    undone = " ".join(shop.ratchet("init", "--undo").stdout.split())
    assert "still in git's stash" in undone
    assert "changed app.db, which is not in git: there is no earlier copy." in undone
    git(shop.root, "stash", "pop")
    assert (shop.root / "memory.txt").read_text() == "They asked: Where is my pan?"


def test_a_setting_that_is_the_task_is_named_and_then_its_file_is_the_input(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import yaml
        from support.agent import ask
        with open("config/input.yaml") as file:
            topic = yaml.safe_load(file)["topic"]
        with open("config/rules.yaml") as file:
            print(ask(yaml.safe_load(file)["rules"], topic))
    """
    files = {
        "config/input.yaml": "topic: Where is the pan of the month?\n",
        "config/rules.yaml": "rules: You answer for the shop, and for nobody else.\n",
    }
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main, **files})
    command = ("--", sys.executable, "main.py")
    said = shop.ratchet("init", "--yes", "--dry-run", *command)
    assert said.returncode == 0, said.stderr
    assert "ratchet init --input FILE …, with one of config/input.yaml" in said.stdout
    shop.init("--input", "config/input.yaml", *command)
    assert shop.settings["agent"]["input"] == "file:config/input.yaml"


def test_a_program_that_ends_with_its_input_hears_how_to_keep_it_open(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import sys, threading
        from support.agent import ask
        def answer(line):
            threading.Event().wait(0.3)
            print(ask("You answer for the shop.", line), flush=True)
        for line in sys.stdin:
            threading.Thread(target=answer, args=(line,), daemon=True).start()
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main})
    stdin = ("--stdin", "Where is my pan?")
    ended = shop.ratchet("init", "--yes", *stdin, "--", sys.executable, "main.py")
    assert ended.returncode == 3
    words = f"--stdin 'Where is my pan?' -- sh -c '(cat; sleep 20) | {sys.executable} main.py'"
    assert f"ratchet init {words}" in ended.stderr
    shorter = f"(cat; sleep 2) | {shlex.quote(sys.executable)} main.py"
    done = shop.ratchet("init", "--yes", *stdin, "--", "sh", "-c", shorter)
    assert done.returncode == 0, done.stderr


def test_a_chat_that_goes_on_after_its_input_hears_how_to_end_it(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import threading
        from support.agent import ask
        while True:
            try:
                line = input("You: ")
            except EOFError as error:
                print("Error:", error, flush=True)
                threading.Event().wait(0.1)
                continue
            if line == "exit":
                break
            print(ask("You answer for the shop.", line))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main})
    words = ("init", "--yes", "--timeout", "4", "--stdin")
    program = ("--", sys.executable, "main.py")
    ended = shop.ratchet(*words, "Where is my pan?", *program)
    assert ended.returncode == 3
    assert "give the line that ends it too, such as exit: --stdin" in ended.stderr
    assert shop.ratchet(*words, "Where is my pan?\nexit", *program).returncode == 0


def test_a_variable_that_a_node_program_loads_itself_is_not_missing(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    source = """
        if (process.env.SHOP_KEY === undefined) process.env.SHOP_KEY = "of the file";
        const KEY = process.env.SHOP_KEY && process.env.PAN_KEY;
        if (!KEY) throw new Error("PAN_KEY and SHOP_KEY are not both set");
    """
    shop = repository(tmp_path, upstream, {"agent.js": source})
    (shop.root / ".env").write_text("SHOP_KEY=abc\n")
    done = shop.ratchet("init", "--yes", "--", "node", "agent.js", "Where is my pan?")
    assert done.returncode == 3
    assert "variable PAN_KEY" in done.stderr
    assert "variable SHOP_KEY" not in done.stderr


def test_a_file_that_the_command_names_is_the_answer_though_a_log_repeats_it(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import sys
        from support.agent import ask
        said = ask("You answer for the shop.", open(sys.argv[1]).read())
        print("\\x1b[32mINFO\\x1b[0m the model said:", said)
        open(sys.argv[2], "w").write(said)
    """
    files = {**SHOP, "main.py": main, "asked.txt": "Where is my pan?"}
    shop = repository(tmp_path, upstream, files)
    command = ("--", sys.executable, "main.py", "asked.txt", "out.md")
    said = shop.ratchet("init", "--yes", *command)
    assert said.returncode == 0, said.stderr
    assert shop.settings["agent"]["output"] == "file:out.md"
    assert '{"input": "asked.txt", "expected": …}; each input is the path of a file' in said.stdout


def test_rollouts_begin_with_the_untracked_files_that_the_recorded_run_began_with(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    """As a service that keeps its conversations in a folder that git ignores."""
    script = """
        turns=$(cat threads/1.txt)
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"For us. %s"},'\\
        '{"role":"user","content":"%s"}]}' "$turns" "$1")
        printf ' They asked: %s' "$1" >> threads/1.txt
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script, ".gitignore": "threads/"})
    thread = shop.root / "threads/1.txt"
    thread.parent.mkdir()
    thread.write_text("They asked: Where is my cup?")
    thread.chmod(0o600)
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    assert said["restored"] == ["threads/1.txt"]
    assert said["left_by_run"] == []
    assert all(finding["holds"] for finding in said["findings"]), said["findings"]
    assert thread.read_text() == "They asked: Where is my cup?"
    assert thread.stat().st_mode & 0o777 == 0o600
    written = shop.root / ".ratchet/recorded-run/threads/1.txt"
    assert written.read_text() == "They asked: Where is my cup? They asked: Where is my pan?"
    undone = " ".join(shop.ratchet("init", "--undo").stdout.split())
    assert "is still in .ratchet/recorded-run" in undone
    assert thread.read_text() == "They asked: Where is my cup?"


def test_an_answer_that_repeats_the_input_is_named(tmp_path: Path, upstream: StubUpstream) -> None:
    """As npm does, which prints the command before the program's own output."""
    script = """
        echo "> agent.sh $1"
        python3 -m support "$1"
    """
    shop = repository(tmp_path, upstream, {**SHOP, "agent.sh": script})
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    [answer] = [finding for finding in said["findings"] if finding["name"] == "answer"]
    assert answer["holds"]
    assert "It repeats the input outside of what the model said" in answer["said"]


def test_a_word_beside_a_sentence_stays_as_it_is_and_is_named(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s asks: %s"}]}' "$1" "$2")
        curl -s "$OPENAI_BASE_URL/chat/completions" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    words = ("--no-git", "--", "sh", "agent.sh", "customer-7", "Where is my pan?")
    page = " ".join(shop.ratchet("init", "--yes", *words).stdout.split())
    assert shop.settings["agent"]["command"] == "sh agent.sh customer-7 {input}"
    assert "'customer-7' reached the model too, and stays the same in every task." in page
    both = "--input customer-7 --input 'Where is my pan?'"
    assert both in page
    assert shop.ratchet("init", "--undo").returncode == 0
    shop.init(*shlex.split(both), *words)
    assert shop.settings["agent"]["command"] == "sh agent.sh {input.word_1} {input.word_2}"


def test_a_prompt_among_text_that_is_random_in_each_run_arrives_changed(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    files = {
        "support/agent.py": SHOP["support/agent.py"].replace(
            'f"{SYSTEM} Be {tone}."', 'f"{os.urandom(9).hex()} {SYSTEM} {os.urandom(9).hex()}"'
        )
    }
    shop = repository(tmp_path, upstream, {**SHOP, **files})
    said = shop.init("--", sys.executable, "-m", "support", "Where is my pan?")
    findings = {finding["name"]: finding["holds"] for finding in said["findings"]}
    assert findings == {
        "model calls": True,
        "prompts": None,
        "changed prompt": True,
        "answer": True,
    }
    [changed] = [finding for finding in said["findings"] if finding["name"] == "changed prompt"]
    assert changed["said"] == "The changed prompts arrived in 2 of 2 calls of a second run."


def test_a_websocket_is_refused_with_what_can_be_wired_instead(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    done = shop.ratchet("init", "--url", "ws://127.0.0.1:8000/ws", "--data", '"Where is my pan?"')
    assert done.returncode == 2
    assert "tasks are sent over HTTP" in done.stderr
    assert "ratchet init -- COMMAND" in done.stderr


def test_without_a_command_the_candidates_are_named_and_none_is_taken(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    manifest = '[project]\nname = "support"\nversion = "1"\nscripts = { support = "support:main" }'
    shop = repository(tmp_path, upstream, {**SHOP, "pyproject.toml": manifest})
    done = shop.ratchet("init")
    assert done.returncode == 2
    assert "needs the command that runs the agent today" in done.stderr
    assert "support" in done.stderr
    assert shop.is_clean


def test_a_branch_that_exists_is_refused_before_anything_runs(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, {"agent.sh": "touch ran\n"})
    git(shop.root, "branch", "ratchet/init")
    done = shop.ratchet("init", "--", "sh", "agent.sh", "Where is my pan?")
    assert "The branch ratchet/init already exists" in done.stderr
    assert not (shop.root / "ran").exists()


def test_outside_of_git_the_files_are_written_in_place_and_taken_back(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    subprocess.run(["rm", "-rf", shop.root / ".git"], check=True)
    words = ("--", sys.executable, "-m", "support", "Where is my pan?")
    shop.init("--no-git", *words)
    assert (shop.root / "tasks.jsonl").exists()
    assert shop.ratchet("init", "--undo").returncode == 0
    assert not (shop.root / "ratchet.toml").exists()
    assert not (shop.root / "tasks.jsonl").exists()


def test_rows_of_data_with_the_parameters_as_columns_are_starter_tasks(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    rows = "question,sql\nHow many pans?,SELECT 1\nHow many cups?,SELECT 2\n"
    shop = repository(tmp_path, upstream, {**SHOP, "data/asked.csv": rows})
    shop.init("--", sys.executable, "-m", "support", "Where is my pan?")
    tasks = [json.loads(line) for line in (shop.root / "tasks.jsonl").read_text().splitlines()]
    assert [(task["input"], task.get("expected")) for task in tasks] == [
        ("Where is my pan?", None),
        ("How many pans?", "SELECT 1"),
        ("How many cups?", "SELECT 2"),
    ]
    assert shop.settings["evaluators"] == [{"use": "sql"}]


def test_a_secret_in_the_command_is_written_nowhere(tmp_path: Path, upstream: StubUpstream) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    words = ("--", sys.executable, "-m", "support", "--api-key", key, "Where is my pan?")
    done = shop.ratchet("init", "--yes", *words)
    assert done.returncode == 2
    assert "There is a secret in word 5." in done.stderr
    assert key not in done.stdout + done.stderr
    assert shop.is_clean


def test_a_variable_with_the_whole_address_of_a_call_leads_to_the_gateway(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    script = """
        [ -n "$SHOP_ENDPOINT" ] || . ./.env
        body=$(printf '{"model":"m","messages":[{"role":"system","content":"You answer for us."},'\\
        '{"role":"user","content":"%s"}]}' "$1")
        curl -s "$SHOP_ENDPOINT" -H 'content-type: application/json' -d "$body" |
        sed 's/.*"content": *"\\([^"]*\\)".*/\\1/'
    """
    shop = repository(tmp_path, upstream, {"agent.sh": script})
    address = f"{shop.environ.pop('OPENAI_BASE_URL')}/chat/completions"
    (shop.root / ".env").write_text(f"SHOP_ENDPOINT={address}\n")
    said = shop.init("--", "sh", "agent.sh", "Where is my pan?")
    assert shop.settings["agent"]["model_base_url"] == ["SHOP_ENDPOINT"]
    assert all(finding["holds"] for finding in said["findings"])
    done = shop.ratchet("run", "Where is my cup?", "--json")
    assert json.loads(done.stdout)["rollouts"][0]["output"] == "cup?"


def test_a_service_is_started_contained_on_a_port_of_its_own(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    service = """
        import json, sys
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from support.agent import ask

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                said = {"answer": ask("You answer for the shop.", asked["question"]), "session": 1}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

        HTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
    """
    shop = repository(tmp_path, upstream, {**SHOP, "serve.py": service})
    port = free_port()
    serve = f"{shlex.quote(sys.executable)} serve.py {port}"
    words = ("--serve", serve, "--url", f"http://127.0.0.1:{port}/chat")
    words += ("--data", '{"question": "Where is my pan?", "session": "s1"}')
    said = shop.init(*words)
    assert all(finding["holds"] for finding in said["findings"])
    agent = shop.settings["agent"]
    assert agent["serve"] == serve.replace(str(port), "{port}")
    assert json.loads(agent["body"]) == {"question": "{input}", "session": "s1"}
    assert agent["output"] == "answer"
    # The file says how it was made, so that it can be made again.
    head = (shop.root / "ratchet.toml").read_text().partition("\n")[0]
    assert shlex.split(head.partition("ratchet init ")[2]) == list(words)


def test_a_service_that_takes_a_form_is_sent_one(tmp_path: Path, upstream: StubUpstream) -> None:
    service = """
        import sys
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from urllib.parse import parse_qs
        from support.agent import ask

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self):
                is_form = self.headers["content-type"] == "application/x-www-form-urlencoded"
                asked = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                said = ask("You answer for the shop. ", *asked["msg"])
                self.send_response(200 if is_form else 415)
                self.end_headers()
                self.wfile.write(said.encode())

        HTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
    """
    shop = repository(tmp_path, upstream, {**SHOP, "serve.py": service})
    port = free_port()
    serve = f"{shlex.quote(sys.executable)} serve.py {port}"
    words = ("--serve", serve, "--url", f"http://127.0.0.1:{port}/chat")
    twice = shop.ratchet("init", "--yes", *words, "--data", "msg=Where is my pan?&msg=And my lid?")
    assert twice.returncode == 2
    assert "names a field twice" in twice.stderr
    said = shop.init(*words, "--data", "msg=Where is my pan %26 lid?&from=desk")
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.settings["agent"]["form"] == {"msg": "{input}", "from": "desk"}
    assert "restart" not in shop.settings["agent"], "the prompt's last space is kept"
    whole = shop.ratchet("run", '{"msg": "Where is my cup?", "from": "desk"}', "--json")
    assert whole.returncode == 0, whole.stderr
    assert "Where is my cup?" in upstream.seen[-1].body.decode()
    assert "desk" not in upstream.seen[-1].body.decode()
    done = shop.ratchet("run", "Is 1 + 1 & more = a cup?", "--json")
    assert done.returncode == 0, done.stderr
    assert "Is 1 + 1 & more = a cup?" in upstream.seen[-1].body.decode()


@pytest.mark.parametrize(
    ("question", "command", "task"),
    [
        ('" ".join(sys.argv[1:])', "agent.py {input}", "Where is my pan?"),
        (
            '"{} {} {} {}".format(*sys.argv[1:])',
            "agent.py {input.word_1} is my {input.word_2}",
            {"word_1": "Where", "word_2": "pan?"},
        ),
    ],
    ids=["joined", "four arguments"],
)
def test_a_sentence_without_quotes_is_one_input_if_the_program_takes_it_so(
    tmp_path: Path, upstream: StubUpstream, question: str, command: str, task: object
) -> None:
    agent = f"""
        import sys
        from support.agent import ask
        print(ask("You answer for the shop.", {question}))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "agent.py": agent})
    said = shop.init("--", sys.executable, *["agent.py", "Where", "is", "my", "pan?"])
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.settings["agent"]["command"].endswith(command)
    [line] = (shop.root / "tasks.jsonl").read_text().splitlines()
    assert json.loads(line)["input"] == task


def test_an_answer_is_known_by_the_values_of_the_models_json(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    dish = json.dumps({"recipe": {"name_in_english": "omelette"}})
    upstream.answers({"choices": [{"message": {"role": "assistant", "content": dish}}]})
    agent = """
        import json, sys
        from support.agent import ask
        dish = json.loads(ask("You recommend a dish.", sys.argv[1]))
        print("Our cook says:", *dish["recipe"].values())
    """
    shop = repository(tmp_path, upstream, {**SHOP, "cook.py": agent})
    said = shop.init("--", sys.executable, "cook.py", "What can I cook with eggs?")
    assert {finding["name"]: finding["holds"] for finding in said["findings"]}["answer"] is True


def test_a_service_gets_the_key_that_it_wants_and_no_file_does(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    service = """
        import json
        import sys
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from pathlib import Path
        from support.agent import ask

        KEY = Path(".env").read_text().partition("SERVICE_KEY=")[2].strip()

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                is_known = self.headers["Authorization"] == f"Bearer {KEY}"
                said = ask("You answer for the shop.", asked["q"]) if is_known else "no key"
                self.send_response(200 if is_known else 401)
                self.end_headers()
                self.wfile.write(said.encode())

        HTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
    """
    shop = repository(tmp_path, upstream, {**SHOP, "serve.py": service, ".gitignore": ".env\n"})
    key = "k3y-0f-the-d3sk"
    (shop.root / ".env").write_text(f"SERVICE_KEY={key}\n")
    port = free_port()
    serve = f"{shlex.quote(sys.executable)} serve.py {port}"
    words = ("--serve", serve, "--url", f"http://127.0.0.1:{port}/", "--data", '{"q": "Where?"}')
    refused = shop.ratchet("init", "--yes", *words)
    assert "answered with status 401: no key" in refused.stderr
    assert "--header 'Authorization: Bearer $SERVICE_KEY'" in " ".join(refused.stderr.split())
    other = shop.ratchet("init", "--yes", *words, "--header", "Authorization: Bearer other-key")
    assert other.returncode == 2
    assert "may be a secret" in other.stderr
    assert "other-key" not in other.stderr
    token = "sk-" + "a1b2c3d4" * 5
    hidden = shop.ratchet("init", "--yes", *words, "--header", f"X-Tenant: {token}")
    assert hidden.returncode == 2
    assert "There is a secret in --header X-Tenant." in " ".join(hidden.stderr.split())
    assert token not in hidden.stderr
    said = shop.init(*words, "--header", f"Authorization: Bearer {key}")
    assert all(finding["holds"] for finding in said["findings"])
    assert shop.settings["agent"]["headers"] == {"Authorization": "Bearer $SERVICE_KEY"}
    done = shop.ratchet("run", "Where is my cup?", "--json")
    assert done.returncode == 0, done.stderr
    assert "Where is my cup?" in upstream.seen[-1].body.decode()
    kept = [path for path in shop.root.rglob("*") if path.is_file() and path.name != ".env"]
    assert [path for path in kept if key.encode() in path.read_bytes()] == []
    (shop.root / ".env").write_text("")
    unset = shop.ratchet("run", "Where is my cup?")
    assert unset.returncode == 2
    assert "variables that are not set: SERVICE_KEY." in " ".join(unset.stderr.split())


@pytest.mark.parametrize("instructed", [True, False])
@pytest.mark.parametrize(
    "answering",
    [
        "said.append(asked); answer = chat([user(' / '.join(said))])",
        "said.append(user(asked)); answer = chat(said)",
        "answer = kept[asked] = kept.get(asked) or chat([user(asked)])",
    ],
    ids=["in one text", "in messages", "answers"],
)
def test_a_service_that_keeps_what_was_said_is_started_anew_for_each_rollout(
    tmp_path: Path, upstream: StubUpstream, answering: str, instructed: bool
) -> None:
    service = f"""
        import json, os, sys, urllib.request
        from http.server import BaseHTTPRequestHandler, HTTPServer

        said, kept = [], {{}}

        def chat(messages):
            system = {{"role": "system", "content": "You answer for the shop and nobody else."}}
            sent = {{"model": "m", "messages": [system, *messages] if {instructed} else messages}}
            body = json.dumps(sent).encode()
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            headers = {{"content-type": "application/json"}}
            with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
                return json.load(response)["choices"][0]["message"]["content"]

        def user(text):
            return {{"role": "user", "content": text}}

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                asked = json.loads(self.rfile.read(length))["question"]
                {answering}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({{"answer": answer}}).encode())

        HTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
    """
    shop = repository(tmp_path, upstream, {"serve.py": service})
    port = free_port()
    serve = f"{shlex.quote(sys.executable)} serve.py {port}"
    words = ("--serve", serve, "--url", f"http://127.0.0.1:{port}/chat")
    said = shop.init(*words, "--data", '{"question": "Where is my pan?"}')
    assert not [f for f in said["findings"] if not f["holds"] and f["name"] != "changed prompt"]
    assert shop.settings["agent"]["restart"] is True
    tasks = shop.root / "tasks.jsonl"
    tasks.write_text("".join(f'{{"id": "{n}", "input": "Where is my cup?"}}\n' for n in range(3)))
    before = len(upstream.seen)
    done = shop.ratchet("eval", "--split", "all", "--json")
    assert done.returncode == 0, done.stderr
    sent = [json.loads(seen.body)["messages"][instructed:] for seen in upstream.seen[before:]]
    assert len(sent) % 3 == 0
    assert all(texts == [{"role": "user", "content": "Where is my cup?"}] for texts in sent)


def test_each_rollout_has_a_conversation_of_its_own_where_a_database_keeps_them(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    service = """
        import json, os, sys, urllib.request
        from http.server import BaseHTTPRequestHandler, HTTPServer

        def post(url, body):
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request) as response:
                return json.load(response)

        class Desk(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                turns = post(os.environ["KEEPER"], asked)["turns"]
                system = {"role": "system", "content": "You answer for the shop and nobody else."}
                users = [{"role": "user", "content": turn} for turn in turns]
                body = {"model": "m", "messages": [system, *users]}
                answered = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
                self.send_response(200)
                self.end_headers()
                answer = answered["choices"][0]["message"]["content"]
                self.wfile.write(json.dumps({"answer": answer}).encode())

        HTTPServer(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
    """
    conversations: dict[str, list[str]] = {}

    def keep(seen: Seen, wire: Wire) -> None:
        turns = conversations.setdefault(seen.json["thread"], [])
        turns.append(seen.json["question"])
        wire.send(reply({"turns": turns}))

    keeper = StubUpstream(keep)
    shop = repository(tmp_path, upstream, {"serve.py": service})
    shop.environ["KEEPER"] = f"http://127.0.0.1:{keeper.port}/turns"
    port = free_port()
    serve = f"{shlex.quote(sys.executable)} serve.py {port}"
    words = ("--serve", serve, "--url", f"http://127.0.0.1:{port}/chat")
    data = '{"thread": "owner-1", "question": "Where is my pan?", "kind": {"place": "web"}}'
    allow = ("--allow", f"localhost:{keeper.port}")
    said = shop.init(*allow, *words, "--data", data)
    assert all(finding["holds"] for finding in said["findings"]), said["findings"]
    agent = shop.settings["agent"]
    assert json.loads(agent["body"]) == {
        "thread": "{fresh}",
        "question": "{input}",
        "kind": {"place": "web"},
    }
    assert "restart" not in agent
    for _ in range(2):
        assert shop.ratchet("run", "Where is my cup?", "--json").returncode == 0
    keeper.close()
    assert list(conversations.values())[-2:] == 2 * [["Where is my cup?"]]
    assert len({*conversations}) == len(conversations)


def test_a_program_that_sets_its_models_address_itself_is_led_by_that_address(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import os, sys
        for line in open(".env"):
            name, _, value = line.strip().partition("=")
            os.environ[name] = value
        from support.agent import ask
        print(ask("You answer for the shop.", sys.argv[1]))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main, ".gitignore": ".env"})
    (shop.root / ".env").write_text(f"OPENAI_BASE_URL={upstream.url}\n")
    said = shop.init("--", sys.executable, "main.py", "Where is my pan?")
    assert shop.settings["agent"]["model_hosts"] == [f"127.0.0.1:{upstream.port}"]
    assert all(finding["holds"] for finding in said["findings"]), said["findings"]


def test_what_the_owner_allows_beyond_the_recorded_run_is_written_by_its_kind(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, SHOP)
    command = ("--", sys.executable, "-m", "support", "Where is my pan?")
    done = shop.ratchet("init", "--yes", "--allow", "api.tavily.com", *command)
    assert done.returncode == 2
    assert "as in api.tavily.com:443" in done.stderr
    assert shop.is_clean
    allowed = ("--allow", "api.tavily.com:443", "--allow", "git", "--allow", "out/")
    shop.init(*allowed, *command)
    assert shop.settings["agent"]["allow"] == {
        "hosts": ["api.tavily.com:443"],
        "programs": ["git"],
        "folders": ["out/"],
    }
    written = (shop.root / "ratchet.toml").read_text().splitlines()[0]
    assert f"ratchet init {' '.join(allowed)} -- " in written


GEMINI = {
    "agent.py": """
        import json, os, sys, urllib.request, uuid
        from prompts import PROMPT

        LOOK = {"name": "look", "description": "Looks up an order.", "parameters_json_schema": {
            "type": "object", "properties": {"order": {"type": "string"}}}}

        def reply(contents):
            base = os.environ.get(
                "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
            body = {"system_instruction": {"parts": [{"text": PROMPT.format(shop="Nord")}]},
                    "contents": contents, "tools": [{"function_declarations": [LOOK]}]}
            headers = {"content-type": "application/json",
                       "x-goog-api-key": os.environ["GEMINI_API_KEY"]}
            url = base + "/v1beta/models/gemini-x:generateContent"
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request) as response:
                return json.load(response)["candidates"][0]["content"]["parts"][0]

        contents = [{"role": "user", "parts": [{"text": sys.argv[1]}]}]
        while "functionCall" in (part := reply(contents)):
            call = {**part["functionCall"], "id": uuid.uuid4().hex}  # new in each run
            result = {"name": call["name"], "id": call["id"], "response": {"status": "sent"}}
            contents += [{"role": "model", "parts": [{"functionCall": call}]},
                         {"role": "user", "parts": [{"functionResponse": result}]}]
        print(part["text"])
    """,
    "prompts.py": """
        PROMPT = "You answer customers of {shop}. Say unknown where you do not know."
    """,
    "publish.py": """
        PROMPT = "You answer customers of {{shop}}. Say unknown where you do not know."
        print(PROMPT)
    """,
}


def test_an_agent_whose_tool_calls_have_new_ids_in_each_run_is_verified(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, GEMINI)
    done = shop.init("--simulated", "--", sys.executable, "agent.py", "Where is order 7?")
    assert {finding["name"]: finding["holds"] for finding in done["findings"]} == {
        "model calls": True,
        "prompts": True,
        "changed prompt": True,
        "answer": True,
    }
    # The copy that publish.py sends elsewhere, with other placeholders, did not run.
    assert [prompt["path"] for prompt in done["prompts"]] == ["prompts.py"], sorted(done)


def test_a_key_that_changes_what_the_program_wants_gets_no_placeholder_the_second_time(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    agent = SHOP["support/agent.py"]
    settings = """
        import os
        if os.environ.get("AZURE_OPENAI_API_KEY") and not os.environ.get("AZURE_OPENAI_ENDPOINT"):
            raise SystemExit("AZURE_OPENAI_ENDPOINT must be set.")
    """
    files = {
        **SHOP,
        "support/agent.py": agent.replace(
            "SYSTEM =", "import support.settings\n\n        SYSTEM =", 1
        ),
        "support/settings.py": settings,
        ".env.example": "OPENAI_API_KEY=\nAZURE_OPENAI_API_KEY=\nAZURE_OPENAI_ENDPOINT=\n",
    }
    shop = repository(tmp_path, upstream, files)
    del shop.environ["OPENAI_API_KEY"]
    command = ("--", sys.executable, "-m", "support", "Where is my pan?")
    done = shop.ratchet("init", "--json", "--simulated", *command)
    assert done.returncode == 0, done.stderr
    assert "Once more, with fewer placeholders." in done.stderr
    [note] = json.loads(done.stdout)["recorded"]["notes"]
    assert "AZURE" not in note
    assert all(finding["holds"] for finding in json.loads(done.stdout)["findings"])


def test_a_key_that_the_first_run_wanted_gets_a_placeholder_the_second_time(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    agent = SHOP["support/agent.py"].replace(
        "SYSTEM =", "assert os.getenv('SHOP_KEY'), 'SHOP_KEY is not set.'\n\n        SYSTEM =", 1
    )
    files = {**SHOP, "support/agent.py": agent, ".env.example": "# SHOP_KEY=\n"}
    shop = repository(tmp_path, upstream, files)
    command = ("--", sys.executable, "-m", "support", "Where is my pan?")
    done = shop.ratchet("init", "--json", "--simulated", *command)
    assert done.returncode == 0, done.stderr
    assert "Once more, with a placeholder for SHOP_KEY." in done.stderr


def test_texts_without_the_indentation_of_their_source_are_prompts_to_improve(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import sys
        from textwrap import dedent
        from support.agent import ask
        def role(name):
            goal = dedent(\'\'\'\\
                You find out what the customer of the shop really needs today,
                and say it in one plain sentence.\'\'\')
            story = dedent(\'\'\'\\
                For ten years you have sold pans and cups at the market,
                and you know each of them by heart.\'\'\')
            return f"{name}. {story}\\nYour goal: {goal}"
        print(ask(role(name="Seller"), sys.argv[1]))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main})
    done = shop.init("--", sys.executable, "main.py", "Where is my pan?")
    assert done["learned"] == ["shop.system (main.py:5 + main.py:8)"]


def test_a_prompt_with_its_owners_address_and_number_is_found_with_them(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    """What is recorded of it is redacted, and with a mark it would match no call."""
    rules = """\
        You answer for the shop, in one sentence.
        Contact Us: - Phone No: 1-800-555-1234 - Email: help@pans-and-cups.com
        Of complaints also tell boss@pans-and-cups.com, or call +1 415 555 2671.
    """
    main = """
        import sys
        from support.agent import ask
        print(ask(open("rules.txt").read(), sys.argv[1]))
    """
    files = {**SHOP, "main.py": main, "rules.txt": rules}
    shop = repository(tmp_path, upstream, files)
    done = shop.init("--", sys.executable, "main.py", "Mail ann@customers.org about my pan")
    assert done["learned"] == ["shop.system (rules.txt:1)"]


def test_what_a_tool_returns_anew_each_time_is_no_other_prompt(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import json, os, sys, urllib.request, uuid
        NAME = {"name": "weather", "parameters": {"type": "object", "properties": {}}}

        def ask(messages):
            tools = [{"type": "function", "function": NAME}]
            body = {"model": "m", "messages": messages, "tools": tools}
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            request = urllib.request.Request(url, json.dumps(body).encode(),
                                             {"content-type": "application/json"})
            with urllib.request.urlopen(request) as response:
                return json.load(response)["choices"][0]["message"]

        messages = [{"role": "system", "content": "You tell people about the weather, briefly."},
                    {"role": "user", "content": sys.argv[1]}]
        while calls := (message := ask(messages)).get("tool_calls"):
            degrees = f"It is {uuid.uuid4().hex} degrees in there."
            result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": degrees}
            messages += [message, result]
        print(message["content"])
    """
    shop = repository(tmp_path, upstream, {"main.py": main})
    done = shop.init("--simulated", "--", sys.executable, "main.py", "How warm is it?")
    prompts = next(finding for finding in done["findings"] if finding["name"] == "prompts")
    assert (prompts["holds"], "what tools returned is not" in prompts["said"]) == (True, True)


def test_a_host_that_a_tool_lacks_in_rollouts_is_not_said_to_be_needless(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    agent = """
        import json, os, sys, urllib.request

        def post(url, body):
            request = urllib.request.Request(url, json.dumps(body).encode(),
                                             {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=5) as response:
                return json.load(response)

        def search(words):
            try:
                return post(os.environ["SEARCH_ADDRESS"], {"q": words})["found"]
            except OSError as error:
                return f"Error: {error}"

        found = {"role": "tool", "tool_call_id": "1", "content": search(sys.argv[1])}
        messages = [{"role": "system", "content": "You answer from what a search finds."},
                    {"role": "user", "content": sys.argv[1]}, found]
        body = {"model": "m", "messages": messages}
        done = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
        print(done["choices"][0]["message"]["content"])
    """
    shop = repository(tmp_path, upstream, {"agent.py": agent})
    search = StubUpstream(lambda _, wire: wire.send(reply({"found": "A pan."})))
    shop.environ["SEARCH_ADDRESS"] = f"http://localhost:{search.port}/search"
    words = ("--", sys.executable, "agent.py", "Where is my pan?")
    said = " ".join(shop.ratchet("init", "--yes", *words).stdout.split())
    search.close()
    assert "The prompts are the same; what tools returned is not." in said
    assert f"It tried localhost:{search.port}; this was denied." in said
    assert "do not need it" not in said
    assert f"undo, and record again with --allow localhost:{search.port}" in said


def test_an_answer_of_a_cache_in_the_home_folder_is_recorded_without_it(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    main = """
        import os, pathlib, sys
        from support.agent import ask
        kept = pathlib.Path.home() / ".shop_answers" / "answer.txt"
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(ask("You answer for the shop.", sys.argv[1]))
        with (kept.parent / "uses.log").open("a") as uses:
            uses.write("1")
        print(kept.read_text())
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": main})
    shop.environ["HOME"] = str(tmp_path / "home")
    answer = tmp_path / "home" / ".shop_answers" / "answer.txt"
    answer.parent.mkdir(parents=True)
    answer.write_text("It is in the cellar.")
    (answer.parent / "uses.log").touch()
    command = ("--", sys.executable, "main.py", "Where is my pan?")
    done = shop.ratchet("init", "--json", "--simulated", *command)
    assert done.returncode == 0, done.stderr
    assert "Once more, without ~/.shop_answers" in done.stderr
    assert all(finding["holds"] for finding in json.loads(done.stdout)["findings"])
    assert answer.read_text() == "It is in the cellar."


CHAT = """
    import readline from "node:readline/promises";
    const lines = readline.createInterface({ input: process.stdin });
    for (;;) {
      const content = await lines.question("> ");
      const body = { model: "m", messages: [{ role: "system", content: "You answer for us." },
                                            { role: "user", content }] };
      const answer = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
        method: "POST", headers: { "content-type": "application/json" },
        body: JSON.stringify(body) });
      console.log((await answer.json()).choices[0].message.content);
    }
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed.")
def test_a_chat_loop_in_node_that_ends_with_its_input_is_wired(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    shop = repository(tmp_path, upstream, {"chat.mjs": CHAT})
    done = shop.init("--stdin", "Where is my pan?", "--", "node", "chat.mjs")
    assert done["input"] == "Where is my pan?"
    assert all(finding["holds"] for finding in done["findings"])
    run = shop.ratchet("run", "Where is my cup?", "--json")
    assert run.returncode == 0, run.stderr


def test_a_run_whose_model_calls_all_failed_is_not_wired(tmp_path: Path) -> None:
    agent = SHOP["support/agent.py"].replace("def answer", "def told", 1)
    main = """
        import sys, urllib.error
        from support.agent import told
        try:
            print(told(sys.argv[1]))
        except urllib.error.HTTPError as error:
            print(f"Sorry: {error}")
    """
    model = StubUpstream(lambda _, wire: wire.send(reply({"error": "busy"}, status=503)))
    files = {"support/__init__.py": "", "support/agent.py": agent, "main.py": main}
    shop = repository(tmp_path, model, files)
    done = shop.ratchet("init", "--", sys.executable, "main.py", "Where is my pan?")
    model.close()
    assert done.returncode == 3
    assert "its 1 model call failed (status 503)" in done.stderr
    assert shop.is_clean
