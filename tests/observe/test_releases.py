"""Releases at run time: live calls follow them, and nothing that fails reaches the agent."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet import _live_calls
from ratchet.observe import Handle, releases
from ratchet.observe.bundles import read_bundle, write_bundle
from ratchet.observe.releases import (
    MAX_PAUSE_S,
    FileVersions,
    ReleaseFollower,
)
from ratchet.store import Store
from ratchet.store.local_agents import open_with_agents
from ratchet.types import (
    Candidate,
    LiveVersions,
    PromptTemplate,
    StoreError,
    TrafficSplit,
    short_version,
    unit_digest,
)
from tests.clocks import Clock
from tests.observe.conftest import release, stored

Start = Callable[..., Handle]

SOURCE = Candidate.of({"greeting": PromptTemplate("source")})
ONE = SOURCE.derive({"greeting": PromptTemplate("one")}, algorithm="apo")
TWO = SOURCE.derive({"greeting": PromptTemplate("two")}, algorithm="apo")

VERSIONS = LiveVersions(
    agent="bot", release_id=ONE.id, release=ONE.resources, standing=("", ONE.id)
)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running agent looks for its release more often than each second."""
    monkeypatch.setattr(releases, "FILE_S", 0.05)
    monkeypatch.setattr(FileVersions, "interval_s", 0.05)


@pytest.fixture
def greeting() -> Iterator[ratchet.bind.Prompt]:
    yield ratchet.prompt("greeting", "source")
    ratchet.bind.forget()


@pytest.fixture
def store(project: Path) -> Iterator[Store]:
    """The project's store, with three candidates."""
    folder = project / ".ratchet"
    folder.mkdir()
    with open_with_agents(f"sqlite:///{folder / 'ratchet.db'}") as opened:
        for candidate in (SOURCE, ONE, TWO):
            opened.candidates.put(candidate)
        yield opened


def canary(
    store: Store, start: Start, greeting: ratchet.bind.Prompt, **options: Any
) -> tuple[Handle, Callable[[str], str]]:
    """Live capture with a release and a canary of everybody, and an agent that says its prompt."""
    release(store, ONE.id)
    store.traffic.put(
        TrafficSplit(agent="bot", experiment_id="e", candidate_id=TWO.id, enrolled=1.0)
    )
    handle = start("bot", **options)
    assert becomes(greeting, "one")

    @ratchet.tool
    def inner() -> str:
        return str(greeting)

    @ratchet.agent
    def answer(question: str) -> str:
        return inner()

    return handle, answer


def becomes(greeting: ratchet.bind.Prompt, text: str) -> bool:
    """Whether the prompt becomes this within a minute, on however busy a machine."""
    until = time.monotonic() + 60
    while str(greeting) != text and time.monotonic() < until:
        time.sleep(0.01)
    return str(greeting) == text


class Script:
    """A source that answers as a test says."""

    interval_s = 10.0

    def __init__(self, *answers: LiveVersions | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def read(self, tag: str) -> LiveVersions | None:
        self.asked.append(tag)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def follow(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., ReleaseFollower]]:
    """Makes followers without a thread; tests call `poll`."""
    made: list[ReleaseFollower] = []

    def following(source: Any, **options: Any) -> ReleaseFollower:
        given = {"bundle": tmp_path / "releases" / "bot.json", "switch": tmp_path / "own-source"}
        follower = ReleaseFollower(lambda: source, **{**given, **options}, clock=clock)
        made.append(follower)
        return follower

    yield following
    for each in made:
        each.close()


def test_a_release_reaches_a_running_agent_and_so_does_its_rollback(
    start: Start, store: Store, greeting: ratchet.bind.Prompt
) -> None:
    start("bot")
    release(store, ONE.id)
    assert becomes(greeting, "one")
    release(store, TWO.id)
    assert becomes(greeting, "two")
    release(store, "")
    assert becomes(greeting, "source")


def test_spans_of_a_canary_say_what_they_ran(
    start: Start, store: Store, project: Path, greeting: ratchet.bind.Prompt
) -> None:
    handle, answer = canary(store, start, greeting)
    said: dict[str, str] = {}
    for number in range(10):
        with ratchet.conversation(f"talk {number}"):
            said[f"talk {number}"] = answer("?")
            assert answer("again?") == said[f"talk {number}"]
    assert set(said.values()) == {"one", "two"}
    handle.flush(60)
    root = stored(project)["answer"].attributes
    assert root["ratchet.unit"] == unit_digest("talk 9")
    assert root["ratchet.experiment_id"] == "e"
    assert (root["ratchet.arm"] == "candidate") is (said["talk 9"] == "two")
    assert root["ratchet.candidate_id"] == (TWO.id if said["talk 9"] == "two" else ONE.id)
    assert "ratchet.arm" not in stored(project)["inner"].attributes


