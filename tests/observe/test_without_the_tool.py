"""An agent without a server needs no tool: it records into a spool, and a file says its release."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ratchet
from ratchet.autopilot import Project
from ratchet.observe.bundles import read_bundle
from ratchet.observe.destination import live_file, meeting_place, spool_folder
from ratchet.observe.spool import MAX_BYTES, SharedSpool, Spool, SpoolFrame, waits
from ratchet.store import Store
from ratchet.store.local_agents import LocalAgents, open_with_agents
from ratchet.types import Activation, Candidate, LiveVersions, PromptTemplate, TrafficSplit
from tests.observe.conftest import Start, release

SDK_ALONE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        rooms = ("types", "observe", "bind", "client", "worker")
        ours = name.startswith("ratchet.") and not name.split(".")[1].startswith("_")
        if ours and name.split(".")[1] not in rooms:
            raise ImportError(f"{name} is a room of the tool")
        if name.split(".")[0] in {
            "aiohttp", "alembic", "pydantic", "rich", "sqlalchemy", "starlette", "tree_sitter",
            "typer", "uvicorn", "yaml",
        }:
            raise ImportError(f"{name} belongs to the tool")

sys.meta_path.insert(0, Refused())
"""

AGENT = (
    SDK_ALONE
    + """
import time
import ratchet

handle = ratchet.init("bot", instrument=False)
system = ratchet.prompt("system", "source")

@ratchet.tool
def look_up(word):
    return word.upper()

@ratchet.agent
def answer(question):
    return f"{system} {look_up(question)}"

for line in sys.stdin:
    with ratchet.trace("request") as step:
        said = answer(line.strip())
    ratchet.feedback(thumbs="down", trace_id=step.trace_id, comment="to ann@example.com")
    assert handle.flush(60)
    print(said, flush=True)
"""
)

SOURCE = Candidate.of({"system": PromptTemplate("source")})
RELEASE = SOURCE.derive({"system": PromptTemplate("released")}, algorithm="test")
BESIDE = SOURCE.derive({"system": PromptTemplate("beside")}, algorithm="test")


class LiveAgent:
    """An agent in a process of its own, which has the SDK alone."""

    def __init__(self, folder: Path, code: str = AGENT) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self, question: str) -> str:
        """What it answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def becomes(self, answer: str) -> bool:
        """Whether it answers so within a minute, on however busy a machine."""
        until = time.monotonic() + 60
        while (said := self.answer("a")) != answer and time.monotonic() < until:
            time.sleep(0.05)
        return said == answer

    def end(self) -> None:
        """Let it come to its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def agent(project: Path) -> Iterator[LiveAgent]:
    """An agent in a project's folder."""
    (project / "ratchet.toml").write_text('[agent]\nentry = "bot:answer"\n')
    running = LiveAgent(project)
    yield running
    running.process.kill()
    running.process.wait()


def names(store: Store) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page, cursor = store.spans.live("bot", 1000, cursor)
        found += [span.name for span in page]
        if cursor is None:
            return sorted(found)


def test_it_records_and_follows_a_release_a_canary_and_their_ends(
    agent: LiveAgent, project: Path
) -> None:
    assert agent.answer("a") == "source A"
    assert not (project / ".ratchet" / "ratchet.db").exists()
    with Project.find(project).open_store() as store:
        assert names(store) == ["answer", "look_up", "request"], "there as soon as it is open"
        ((feedback,), _) = store.feedback.list()
        assert feedback.comment == "to [redacted:email]"
        for candidate in (SOURCE, RELEASE, BESIDE):
            store.candidates.put(candidate)
        release(store, RELEASE.id)
        assert agent.becomes("released A"), "while the tool runs"
        store.traffic.put(
            TrafficSplit(agent="bot", experiment_id="e", candidate_id=BESIDE.id, enrolled=1.0)
        )
        assert agent.becomes("beside A")
        store.traffic.put(TrafficSplit(agent="bot", experiment_id="", candidate_id="", enrolled=0))
        release(store, "")
    assert agent.becomes("source A"), "once it has ended"
    agent.answer("last")
    agent.end()
    with Project.find(project).open_store() as store:
        assert len(store.spans.live("bot", 1000)[0]) == 3 * len(store.feedback.list(limit=1000)[0])


