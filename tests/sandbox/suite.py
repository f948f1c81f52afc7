"""Run the hostile programs in a sandbox, in surroundings that show what they achieved."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.sandbox import CallResult, SandboxLimits, SandboxPool, call
from ratchet.sandbox.inside import process_table
from tests.sandbox.hostile import PROGRAMS, Program

MIB = 1024 * 1024
LIMITS = SandboxLimits(
    seconds=2.0,
    memory_bytes=192 * MIB,
    processes=12,
    output_bytes=MIB // 4,
    scratch_bytes=16 * MIB,
    result_bytes=MIB,
)
SHORT = SandboxLimits(
    **{**{f: getattr(LIMITS, f) for f in LIMITS.__struct_fields__}, "seconds": 0.4}
)
"""For programs that may end by running out of time."""

SECRETS = (
    ".env.local",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".aws/credentials",
    ".ssh/config",
    "id_ed25519",
    "service/deep/.env.production",
    "trees/other/.git",
    "trees/other/.ratchet/journal",
)
"""Files of the project that hold secrets by their names."""

LEFT_OUTSIDE = ("/tmp/from-the-sandbox", "/tmp/unpickled", "/dev/shm/left-by-the-sandbox")

NEXT = """
def after():
    import builtins, gc, json, os, random, sys, threading, time
    mask = os.umask(0o77)
    os.umask(mask)
    return {
        "works": len(json.loads(json.dumps([1, 2, 3]))),
        "umask": mask,
        "recursion": sys.getrecursionlimit(),
        "gc": gc.isenabled(),
        "folder": os.listdir(),
        "above": len(os.listdir("..")),
        "threads": threading.active_count(),
        "time": time.time() > 1e9,
        "random": random.random() not in (0.0, 0.8444218515250481),
        "open": open(os.devnull).read(),
        "environ": sorted(os.environ),
        "path": len(sys.path) > 0,
        "parent": os.getppid() > 0,
    }
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one program."""

    contained: bool
    why: str
    """Why it was not; empty when it was."""
    called: CallResult


class Surroundings:
    """A machine as a hostile program would find it, in small: servers, secrets, processes."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        folder = Path(tempfile.mkdtemp(prefix="surroundings-")).resolve()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self.root = folder / "project"
        self.home = folder / "home"
        (self.root / ".ratchet").mkdir(parents=True)
        self.home.mkdir()
        self._parts = [secrets.token_hex(6), secrets.token_hex(6)]
        self.expected = "-".join(self._parts)
        self.hidden = self.root / "tasks.jsonl"
        self.hidden.write_text(self.expected)
        (self.root / ".ratchet" / "journal").write_text("journal")
        (self.root / ".env").write_text("KEY=secret")
        for name in (*SECRETS, ".git/config", ".git/credentials", ".git/hooks/pre-push"):
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("secret")
        (self.root / "link-to-hidden").symlink_to(self.hidden)
        self._readable = self.root / "agent.py"
        self._readable.write_text("agent")
        self._secret = self.home / "secret"
        self._secret.write_text("secret")
        self._secret.chmod(0o600)
        os.utime(self._secret, (10**9, 10**9))
        os.utime(self._readable, (10**9, 10**9))
        self._marker = f"marker-{secrets.token_hex(8)}"
        os.environ["SANDBOX_SUITE_KEY"] = self._marker
        stack.callback(os.environ.pop, "SANDBOX_SUITE_KEY", None)
        self._victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import time; time.sleep(900)"],
            env={"KEY": self._marker},
        )
        stack.callback(self._end_victim)
        self._held = os.open(self._secret, os.O_RDONLY)
        os.set_inheritable(self._held, True)
        stack.callback(os.close, self._held)
        self._servers: list[socket.socket] = []
        self._listen(folder)
        self._before = self._seen()

    def _listen(self, folder: Path) -> None:
        abstract = f"suite-{secrets.token_hex(8)}"
        tcp, udp = self._server(socket.AF_INET), self._server(socket.AF_INET, socket.SOCK_DGRAM)
        ports = {}
        for name, server in (("tcp_port", tcp), ("udp_port", udp)):
            server.bind(("127.0.0.1", 0))
            ports[name] = server.getsockname()[1]
        tcp.listen()
        ports["tcp6_port"] = 1
        with suppress(OSError):
            six = self._server(socket.AF_INET6)
            six.bind(("::1", 0))
            six.listen()
            ports["tcp6_port"] = six.getsockname()[1]
        for name in ("\0" + abstract, str(folder / "socket")):
            server = self._server(socket.AF_UNIX)
            server.bind(name)
            server.listen()
        datagram = self._server(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagram.bind(str(folder / "datagram"))
        key = 0x52000000 | secrets.randbelow(0xFFFFFF)
        libc = ctypes.CDLL(None)
        segment = libc.shmget(key, 4096, 0o1666)
        self._stack.callback(libc.shmctl, segment, 0, None)
        status = os.fstat(self._held)
        self.facts: dict[str, Any] = {
            **ports,
            "abstract": abstract,
            "unix_path": str(folder / "socket"),
            "unix_datagram": str(folder / "datagram"),
            "home": str(self.home),
            "root": str(self.root),
            "secret": str(self._secret),
            "hidden_file": str(self.hidden),
            "secrets": SECRETS,
            "readable": str(self._readable),
            "marker": self._marker,
            "victim": self._victim.pid,
            "host": os.getpid(),
            "held": [status.st_dev, status.st_ino],
            "expected_parts": self._parts,
            "key": key,
        }

    def _server(self, family: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
        server = self._stack.enter_context(socket.socket(family, kind))
        server.setblocking(False)
        self._servers.append(server)
        return server

    def _end_victim(self) -> None:
        self._victim.kill()
        self._victim.wait()

    def _seen(self) -> dict[str, Any]:
        """All that no program may change."""
        seen: dict[str, Any] = {}
        for folder in (self.root, self.home):
            for path in sorted(folder.rglob("*")):
                status = path.lstat()
                seen[str(path)] = (status.st_mode, status.st_mtime, status.st_uid, status.st_nlink)
                if path.is_file():
                    seen[f"text of {path}"] = path.read_text()
        victim = self._victim.pid
        seen["victim ended"] = self._victim.poll()
        if self._victim.poll() is None:
            seen["victim"] = (
                os.getpriority(os.PRIO_PROCESS, victim),
                os.sched_getaffinity(victim),
                resource.prlimit(victim, resource.RLIMIT_CPU),
            )
        return seen

    def harm(self) -> list[str]:
        """What has been changed or reached since the surroundings were made."""
        now = self._seen()
        found = [
            f"{name} changed"
            for name in self._before | now
            if self._before.get(name) != now.get(name)
        ]
        for server in self._servers:
            with suppress(BlockingIOError):
                if server.type == socket.SOCK_STREAM:
                    server.accept()[0].close()
                else:
                    server.recv(100)
                found.append(f"a server was reached: {server.getsockname()!r}")
        for path in LEFT_OUTSIDE:
            if os.path.exists(path):
                os.unlink(path)
                found.append(f"{path} was made")
        return found

    def pool(self, level: str, landlock: int = 99) -> SandboxPool:
        """A sandbox in these surroundings, with that version of Landlock at most."""
        return SandboxPool(
            "inside.functions:handle",
            root=self.root,
            hide=[self.hidden],
            limits=LIMITS,
            slots=1,
            level=level,
            unsafe=level == "none",
            bare=True,
            landlock=landlock,
        )


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Surroundings that are removed in the end."""
    with ExitStack() as stack:
        yield Surroundings(stack)


async def healthy(warm: SandboxPool) -> dict[str, Any]:
    """What an evaluation finds in a sandbox where nothing happened before."""
    called = await call(NEXT, "after", pool=warm)
    assert called.status == "ok", called
    assert isinstance(called.value, dict)
    return called.value


async def attempt(
    program: Program, warm: SandboxPool, around: Surroundings, healthy: dict[str, Any]
) -> Outcome:
    """Run a program, see what it did, and run another evaluation after it.

    Args:
        program: What to run.
        warm: A pool with one slot, in these surroundings.
        around: The surroundings.
        healthy: What `healthy` found before.
    """
    limits = SHORT if "timed_out" in program.ends else LIMITS
    called = await call(program.source, program.name, [around.facts], pool=warm, limits=limits)
    wrong = _wrong(program, called)
    wrong += around.harm()
    wrong += _left(warm)
    after = await call(NEXT, "after", pool=warm)
    if after.status != "ok":
        wrong.append(f"the next evaluation: {after.status}: {after.error}")
    elif after.value != healthy:
        changed = [k for k in healthy if healthy[k] != after.value.get(k)]
        wrong.append(f"the next evaluation found other {', '.join(changed)}")
    return Outcome(contained=not wrong, why="; ".join(wrong), called=called)


def _wrong(program: Program, called: CallResult) -> list[str]:
    if called.status not in program.ends:
        return [f"it ended {called.status!r}: {called.error}"]
    if called.status == "ok" and called.value:
        return [f"it achieved {', '.join(map(str, called.value))[:200]}"]
    kind = re.match(r"\w+", called.error)
    if called.status == "raised" and (kind is None or kind.group() not in program.raises):
        return [f"it did not get to its attempt: {called.error}\n{called.output}"]
    return []


def _left(warm: SandboxPool) -> list[str]:
    """Processes of the sandbox that are left, beside those that wait for requests."""
    left = []
    for slot in warm._workers:
        if slot._started is not None:
            pids = process_table.processes(slot._started.process.pid)
            left += [f"process {pid} is left" for pid in pids[1:]]
    return left


async def measured(
    level: str, landlock: int = 99, programs: Iterable[Program] = PROGRAMS.values()
) -> dict[str, Outcome | None]:
    """What became of each program at a level; None for those that are not run without a sandbox.

    What has no sandbox gets new surroundings as soon as the old ones have suffered.
    """
    outcomes: dict[str, Outcome | None] = {}
    waiting = list(programs)
    while waiting:
        with surroundings() as around:
            async with around.pool(level, landlock) as warm:
                found = await healthy(warm)
                while waiting:
                    program = waiting.pop(0)
                    if level == "none" and program.never_loose:
                        outcomes[program.name] = None
                        continue
                    outcome = await attempt(program, warm, around, found)
                    outcomes[program.name] = outcome
                    if not outcome.contained:
                        break
    return outcomes
