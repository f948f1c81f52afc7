"""Tools that delete, start and send, in rollouts of contained agents: nothing reaches outside.

Real listeners, real files and real processes are outside. Each tool tries in its own way and
swallows what it gets, so that only the outcome's spans tell what it tried.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ratchet.run import WorkerExecutor
from ratchet.run.command import CommandExecutor
from ratchet.run.denials import kept_of
from ratchet.sandbox import containment
from ratchet.sandbox.containment import (
    AgentContainment,
    Allowance,
    why_no_mounts,
    why_no_namespaces,
    why_no_supervision,
)
from ratchet.sandbox.limits import SandboxFailed
from ratchet.types import Claim, Outcome, Rollout
from ratchet.worker.agent import AgentSpec
from tests.node_packages import node

WAYS = (Path(__file__).parent / "hostile_ways.py").read_text()
LEVELS = [
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(why_no_mounts() != "", reason=why_no_mounts())
    ),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(why_no_supervision() != "", reason=why_no_supervision()),
    ),
]

WAYS_IN = [
    *LEVELS,
    pytest.param(
        "by bwrap",
        marks=pytest.mark.skipif(why_no_namespaces(True) != "", reason=why_no_namespaces(True)),
    ),
    pytest.param(
        "landlock of Linux 5.13",
        marks=pytest.mark.skipif(why_no_supervision() != "", reason=why_no_supervision()),
    ),
]

SENDS = {
    "raw_connect": "connect",
    "create_connection_by_name": "connect",
    "smtplib": "connect",
    "urllib": "connect",
    "http_client": "connect",
    "httpx": "connect",
    "requests": "connect",
    "asyncio_streams": "connect",
    "udp_sendto": "connect",
    "udp_connected": "connect",
    "udp_sendmsg": "connect",
    "ctypes_connect": "connect",
    "in_a_thread": "connect",
    "in_a_process": "connect",
    "ipv6": "connect",
    "look_up": "lookup",
    "unix_socket": "socket",
    "abstract_socket": "socket",
}
STARTS = {
    "subprocess_run": "program",
    "os_system": "program",
    "os_popen": "program",
    "execv_in_a_fork": "program",
    "ctypes_execve": "program",
    "posix_spawn": "program",
    "asyncio_subprocess": "program",
    "by_the_loader": "program",
    "copied_program": "program",
}
CHANGES = {
    "rmtree_by_alias": "delete",
    "unlink_by_getattr": "delete",
    "pathlib_unlink": "delete",
    "ctypes_unlink": "delete",
    "rename_away": "delete",
    "open_to_write": "write",
    "truncate": "write",
    "through_a_symlink": "write",
    "through_a_hardlink": "write",
    "chmod": "write",
    "home_write": "write",
    "shared_memory": "write",
}
CONTROLS = {
    "kill": "signal",
    "kill_group": "signal",
    "ptrace": "process",
    "memory_of_another": "process",
    "raw_socket": "process",
}
EVERY_WAY = {**SENDS, **STARTS, **CHANGES, **CONTROLS}


class Outside:
    """What is outside: files, servers that note every contact, a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contacts: list[str] = []
        (folder / "tree" / "deep").mkdir(parents=True)
        self.shared = Path("/dev/shm") / f"ratchet-test-{os.getpid()}-{id(self)}"
        for place in (folder / "tree/deep/leaf.txt", folder / "kept.txt", self.shared):
            place.write_text("as before")
        (folder / "kept.txt").chmod(0o644)
        self.sockets: list[socket.socket] = []
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        six = socket.create_server(("::1", self.port), family=socket.AF_INET6)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", self.port))
        self.unix = str(folder / "service.sock")
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(self.unix)
        unix.listen()
        self.abstract = f"ratchet-test-{os.getpid()}-{self.port}"
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{self.abstract}")
        abstract.listen()
        for name, listener in {"tcp": tcp, "six": six, "unix": unix, "abstract": abstract}.items():
            self._note(name, listener.accept, listener)
        self._note("udp", lambda: udp.recvfrom(100), udp)
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def _note(self, name: str, wait: Callable[[], Any], listener: socket.socket) -> None:
        self.sockets.append(listener)

        def loop() -> None:
            try:
                while True:
                    wait()
                    self.contacts.append(name)
            except OSError:
                return

        threading.Thread(target=loop, daemon=True).start()

    def input(self, way: str) -> dict[str, Any]:
        """The task of a way."""
        return {
            "way": way,
            "folder": str(self.folder),
            "port": self.port,
            "unix": self.unix,
            "abstract": self.abstract,
            "pid": self.process.pid,
            "shared": str(self.shared),
        }

    def check(self) -> None:
        """Nothing is other than before."""
        assert self.contacts == []
        assert self.process.poll() is None
        names = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        assert names == ["kept.txt", "service.sock", "tree", "tree/deep", "tree/deep/leaf.txt"]
        assert (self.folder / "kept.txt").read_text() == "as before"
        assert (self.folder / "tree/deep/leaf.txt").read_text() == "as before"
        assert self.shared.read_text() == "as before"
        assert (self.folder / "kept.txt").stat().st_mode & 0o777 == 0o644
        assert (self.folder / "kept.txt").stat().st_nlink == 1

    def close(self) -> None:
        self.shared.unlink(missing_ok=True)
        self.process.kill()
        self.process.communicate()
        for listener in self.sockets:
            listener.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    folder = tmp_path.resolve() / "outside"
    folder.mkdir()
    world = Outside(folder)
    yield world
    world.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "hostile_ways.py").write_text(WAYS)
    return folder