def test_a_call_of_a_canary_says_so_also_where_contents_are_not_kept(
    start: Start, store: Store, project: Path, greeting: ratchet.bind.Prompt
) -> None:
    handle, answer = canary(store, start, greeting, capture_content=False)
    with ratchet.conversation("ann@example.com"):
        said = answer("?")
    handle.flush(60)
    root = stored(project)["answer"].attributes
    assert "ratchet.input" not in root
    assert (root["ratchet.experiment_id"], root["ratchet.unit"]) == (
        "e",
        unit_digest("ann@example.com"),
    )
    assert root["ratchet.arm"] == ("candidate" if said == "two" else "baseline")
    shown = (ONE, TWO)[said == "two"].resources["greeting"]
    assert f"greeting@{short_version(shown)}" in root["ratchet.resources"]


def test_without_a_conversation_the_user_is_the_unit_and_else_the_call(
    start: Start, store: Store, project: Path, greeting: ratchet.bind.Prompt
) -> None:
    handle, answer = canary(store, start, greeting)
    assert {answer("?") for _ in range(40)} == {"one", "two"}
    handle.flush(60)
    span = stored(project)["answer"]
    assert span.attributes["ratchet.unit"] == unit_digest(span.trace_id)


@pytest.fixture
def serve() -> Iterator[Callable[[Candidate], None]]:
    chooser = _live_calls.chooser
    assert chooser is not None

    def serving(candidate: Candidate) -> None:
        chooser.serve(
            LiveVersions(
                agent="bot",
                release_id=candidate.id,
                release=candidate.resources,
                standing=("", ONE.id, TWO.id),
            )
        )

    yield serving
    chooser.serve(None)


@pytest.fixture
def following(start: Start, follow: Callable[..., ReleaseFollower]) -> Handle:
    """Live capture whose releases a test serves by itself."""
    handle = start("bot", releases=False)
    assert handle._live is not None
    follower = follow(Script(None))
    follower._thread = threading.current_thread()
    handle._live.releases = follower
    return handle


def test_a_call_keeps_its_versions_to_its_end(
    following: Handle, serve: Callable[[Candidate], None], greeting: ratchet.bind.Prompt
) -> None:
    serve(ONE)

    @ratchet.agent
    def answer(question: str) -> list[str]:
        first = str(greeting)
        serve(TWO)
        with ThreadPoolExecutor(1) as pool:
            in_pool = pool.submit(lambda: str(greeting)).result()
        thread_said: list[str] = []
        thread = threading.Thread(target=lambda: thread_said.append(str(greeting)))
        thread.start()
        thread.join()
        return [first, str(greeting), in_pool, *thread_said]

    assert answer("?") == ["one"] * 4
    assert str(greeting) == "two"


def test_a_stream_and_a_coroutine_keep_their_versions_too(
    following: Handle, serve: Callable[[Candidate], None], greeting: ratchet.bind.Prompt
) -> None:
    @ratchet.agent
    async def stream(question: str) -> AsyncIterator[str]:
        yield str(greeting)
        yield str(greeting)

    @ratchet.agent
    async def answer(question: str) -> str:
        await asyncio.sleep(0)
        return str(greeting)

    async def both() -> list[str]:
        serve(ONE)
        said: list[str] = []
        task = asyncio.create_task(answer("?"))
        await asyncio.sleep(0)  # it begins
        async for item in stream("?"):
            said += [item, str(greeting)]
            serve(TWO)
        return [*said, await task]

    assert asyncio.run(both()) == ["one", "one", "one", "two", "one"]


def test_a_thread_that_outlives_its_call_runs_what_is_released_then(
    following: Handle, serve: Callable[[Candidate], None], greeting: ratchet.bind.Prompt
) -> None:
    serve(ONE)
    go_on, said = threading.Event(), list[str]()

    @ratchet.agent
    def answer(question: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: (go_on.wait(60), said.append(str(greeting))))
        thread.start()
        return thread

    thread = answer("?")
    serve(TWO)
    go_on.set()
    thread.join()
    assert said == ["two"]


