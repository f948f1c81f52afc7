"""`ratchet runner` as people and supervisors run it: it works, drains, and says what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli import app
from ratchet.cli import runner as runner_module
from ratchet.store import Store
from ratchet.types import Rollout
from tests import interpreters
from tests.serving import RunningServer
from tests.waiting import until

AGENT = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent


def answer(x):
    with open(HERE / "calls", "a") as file:
        file.write(f"{x}\\n")
    if x == "waits":
        with open(HERE / "gate", "rb", buffering=0) as gate:
            gate.read(1)
    return [x, "RATCHET_KEY" in os.environ]


async def in_process(x):
    return answer(x)
"""


class Place:
    """A folder with an agent, and runners started in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "my_agent.py").write_text(AGENT)
        os.mkfifo(root / "gate")
        # Read and write, so that neither end waits for the other to open.
        self.gate = os.open(root / "gate", os.O_RDWR)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ratchet", *arguments]
        process = interpreters.Interpreter(
            command,
            cwd=self.root,
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    def runner(self, url: str, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return self.start("runner", "--server", url, "--json", *arguments, **environ)

    def calls(self) -> list[str]:
        file = self.root / "calls"
        return file.read_text().split() if file.exists() else []

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        os.close(self.gate)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "place").mkdir()
    made = Place(tmp_path / "place")
    yield made
    made.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """Exit code, figures and words of a runner."""
    out, err = process.communicate(timeout=60)
    return process.returncode, json.loads(out) if out else {}, err


def queued(*inputs: object) -> list[Rollout]:
    return [
        Rollout(id=f"r{n}", queue="default", candidate_id="", task_id=str(n), input=given)
        for n, given in enumerate(inputs)
    ]


def store_of(server: RunningServer) -> Store:
    store: Store = server.app.services.store
    return store


def test_a_runner_joins_works_and_leaves_when_there_is_nothing_to_do(
    server: RunningServer, place: Place
) -> None:
    store_of(server).rollouts.create(queued(*range(10)), time.time())
    code, figures, words = ended(
        place.runner(server.url, "--agent", "my_agent:in_process", "--max-idle", "2")
    )
    assert code == 0, words
    assert (figures["claimed"], figures["succeeded"], figures["unfinished"]) == (10, 10, 0)
    joined = f"Joined {server.url}, queue default and its agent's own (10 queued): my_agent:in_p"
    assert joined in words
    assert "It has version " in words
    assert "Left: 10 claimed, 10 succeeded." in words
    assert store_of(server).rollouts.counts() == {"succeeded": 10}
    assert not (place.root / ".ratchet" / "runners").exists() or not any(
        (place.root / ".ratchet" / "runners").rglob("binding*")
    )


def test_a_runner_runs_the_projects_own_agent_in_workers(
    server: RunningServer, place: Place
) -> None:
    (place.root / "ratchet.toml").write_text(
        '[agent]\nentry = "my_agent:answer"\n[run]\nconcurrency = 2\n'
    )
    store_of(server).rollouts.create(queued("a", "b", "c"), time.time())
    code, figures, words = ended(place.runner(server.url, "--max-idle", "2"))
    assert code == 0, words
    assert figures["succeeded"] == 3
    assert "my_agent:answer, 2 at a time" in words


def test_a_command_runs_for_each_rollout_and_never_sees_the_key(
    serving: Callable[..., RunningServer], sqlite_url: str, place: Place
) -> None:
    with Store.open(sqlite_url) as store:
        _, key = store.keys.create("runner", ("runner",), time.time())
    server = serving(sqlite_url)
    (place.root / "agent.sh").write_text("cat\nenv\ncat /proc/self/environ 2>/dev/null\n")
    store_of(server).rollouts.create(queued("given"), time.time())
    process = place.runner(
        server.url,
        "--command",
        "sh agent.sh",
        "--max-idle",
        "0.3",
        "--key-env",
        "MY_KEY",
        MY_KEY=key,
    )
    code, figures, words = ended(process)
    assert (code, figures["succeeded"]) == (0, 1), words
    output = store_of(server).rollouts.get(["r0"])["r0"].output
    assert '"input":"given"' in output
    assert f"OPENAI_BASE_URL={server.url}/gateway/r0@1/openai/v1" in output
    assert "OPENAI_API_KEY=ra_" in output
    assert key not in output + words + json.dumps(figures)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--agent", "broken:answer"), "No module named 'not_there'"),
        (("--agent", "my_agent:other"), "has no function 'other'"),
        (("--command", "no-such-program"), "'no-such-program' was not found"),
    ],
)
def test_an_agent_that_does_not_load_is_told_and_takes_no_rollout(
    server: RunningServer, place: Place, arguments: tuple[str, ...], reason: str
) -> None:
    (place.root / "broken.py").write_text("import not_there\n")
    store_of(server).rollouts.create(queued("a"), time.time())
    code, figures, words = ended(place.runner(server.url, *arguments))
    assert code == 3
    assert reason in words
    assert "Traceback" not in words
    assert figures["claimed"] == 0
    assert store_of(server).rollouts.attempts("r0") == []
    (note,), _ = store_of(server).spans.live("default", 10, None)
    assert note.status == "error", "whoever looks for the queue's rollouts finds the reason"
    assert reason in note.message


def test_sigterm_drains_and_gives_back_what_does_not_end(
    server: RunningServer, place: Place
) -> None:
    store_of(server).rollouts.create(queued("waits", "waits", *range(8)), time.time())
    process = place.runner(
        server.url, "--agent", "my_agent:answer", "--concurrency", "2", "--drain", "0.5"
    )
    until(lambda: place.calls() == ["waits"] * 2, "both should start")
    process.send_signal(signal.SIGTERM)
    code, figures, words = ended(process)
    assert code == 0, words
    assert "Stopping: no more claims" in words
    assert figures["unfinished"] == figures["claimed"]
    assert store_of(server).rollouts.counts() == {"queued": 10}
    assert {r.failures for r in store_of(server).rollouts.list()[0]} == {0}


def test_sigterm_lets_what_runs_end(server: RunningServer, place: Place) -> None:
    store_of(server).rollouts.create(queued("waits", "waits", *range(8)), time.time())
    process = place.runner(
        server.url, "--agent", "my_agent:answer", "--concurrency", "2", "--drain", "30"
    )
    until(lambda: place.calls() == ["waits"] * 2, "both should start")
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while "Stopping: no more claims" not in process.stderr.readline():
        pass
    os.write(place.gate, b"..")
    code, figures, _ = ended(process)
    assert (code, figures["succeeded"]) == (0, 2)
    assert store_of(server).rollouts.counts() == {"queued": 8, "succeeded": 2}


def test_a_second_interrupt_ends_it_at_once(server: RunningServer, place: Place) -> None:
    store_of(server).rollouts.create(queued("waits"), time.time())
    process = place.runner(server.url, "--agent", "my_agent:answer", "--drain", "600")
    until(lambda: place.calls() == ["waits"], "it should start")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "Stopping: no more claims" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    code, figures, words = ended(process)
    assert code == 130, words
    assert figures["unfinished"] == 1
    assert store_of(server).rollouts.counts() == {"queued": 1}


def test_a_server_that_is_killed_and_started_again_loses_nothing(
    place: Place, sqlite_url: str
) -> None:
    serve = ("serve", "--store", sqlite_url, "--json", "--port")
    server = place.start(*serve, "0")
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    with Store.open(sqlite_url) as store:
        store.rollouts.create(queued("waits", *range(30), "waits"), time.time())
        process = place.runner(url, "--agent", "my_agent:answer", "--concurrency", "2")
        # The first waits; the other worker goes on until it reaches the last.
        until(lambda: Counter(place.calls())["waits"] == 2, "both should wait")
        server.kill()
        server.wait()
        os.write(place.gate, b"..")
        assert process.stderr is not None
        while "cannot be reached" not in process.stderr.readline():
            pass
        place.start(*serve, url.rpartition(":")[2])
        until(lambda: store.rollouts.counts() == {"succeeded": 32}, "all should be reported")
        process.send_signal(signal.SIGTERM)
        code, figures, words = ended(process)
        assert code == 0, words
        assert "The server is back" in words
        assert (figures["claimed"], figures["succeeded"], figures["lost"]) == (32, 32, 0)
        assert all(len(store.rollouts.attempts(f"r{n}")) == 1 for n in range(32))
    assert Counter(place.calls()) == Counter(["waits", "waits", *map(str, range(30))])


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The folder, to run commands in this process."""
    monkeypatch.chdir(place.root)
    monkeypatch.setattr(runner_module, "JOIN_S", 0.0)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("RATCHET_URL", raising=False)
    return place


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--agent", "a:b", "--command", "c"), "give --agent or --command"),
        (("--command", "c", "--ray", "local"), "--ray is for Python agents"),
        (("--command", "c", "--path", "src"), "--path is for Python agents"),
        (("--command", "'"), "cannot be parsed"),
        (("--path", "src"), "--path needs --agent"),
        (("--agent", "a:b", "--ray", "local", "--executor", "async"), "cannot be combined"),
        (("--agent", "a:b", "--gateway", "--executor", "async"), "--gateway needs a process"),
        ((), "There is no agent to run"),
        (("--key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE has no key"),
        (("--server", "nonsense"), "not usable: 'nonsense'"),
    ],
)
def test_options_that_make_no_sense_are_told(
    here: Place, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code = app.run(["runner", "--server", "http://127.0.0.1:1", *arguments])
    assert code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_server_that_is_not_there_is_an_error_of_its_own(
    here: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    code = app.run(["runner", "--server", "http://127.0.0.1:1", "--agent", "my_agent:in_process"])
    assert code == 4
    assert "http://127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert app.run(["runner", "--agent", "my_agent:in_process"]) == 2
    assert "Set RATCHET_URL" in capsys.readouterr().err


def test_a_key_that_is_refused_is_named_and_not_shown(
    here: Place,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = "rk_" + "s" * 40
    monkeypatch.setenv("RATCHET_KEY", secret)
    code = app.run(["runner", "--server", server.url, "--agent", "my_agent:in_process"])
    assert code == 2
    said = capsys.readouterr().err
    assert "from RATCHET_KEY" in said
    assert secret not in said