def claim_of(number: int, given: Any) -> Claim:
    rollout = Rollout(
        id=f"r{number}",
        queue="agent",
        candidate_id="c1",
        task_id=f"t{number}",
        input=given,
        seed=number,
        max_attempts=1,
    )
    return Claim(rollout, 1, 1e12)


def attempts_of(executor: Any, inputs: list[Any]) -> list[Outcome]:
    """Run attempts one after another."""

    async def main() -> list[Outcome]:
        await executor.start()
        try:
            async with asyncio.timeout(300):
                return [
                    await executor.execute(claim_of(number, given), {})
                    for number, given in enumerate(inputs)
                ]
        finally:
            await executor.close()

    return asyncio.run(main())


def worker(project: Path, tmp_path: Path, contained: AgentContainment, **options: Any) -> Any:
    settings = {"slots": 1, "timeout_s": 60.0, "memory_bytes": 2**31, **options}
    return WorkerExecutor(
        AgentSpec(entry=settings.pop("entry", "hostile_ways:run"), root=str(project)),
        store_url=f"sqlite:///{tmp_path}/store.db",
        state=tmp_path / "state",
        containment=contained,
        **settings,
    )


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_no_way_to_send_start_or_delete_reaches_outside_and_each_is_named(
    way_in: str, project: Path, tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.resolve() / "home"
    (home / ".tool").mkdir(parents=True)
    (home / ".tool" / "memory").write_text("first")
    monkeypatch.setenv("HOME", str(home))
    if way_in == "by bwrap":
        tried = {False: "the kernel allows it to no other program", True: ""}
        monkeypatch.setattr(containment, "why_no_namespaces", tried.__getitem__)
    level, _, _ = way_in.removeprefix("by ").replace("bwrap", "bubblewrap").partition(" ")
    newest = 1 if "5.13" in way_in else 99
    contained = AgentContainment(Allowance(), root=project, level=level, newest=newest)
    inputs = [outside.input(way) for way in EVERY_WAY]
    outcomes = attempts_of(worker(project, tmp_path, contained), inputs)
    unnamed, reached = {}, {}
    for (way, kind), outcome in zip(EVERY_WAY.items(), outcomes, strict=True):
        assert outcome.status == "succeeded", (way, outcome.error)
        if str(outcome.output).startswith("reached"):
            reached[way] = outcome.output
        own = way == "shared_memory" and level == "bubblewrap"  # whose folder has only its own
        if kind not in {act.kind for act in kept_of(outcome.spans)} and not own:
            unnamed[way] = (outcome.output, kept_of(outcome.spans))
    assert not unnamed
    assert not reached
    outside.check()
    assert (home / ".tool" / "memory").read_text() == "first"


STATEFUL = """
import os, pathlib, subprocess, sys, time

def run(task):
    return globals()[task["do"]](task)

def remember(task):
    here = []
    for folder in (pathlib.Path.home(), pathlib.Path("."), pathlib.Path("/tmp")):
        place = folder / "ratchet-test-memory"
        try:
            here.append(place.read_text())
        except OSError:
            here.append("")
        try:
            place.write_text(task["text"])
        except OSError:
            pass
    return here

def settle(task):
    place = pathlib.Path.home() / ".config" / "shell" / "settings"
    before = [path.name for path in place.parent.parent.glob("*")]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("model = local")
    return before, place.read_text()

def leave(task):
    script = "import time,sys;time.sleep(0.3);open(sys.argv[1],'w');print('late')"
    if task.get("daemon"):
        if os.fork():
            return os.getpid()
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execv(sys.executable, [sys.executable, "-c", script, task["file"]])
    subprocess.Popen([sys.executable, "-c", script, task["file"]])
    return os.getpid()

def write(task):
    pathlib.Path(task["file"]).write_text("written")
    return pathlib.Path(task["file"]).read_text()

def fetch(task):
    import urllib.request
    with urllib.request.urlopen(task["url"], timeout=10) as answer:
        return answer.read().decode()

def start(task):
    return subprocess.run(task["words"], capture_output=True, text=True, check=True).stdout

def fail(task):
    return start(task)

def inside(task):
    import multiprocessing, socket, tempfile, threading
    told = []
    def serve(listener):
        with listener.accept()[0] as there:
            there.sendall(b"here")
    folder = tempfile.mkdtemp()
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(folder + "/own.sock")
    unix.listen()
    for listener in (socket.create_server(("127.0.0.1", 0)), unix):
        threading.Thread(target=serve, args=(listener,)).start()
        client = socket.socket(listener.family)
        client.connect(listener.getsockname())
        told.append(client.recv(4).decode())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        told.append(sum(pool.map(abs, [-1, -2])))
    with multiprocessing.get_context("spawn").Manager() as manager:
        shared = manager.dict(a=1)
        told.append(dict(shared))
    place = pathlib.Path(folder, "file.txt")
    place.write_text("own")
    place.rename(place.with_name("moved.txt"))
    place.with_name("moved.txt").unlink()
    os.kill(os.getpid(), 0)
    return told

def listing(task):
    return sorted(os.listdir(task["folder"]))

def place(task):
    return os.getcwd(), os.listdir(".")
"""


@pytest.fixture
def stateful(project: Path) -> Path:
    (project / "stateful.py").write_text(STATEFUL)
    return project


@pytest.mark.parametrize("level", LEVELS)
def test_no_state_is_shared_between_two_rollouts(
    level: str, stateful: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path.resolve() / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(stateful)
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    inputs = [{"do": "remember", "text": text} for text in ("first", "second", "third")]
    outcomes = attempts_of(executor, [*inputs, {"do": "place"}])
    assert [outcome.output for outcome in outcomes[:3]] == [["", "", ""]] * 3
    assert outcomes[3].output[0] == str(stateful.resolve())
    assert "ratchet-test-memory" not in outcomes[3].output[1]
    assert list(home.iterdir()) == []


MOUNTS = pytest.mark.skipif(why_no_mounts() != "", reason=why_no_mounts())


@MOUNTS
def test_each_rollout_begins_without_what_is_absent_and_nothing_is_really_deleted(
    stateful: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = stateful.resolve()
    monkeypatch.chdir(root)
    (root / "out" / "kept").mkdir(parents=True)
    remembered = root / "ratchet-test-memory"
    for file in (remembered, root / "out" / "answer", root / "out" / "kept" / "mine"):
        file.write_text("of the owner")
    allowed = Allowance(
        absent=(str(remembered), str(root / "out")), folders=(str(root / "out" / "kept"),)
    )
    contained = AgentContainment(allowed, root=root, level="bubblewrap")
    executor = worker(root, tmp_path, contained, entry="stateful:run")
    inputs = [{"do": "remember", "text": text} for text in ("first", "second")]
    inside = [{"do": "listing", "folder": folder} for folder in ("out", "out/kept")]
    outcomes = attempts_of(executor, [*inputs, *inside])
    assert [outcome.output[1] for outcome in outcomes[:2]] == ["", ""]
    assert [outcome.output for outcome in outcomes[2:]] == [["kept"], ["mine"]]
    assert remembered.read_text() == "of the owner"
    assert sorted(path.name for path in (root / "out").iterdir()) == ["answer", "kept"]


@MOUNTS
async def test_what_is_really_written_to_is_never_removed_as_absent(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "out").mkdir()
    (root / "out" / "precious").write_text("of the owner")
    allowed = Allowance(absent=(str(root / "out" / "precious"),), folders=(str(root / "out"),))
    contained = AgentContainment(allowed, root=root, level="bubblewrap").start(["true"], cwd=root)
    with pytest.raises(SandboxFailed, match="not in a copied folder"):
        await contained.opened()
    await contained.close()
    assert (root / "out" / "precious").read_text() == "of the owner"


@pytest.mark.parametrize("level", LEVELS)
def test_each_rollout_has_settings_of_its_own_beside_secrets_that_it_does_not_see(
    level: str, stateful: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path.resolve() / "home" / ".config"
    settings.mkdir(parents=True)
    (settings / "token").write_text("secret")
    monkeypatch.setenv("HOME", str(settings.parent))
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    outcomes = attempts_of(executor, [{"do": "settle"}, {"do": "settle"}])
    assert [outcome.output for outcome in outcomes] == [[[], "model = local"]] * 2
    assert [path.name for path in settings.iterdir()] == ["token"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("daemon", [False, True])
def test_what_a_rollout_leaves_running_ends_with_it(
    level: str, daemon: bool, stateful: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    allowed = Allowance(folders=(str(folder),))
    contained = AgentContainment(allowed, root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    late = {"do": "leave", "file": str(folder / "late"), "daemon": daemon}
    wait = {"do": "start", "words": [sys.executable, "-c", "import time; time.sleep(0.5)"]}
    outcomes = attempts_of(executor, [late, wait, wait])
    assert [outcome.status for outcome in outcomes] == ["succeeded"] * 3
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_allowed_works_and_is_not_named(
    level: str, stateful: Path, tmp_path: Path, served: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    port = int(served.rpartition(":")[2])
    allowed = Allowance(hosts=(("localhost", port),), programs=("cat",), folders=(str(folder),))
    contained = AgentContainment(allowed, root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    outcomes = attempts_of(
        executor,
        [
            {"do": "fetch", "url": served},
            {"do": "start", "words": ["cat", "/proc/self/comm"]},
            {"do": "write", "file": str(folder / "report.md")},
            {"do": "inside"},
        ],
    )
    assert [outcome.error for outcome in outcomes] == [""] * 4
    inside = ["here", "here", 3, {"a": 1}]
    assert [outcome.output for outcome in outcomes] == ["served", "cat\n", "written", inside]
    assert (folder / "report.md").read_text() == "written"
    assert [kept_of(outcome.spans) for outcome in outcomes] == [[]] * 4


@pytest.mark.parametrize("level", LEVELS)
def test_a_failed_rollout_says_what_it_tried_and_how_to_allow_it(
    level: str, stateful: Path, tmp_path: Path
) -> None:
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    outcomes = attempts_of(
        executor,
        [
            {"do": "fetch", "url": "http://smtp.example.com:587/"},
            {"do": "start", "words": ["cat", "/etc/hostname"]},
            {"do": "fetch", "url": "http://models.example.com:443/v1"},
        ],
    )
    assert [outcome.status for outcome in outcomes] == ["failed"] * 3
    assert outcomes[0].error.endswith(
        "It tried smtp.example.com:587; this was denied. Allow it with hosts = "
        '["smtp.example.com:587"]'
        " under [agent.allow] in ratchet.toml."
    ), outcomes[0].error
    assert "Connection refused" in outcomes[0].error
    assert outcomes[2].error.endswith(
        " If a model answers there, name its host in model_hosts under [agent], or in "
        "model_base_url the variable that holds its address."
    ), outcomes[2].error
    assert "PermissionError" in outcomes[1].error
    assert outcomes[1].error.endswith(
        'It tried to start cat; this was denied. Allow it with programs = ["cat"] under '
        "[agent.allow] in"
        " ratchet.toml."
    )


@pytest.mark.parametrize("level", LEVELS)
def test_a_command_is_contained_in_the_same_way(
    level: str, stateful: Path, tmp_path: Path, outside: Outside
) -> None:
    (stateful / "program.py").write_text(
        "import json, os, sys; sys.path.insert(0, '.'); import hostile_ways\n"
        "print(json.dumps(hostile_ways.run(json.load(sys.stdin)['input'])))"
    )
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = CommandExecutor(
        [sys.executable, "program.py"],
        folder=stateful,
        state=tmp_path / "state",
        slots=1,
        timeout_s=60,
        containment=contained,
    )
    ways = ["smtplib", "os_system", "rmtree_by_alias", "kill", "unix_socket"]
    outcomes = attempts_of(executor, [outside.input(way) for way in ways])
    for way, outcome in zip(ways, outcomes, strict=True):
        assert outcome.status == "succeeded", outcome.error
        assert EVERY_WAY[way] in {act.kind for act in kept_of(outcome.spans)}, (way, outcome.output)
    outside.check()


@pytest.mark.parametrize("level", LEVELS)
def test_a_shim_of_another_python_is_named_when_its_program_is_denied(
    level: str, stateful: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pyenv's, which is found where the environment of the recorded run is not active."""
    shims = stateful / "shims"
    shims.mkdir()
    manager, shim = shims / "manager", shims / "python"
    manager.write_text("#!/bin/sh\n")
    shim.write_text(f"#!/bin/sh\nexec {manager}\n")
    for script in (manager, shim):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{os.environ['PATH']}")
    executor = CommandExecutor(
        ["python", "agent.py"],
        folder=stateful,
        state=tmp_path / "state",
        slots=1,
        timeout_s=60,
        containment=AgentContainment(Allowance(), root=stateful, level=level),
    )
    outcome = attempts_of(executor, ["question"])[0]
    assert outcome.status == "failed"
    assert f"python is the script {shim}" in outcome.error
    assert "Activate the agent's environment" in outcome.error


@pytest.fixture
def served() -> Iterator[str]:
    """A web server on this machine's loopback."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "6")
            self.end_headers()
            self.wfile.write(b"served")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("level", LEVELS)
def test_attempts_that_share_a_process_are_contained_with_it(
    level: str, stateful: Path, tmp_path: Path, outside: Outside
) -> None:
    (stateful / "together.py").write_text(
        "import asyncio, hostile_ways\nasync def run(task):\n"
        "    return await asyncio.to_thread(hostile_ways.run, task)\n"
    )
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = worker(
        stateful, tmp_path, contained, entry="together:run", slots=4, workers=1, capacity=4
    )
    ways = ["smtplib", "os_system", "rmtree_by_alias", "kill", "unix_socket"]

    async def main() -> list[Outcome]:
        await executor.start()
        claims = [claim_of(number, outside.input(way)) for number, way in enumerate(ways)]
        try:
            return await asyncio.gather(*(executor.execute(claim, {}) for claim in claims))
        finally:
            await executor.close()

    outcomes = asyncio.run(main())
    assert {act.kind for outcome in outcomes for act in kept_of(outcome.spans)} >= {
        EVERY_WAY[way] for way in ways
    }
    outside.check()


@pytest.mark.parametrize("level", LEVELS)
def test_a_late_attempt_is_killed_with_all_that_it_started_and_named(
    level: str,
    stateful: Path,
    tmp_path: Path,
    outside: Outside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (stateful / "slow.py").write_text(
        "import os, sys, time, hostile_ways\ndef run(task):\n    hostile_ways.run(task)\n"
        "    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n    time.sleep(600)\n"
    )
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    executor = worker(stateful, tmp_path, contained, entry="slow:run", timeout_s=1.0)
    monkeypatch.chdir(stateful)  # by which its processes are told from others
    outcomes = attempts_of(executor, [outside.input("smtplib")])
    assert outcomes[0].status == "timed_out"
    assert f"It tried localhost:{outside.port}; this was denied." in outcomes[0].error
    until = time.monotonic() + 10
    while left := [pid for pid in psutil.pids() if _works_in(pid, stateful)]:
        assert time.monotonic() < until, left


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return pid != os.getpid() and os.readlink(f"/proc/{pid}/cwd") == str(folder.resolve())
    except OSError:
        return False


@pytest.fixture
def named(served: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A server that has a name, which only this process can resolve."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        own = host in ("api.example.com", b"api.example.com")
        return resolve("127.0.0.1" if own else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return f"http://api.example.com:{served.rpartition(':')[2]}"


FETCH = {
    "python": "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=9).read())",
    "node": "fetch(process.argv[1]).then(a => a.text()).then(console.log)",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("language", FETCH)
@pytest.mark.parametrize("host", ["api.example.com", "*.example.com", "*"])
def test_an_allowed_name_is_reached_from_any_language(
    level: str, language: str, host: str, stateful: Path, tmp_path: Path, named: str
) -> None:
    program = sys.executable if language == "python" else node()
    port = int(named.rpartition(":")[2])
    contained = AgentContainment(Allowance(hosts=((host, port),)), root=stateful, level=level)
    executor = CommandExecutor(
        [program, "-c" if language == "python" else "-e", FETCH[language], named],
        folder=stateful,
        state=tmp_path / "state",
        slots=1,
        timeout_s=60,
        containment=contained,
    )
    outcome = attempts_of(executor, ["question"])[0]
    assert "served" in str(outcome.output), outcome.error
    assert kept_of(outcome.spans) == []


@pytest.mark.parametrize("level", LEVELS)
def test_the_owners_proxy_is_used_for_allowed_hosts(
    level: str, stateful: Path, tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(named.rpartition(":")[2])
    asked: list[bytes] = []
    proxy = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with proxy.accept()[0] as client:
            asked.append(client.recv(4096).split(b"\r\n", 1)[0])
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy")

    threading.Thread(target=serve, daemon=True).start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
    contained = AgentContainment(
        Allowance(hosts=(("api.example.com", port),)), root=stateful, level=level
    )
    executor = worker(stateful, tmp_path, contained, entry="stateful:run")
    with proxy:
        outcome = attempts_of(executor, [{"do": "fetch", "url": named}])[0]
    assert outcome.output == "proxy", outcome.error
    assert asked == [f"CONNECT api.example.com:{port} HTTP/1.1".encode()]


@pytest.mark.parametrize("level", LEVELS)
def test_a_contained_command_answers_in_its_file(
    level: str, stateful: Path, tmp_path: Path
) -> None:
    contained = AgentContainment(Allowance(), root=stateful, level=level)
    program = "import sys; sys.argv[2:] and open('answer.json', 'w').write(sys.argv[2])"
    outcomes = []
    for words in (["{input}"], []):
        executor = CommandExecutor(
            [sys.executable, "-c", program, "-", *words],
            folder=stateful,
            state=tmp_path / "state",
            slots=1,
            timeout_s=60,
            output="file:answer.json",
            containment=contained,
        )
        outcomes += attempts_of(executor, ['{"a": 1}'])
    assert [outcome.output for outcome in outcomes] == [{"a": 1}, None], outcomes
    assert "did not write answer.json" in outcomes[1].error


ANEW = """
import os, shutil, sys
shutil.rmtree("out")
os.mkdir("out")
with open("out/new", "w") as file:
    file.write(sys.argv[1])
os.replace("out/new", "out/answer.txt")
"""
LINKED = """
import os, shutil, sys
shutil.rmtree("out")
os.symlink(sys.argv[1], "out")
"""


def test_a_contained_command_may_make_its_answers_folder_anew_and_no_link_is_followed(
    stateful: Path, tmp_path: Path
) -> None:
    (stateful / "out").mkdir()
    (stateful / "out" / "answer.txt").write_text("an earlier answer")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "answer.txt").write_text("a secret")
    outcomes = []
    for program, given in ((ANEW, "pan"), (LINKED, str(tmp_path / "elsewhere")), ("", "")):
        executor = CommandExecutor(
            [sys.executable, "-c", program, "{input}"],
            folder=stateful,
            state=tmp_path / "state",
            slots=1,
            timeout_s=60,
            output="file:out/answer.txt",
            containment=AgentContainment(Allowance(), root=stateful, level="bubblewrap"),
        )
        outcomes += attempts_of(executor, [given])
    assert [outcome.output for outcome in outcomes] == ["pan", None, None], outcomes
    assert all("did not write out/answer.txt" in outcome.error for outcome in outcomes[1:])
    assert (stateful / "out" / "answer.txt").read_text() == "an earlier answer"


def test_a_contained_command_reads_its_input_from_a_file_of_its_copy(
    stateful: Path, tmp_path: Path
) -> None:
    contained = AgentContainment(Allowance(), root=stateful, level="bubblewrap")
    (stateful / "question.txt").write_text("What is written here?")
    program = "text = open('question.txt').read(); open('out/answer.txt', 'w').write(text.upper())"
    executor = CommandExecutor(
        [sys.executable, "-c", program],
        folder=stateful,
        state=tmp_path / "state",
        slots=2,
        timeout_s=60,
        input="file:question.txt",
        output="file:out/answer.txt",
        containment=contained,
    )
    outcomes = attempts_of(executor, ["Where is the pan?", {"pan": "red"}])
    assert [outcome.output for outcome in outcomes] == ["WHERE IS THE PAN?", {"PAN": "RED"}]
    assert executor.slots == 2
    assert (stateful / "question.txt").read_text() == "What is written here?"
    assert not (stateful / "out").exists()