def test_a_server_of_the_project_takes_in_what_an_agent_beside_it_does_and_tells_it_its_release(
    agent: LiveAgent, project: Path
) -> None:
    agent.answer("a")
    command = [sys.executable, "-m", "ratchet", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            with ratchet.Client(json.loads(server.stdout.readline())["url"]) as client:
                for candidate in (SOURCE, RELEASE):
                    client.candidates.put(candidate)
                client.agents.activate("bot", RELEASE.id)
                assert agent.becomes("released A")
                before = time.time_ns()
                agent.answer("a")

                def is_there() -> bool:
                    traces = client.traces.list()[0]
                    return bool(traces) and traces[0].start_ns > before

                until = time.monotonic() + 60
                while not is_there() and time.monotonic() < until:
                    time.sleep(0.05)
                assert is_there()
        finally:
            server.terminate()
            server.wait(60)


def test_a_command_in_another_process_shows_what_was_flushed(
    agent: LiveAgent, project: Path
) -> None:
    agent.answer("a")
    command = [sys.executable, "-m", "ratchet", "traces", "--json"]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert [each["name"] for each in json.loads(ran.stdout)["traces"]] == ["request"]


def test_agent_and_tool_meet_at_their_store_wherever_they_are(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("RATCHET_STORE", f"sqlite:///{data}/own.db")
    running = LiveAgent(elsewhere)
    running.answer("a")
    running.end()
    monkeypatch.chdir(tmp_path)
    for url in (f"sqlite:///{data}/other.db", "sqlite:///data/own.db"):
        with open_with_agents(url) as store:
            stored = names(store)
    assert stored == ["answer", "look_up", "request"]
    same = "postgresql+psycopg://a:secret@host:5432/name", "postgresql://b@host/name"
    assert meeting_place(same[0]) == meeting_place(same[1])
    assert meeting_place(same[0]) != meeting_place("postgresql://b@host/other")


WRITER = (
    SDK_ALONE
    + """
import itertools, os
import ratchet
from ratchet.observe import live

live.GATHER_S = 0.0
handle = ratchet.init("bot", instrument=False)
for number in itertools.count():
    with ratchet.trace(f"call {number}"):
        pass
    assert handle.flush(60)
    os.write(1, f"{number}\\n".encode())
"""
)

INGESTER = """
import os, sys, time
from ratchet.observe import spool
from ratchet.store import Store
from ratchet.store.local_agents import LocalAgents

spool.LEFTOVER_CHECK_INTERVAL_S = 0.0  # it is at it all the time
store = Store.open(sys.argv[1])
agents = LocalAgents(store, sys.argv[1])
os.write(1, b"begun\\n")
while True:
    agents.ingest(60.0)
"""


def test_nothing_is_lost_or_stored_twice_whoever_is_killed_and_however_often(
    project: Path,
) -> None:
    url = f"sqlite:///{project}/.ratchet/ratchet.db"
    Store.open(url).close()
    flushed: list[str] = []
    tools: list[subprocess.Popen[bytes]] = []
    for turn in range(4):
        writer = LiveAgent(project, WRITER.replace("call", f"call {turn}"))
        tools = [
            subprocess.Popen([sys.executable, "-c", INGESTER, url], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        assert writer.process.stdout is not None
        for tool in tools:
            assert tool.stdout is not None
            assert tool.stdout.readline() == b"begun\n"
        lines = [writer.process.stdout.readline() for _ in range(20 + 10 * turn)]
        for process in (tools[0], writer.process, tools[1]):
            process.send_signal(signal.SIGKILL)
        rest = writer.process.stdout.read()
        writer.process.wait()
        for tool in tools:
            tool.communicate()
        lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        flushed += [f"call {turn} {line.strip()}" for line in lines]
    with open_with_agents(url) as store:
        stored = names(store)
    assert set(flushed) <= set(stored), "what was flushed is there"
    assert len(stored) == len(set(stored))
    assert len(stored) <= len(flushed) + 4, "and besides it at most the call under way"
    place = meeting_place(url)
    assert not waits(spool_folder(place.folder, "bot", place.address))


def test_a_tool_that_is_killed_after_it_stored_and_before_it_removed_stores_nothing_twice(
    agent: LiveAgent, project: Path
) -> None:
    agent.answer("a")
    killed = INGESTER.replace(
        "agents =",
        "put = store.spans.put\n"
        "store.spans.put = lambda *given, **more: (put(*given, **more), os.kill(os.getpid(), 9))\n"
        "agents =",
    )
    url = f"sqlite:///{project}/.ratchet/ratchet.db"
    assert subprocess.run([sys.executable, "-c", killed, url], timeout=120).returncode == -9
    with Store.open(url) as store:
        assert names(store) == ["answer", "look_up", "request"]
    with open_with_agents(url) as store:
        assert names(store) == ["answer", "look_up", "request"]
        assert len(store.feedback.list()[0]) == 1


def test_a_tool_that_is_killed_before_it_told_agents_is_made_up_for_by_the_next(
    project: Path, store: Store, store_url: str
) -> None:
    for candidate in (SOURCE, RELEASE):
        store.candidates.put(candidate)
    agents = LocalAgents(store, store_url)
    agents.publish()
    release(store, RELEASE.id)  # and nothing else: as if its process had been killed
    del agents
    open_with_agents(store_url).close()
    place = meeting_place(store_url)
    (file,) = (place.folder / "live").iterdir()
    assert RELEASE.id in file.read_text()
    release(store, "")
    open_with_agents(store_url).close()
    assert f'"release_id":"{RELEASE.id}"' not in file.read_text()


def test_an_agent_that_cannot_be_told_keeps_no_other_from_its_release(
    project: Path, store: Store, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for candidate in (SOURCE, RELEASE):
        store.candidates.put(candidate)
    place = meeting_place(store_url)
    in_the_way = live_file(place.folder, "a", place.address)
    (in_the_way / "folder").mkdir(parents=True)
    for agent in ("a", "bot"):
        store.agents.activate(Activation(agent=agent, candidate_id=RELEASE.id, activated_at=1.0))
    for _ in range(2):
        open_with_agents(store_url).close()
    told = read_bundle(live_file(place.folder, "bot", place.address), LiveVersions)
    assert told is not None
    assert told.release_id == RELEASE.id
    assert "Agents on this machine cannot exchange data with the store" in caplog.text


def test_a_store_that_is_begun_anew_gives_its_agents_their_own_source(project: Path) -> None:
    url = f"sqlite:///{project}/.ratchet/ratchet.db"
    with open_with_agents(url) as store:
        for candidate in (SOURCE, RELEASE):
            store.candidates.put(candidate)
        release(store, RELEASE.id)
    place = meeting_place(url)
    path = live_file(place.folder, "bot", place.address)
    before = read_bundle(path, LiveVersions)
    for file in (project / ".ratchet").glob("ratchet.db*"):
        file.unlink()
    open_with_agents(url).close()
    after = read_bundle(path, LiveVersions)
    assert before is not None
    assert after is not None
    assert (before.release_id, after.release_id) == (RELEASE.id, "")


def test_records_of_another_version_are_told_and_hold_up_no_others(
    project: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{project}/.ratchet/ratchet.db"
    place = meeting_place(url)
    SharedSpool(spool_folder(place.folder, "bot", place.address)).append(
        SpoolFrame(b'{"spans": "in another form"}', 3)
    )
    handle = start("bot")
    with ratchet.trace("after"):
        pass
    assert handle.flush(60)
    with open_with_agents(url) as store:
        assert names(store) == ["after"]
    assert "3 records were lost: another version of Ratchet wrote them" in caplog.text


def test_what_a_full_spool_drops_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = SharedSpool(tmp_path, max_bytes=4_000, segment_bytes=1_000)
    for _ in range(60):
        spool.append(SpoolFrame(b"x" * 300, 2))
    assert spool.lost > 60
    assert sum(os.path.getsize(path) for path in tmp_path.iterdir()) <= 5_000 < MAX_BYTES
    (told,) = caplog.messages
    assert "the oldest records are dropped" in told


def test_a_program_that_runs_again_and_again_leaves_one_file(tmp_path: Path) -> None:
    for number in range(50):
        spool = SharedSpool(tmp_path)
        spool.append(SpoolFrame(b"%d" % number, 1))
        spool.close()
    assert len(list(tmp_path.iterdir())) == 1
    torn = next(tmp_path.iterdir())
    os.truncate(torn, torn.stat().st_size - 1)
    again = SharedSpool(tmp_path)
    again.append(SpoolFrame(b"after", 1))
    read = []
    reader = Spool(tmp_path)
    while (frame := reader.first()) is not None:
        read.append(frame.data)
        reader.done()
    assert read == [*(b"%d" % number for number in range(49)), b"after"]
    again.append(SpoolFrame(b"later", 1))  # its file was taken away
    assert Spool(tmp_path).first() == SpoolFrame(b"later", 1)