def test_a_rollout_is_not_a_live_call(
    following: Handle, serve: Callable[[Candidate], None], greeting: ratchet.bind.Prompt
) -> None:
    serve(ONE)
    binding = ratchet.bind.Binding(resources=TWO.resources)
    with ratchet.bind.bound(binding):
        assert str(greeting) == "two"


def test_the_last_release_is_there_while_the_source_is_away(
    follow: Callable[..., ReleaseFollower], greeting: ratchet.bind.Prompt
) -> None:
    first = follow(Script(VERSIONS))
    first.poll()
    assert str(greeting) == "one"
    first.close()
    assert str(greeting) == "source"
    away = Script(StoreError("The server is away."))
    second = follow(away)
    second.start()
    assert str(greeting) == "one"


def test_with_nothing_on_disk_and_a_dead_server_the_source_runs_without_error(
    start: Start, greeting: ratchet.bind.Prompt, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        start("bot", url=f"http://127.0.0.1:{taken.getsockname()[1]}", spool=False)

        @ratchet.agent
        def answer(question: str) -> str:
            return str(greeting)

        assert answer("?") == "source"
    assert not [one for one in caplog.records if "releases" in one.message.lower()]


def test_a_source_that_fails_is_asked_less_and_less_often(
    follow: Callable[..., ReleaseFollower], clock: Clock, greeting: ratchet.bind.Prompt
) -> None:
    source = Script(VERSIONS, StoreError("away"), ValueError("garbage"), OSError(), VERSIONS)
    follower = follow(source)
    follower.poll()
    times = []
    while len(source.asked) < 5:
        clock.now += 1.0
        asked = len(source.asked)
        follower.poll()
        if len(source.asked) > asked:
            times.append(clock.now)
        assert str(greeting) == "one"
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] <= MAX_PAUSE_S
    assert source.asked[1:] == [VERSIONS.tag] * 4, "what is known is not sent again"


def test_a_damaged_bundle_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "releases" / "bot.json"
    write_bundle(path, VERSIONS)
    assert read_bundle(path, LiveVersions) == VERSIONS
    assert path.stat().st_mode & 0o077 == 0
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole.replace(b"one", b"two"), b"", b"{}"):
        path.write_bytes(damaged)
        assert read_bundle(path, LiveVersions) is None
    assert os.listdir(path.parent) == ["bot.json"]


def test_the_switch_wins_over_a_release_and_gives_it_back(
    follow: Callable[..., ReleaseFollower], tmp_path: Path, greeting: ratchet.bind.Prompt
) -> None:
    follower = follow(Script(VERSIONS, None))
    assert follower.poll() <= 1.0, "the switch is looked at each second"
    assert str(greeting) == "one"
    (tmp_path / "own-source").touch()
    follower.poll()
    assert str(greeting) == "source"
    (tmp_path / "own-source").unlink()
    follower.poll()
    assert str(greeting) == "one"


def test_a_variable_switches_releases_off(
    start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_OWN_SOURCE", "1")
    handle = start("bot")
    assert handle._live is not None
    assert handle._live.releases is None


def test_a_file_that_goes_away_gives_the_source_back_and_a_damaged_one_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "live" / "bot.json"
    write_bundle(path, VERSIONS)
    source = FileVersions(path, "bot")
    assert source.read("") == VERSIONS
    assert source.read(VERSIONS.tag) is None
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert source.read(VERSIONS.tag) is None
    path.write_bytes(whole)
    assert source.read("") == VERSIONS, "what is mended is read again"
    path.unlink()
    assert source.read(VERSIONS.tag) == LiveVersions(agent="bot")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_follows_releases_by_itself(
    start: Start, store: Store, greeting: ratchet.bind.Prompt
) -> None:
    start("bot")
    release(store, ONE.id)
    assert becomes(greeting, "one")

    @ratchet.agent
    def answer(question: str) -> str:
        return str(greeting)

    begun, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            right = answer("?") == "one"
            os.write(begun[1], b"x")
            os.read(go_on[0], 1)
            code = 0 if right and becomes(greeting, "two") else 2
        finally:
            os._exit(code)
    os.read(begun[0], 1)
    release(store, TWO.id)
    os.write(go_on[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    for end in (*begun, *go_on):
        os.close(end)
