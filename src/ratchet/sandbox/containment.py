"""Contain the user's own agent: it reads what it likes, and reaches outside only what is allowed.

Its files are copies when it writes to them, its network leads to the allowed hosts alone, and it
starts the allowed programs alone. What it tries beyond that is refused by the system, and named.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import marshal
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from ratchet.sandbox.acts import Act, ActReader, keeper_process
from ratchet.sandbox.egress import Led, lay_folders, led_by_variables
from ratchet.sandbox.inside import landlock, protocol
from ratchet.sandbox.limits import Level, SandboxFailed, SandboxUnavailable
from ratchet.sandbox.relay import DialedRelay, RelayAddress, TcpRelay, join
from ratchet.sandbox.view import FileView, landlock_rules
from ratchet.source.secret_files import HOME_NAMES

START_S = 20.0
SETTLE_S = 10.0
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - it gets copies of them
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - it is its own
_OWN_FOLDERS = ("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_TEMPORARY_VARIABLES = ("TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
_SHEBANG = re.compile(rb"#![ \t]*(\S+)(?:[ \t]+(\S+))?")
_BWRAP = (
    *("--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--cap-add", "ALL"),
    *("--dev-bind", "/", "/", "--proc", "/proc", "--die-with-parent"),
)


ContainedLevel = Literal["bubblewrap", "landlock", "variables"]
"""By namespaces and mounts of its own, by rules on its processes, or by variables alone."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may do outside of itself."""

    hosts: tuple[tuple[str, int], ...] = ()
    """Names or addresses with ports; `*.example.com` for all names below it. A path with port 0 is
    a unix socket."""
    programs: tuple[str, ...] = ()
    """Names on the PATH, or paths."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders and files that it really writes to."""


class AgentContainment:
    """The containment of one agent's processes.

    Args:
        allowed: What it may do outside of itself.
        root: The project's folder.
        python: Its interpreter, which it may start.
        writable: Folders that it really writes to besides, such as one for its outcomes.
        hidden: Further paths that it cannot read.
        level: `auto` for the strongest that this machine has.
        newest: The newest version of Landlock to use, to test the behaviour of older kernels.

    Raises:
        SandboxUnavailable: This machine has none.
    """

    def __init__(
        self,
        allowed: Allowance,
        *,
        root: Path,
        python: str = "",
        writable: Sequence[str | Path] = (),
        hidden: Sequence[str | Path] = (),
        level: Level | str = "auto",
        newest: int = 99,
    ) -> None:
        self.level = contained_level(level)
        self._allowed = allowed
        self._root = os.path.realpath(root)
        self._python = python or sys.executable
        self._folders = [os.path.realpath(path) for path in (*allowed.folders, *writable)]
        self._hidden = [os.path.realpath(path) for path in hidden]
        self._newest = newest

    def start(
        self,
        command: Sequence[str],
        *,
        hosts: Sequence[tuple[str, int]] = (),
        writable: Sequence[str | Path] = (),
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        **options: Any,
    ) -> Contained | Led:
        """Start a program; `Contained.opened` has to be awaited then.

        Args:
            command: Program and arguments.
            hosts: Further hosts that it may reach, such as the gateway.
            writable: Further folders that it really writes to.
            cwd: Its working folder.
            env: Its whole environment; that of this process when left out.
            pass_fds: Descriptors that it inherits.
            options: As of `subprocess.Popen`.

        Raises:
            OSError: Its keeper cannot be started.
        """
        given = os.environ if env is None else env
        # Its connections are relayed, and those of the relay go through the proxy.
        environ = {name: given[name] for name in given if name.lower() not in _PROXIES}
        place = os.path.realpath(os.getcwd() if cwd is None else cwd)
        base = os.path.realpath(tempfile.mkdtemp(prefix="ratchet-contained-"))
        if self.level == "variables":
            return self._led(command, base, environ, hosts, cwd=cwd, pass_fds=pass_fds, **options)
        programs = [command[0], self._python, *self._allowed.programs]
        files, executable = executables(programs, place, environ.get("PATH", os.defpath))
        mounts = self.level == "bubblewrap"
        folders = [*self._folders, *(os.path.realpath(path) for path in writable)]
        folders = [path for path in folders if os.path.exists(path)]
        copies = _copies(self._root, folders, environ) if mounts else []
        hidden = self._hides([*copies, base, place])
        acts = ActReader()
        config = {
            "mode": "contain",
            "level": self.level,
            "entered": False,
            "landlock": self._newest,
            "command": [os.fspath(word) for word in command],
            "cwd": place,
            "environment": environ if mounts else _without_mounts(environ, base),
            "log": acts.fileno(),
            "descriptors": list(pass_fds),
            "base": base,
            "home": os.path.expanduser("~"),
            "hosts": [*self._allowed.hosts, *hosts],
            "programs": files,
            "executable": executable,
            "copies": copies,
            "folders": folders,
            "hidden": hidden,
            "writable": [*copies, *folders, base, *([_SHARED_MEMORY] if mounts else [])],
            "rules": [] if mounts else _rules(base, folders, hidden),
            "relay": 0,
        }
        relay = None
        if not mounts:
            relay = socket.create_server(("127.0.0.1", 0))
            config["relay"] = relay.getsockname()[1]
        ours, theirs = socket.socketpair()
        before: Sequence[str] = ()
        if mounts and why_no_namespaces(False):
            before = (shutil.which("bwrap") or "bwrap", *_BWRAP, "--")
            config["entered"] = True
        try:
            process = keeper_process(
                config,
                [*pass_fds, acts.fileno(), theirs.fileno()],
                control=theirs.fileno(),
                before=before,
                cwd="/",
                **options,
            )
        except OSError:
            ours.close()
            shutil.rmtree(base, ignore_errors=True)
            raise
        finally:
            theirs.close()
        return Contained(process, ours, acts, base, relay)

    def _led(
        self,
        command: Sequence[str],
        base: str,
        environ: Mapping[str, str],
        hosts: Sequence[tuple[str, int]],
        **options: Any,
    ) -> Led:
        listener = socket.create_server(("127.0.0.1", 0))
        lay_folders(base)
        environ = led_by_variables(environ, base, listener.getsockname()[1])
        try:
            process = subprocess.Popen(command, env=environ, **options)
        except OSError:
            listener.close()
            shutil.rmtree(base, ignore_errors=True)
            raise
        return Led(process, base, listener, [*self._allowed.hosts, *hosts])

    def _hides(self, needed: Sequence[str]) -> list[str]:
        """The places of secrets that exist, without those that something needed lies in."""
        home = os.path.expanduser("~")
        named = [os.path.realpath(os.path.join(home, name)) for name in HOME_NAMES]
        prefixes = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(self._python)))
        needed = [*needed, self._root, *map(os.path.realpath, prefixes)]
        secret = [path for path in named if not _holds(path, [*needed, *self._folders])]
        other = [path for path in self._hidden if not _holds(path, needed)]
        return sorted(path for path in {*secret, *other} if os.path.exists(path))


class Contained:
    """A contained program.

    Args:
        process: Its keeper, which ends as the program does.
        control: Our end of the keeper's control socket.
        acts: What the program was denied.
        base: A folder to remove in the end.
        relay: Without a network of its own: where its connections come from.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        acts: ActReader,
        base: str,
        relay: socket.socket | None,
    ) -> None:
        self.process = process
        self.base = base
        """A folder of its own, whatever else is undone when a rollout is over."""
        self._control = control
        self._acts = acts
        self._listener = relay
        self.own_network = relay is None
        """Whether its network is its own, so that its ports are reached by `published` alone."""
        self._tcp = TcpRelay(proxied=True)
        self._dialed = DialedRelay()
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[str] | None = None
        self._settled: asyncio.Future[bool] | None = None
        self._reached: deque[asyncio.Future[socket.socket | None]] = deque()
        self._servers: list[asyncio.Server] = []

    async def opened(self) -> None:
        """Wait until the program starts, and relay its connections from then on.

        Raises:
            SandboxFailed: It cannot be contained.
        """
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._control.setblocking(False)
        if self._listener is not None:
            await self._dialed.open(self._listener)
        loop.add_reader(self._control.fileno(), self._read)
        try:
            async with asyncio.timeout(START_S):
                why = await self._ready
        except TimeoutError:
            why = f"it was not ready within {START_S:g} s"
        if why:
            await self.close()
            raise SandboxFailed(
                f"The agent cannot be contained on this machine: {why}.",
                hint="Set level under [sandbox] to another one, or unsafe = true to run without.",
            )

    def keep(self) -> None:
        """Let the processes that it has now stay when a rollout is over."""
        self._send(protocol.KEEP)

    async def settled(self) -> bool:
        """End what a rollout left, and undo what it changed in copies of files.

        Returns:
            Whether the program may go on: it left no process, and its keeper answers.
        """
        self._settled = asyncio.get_running_loop().create_future()
        self._send(protocol.SETTLE)
        try:
            async with asyncio.timeout(SETTLE_S):
                return await self._settled
        except TimeoutError:
            return False

    async def reached(self, port: int) -> socket.socket | None:
        """Connect to a port of the program's own network; None where nothing listens."""
        answer: asyncio.Future[socket.socket | None] = asyncio.get_running_loop().create_future()
        self._reached.append(answer)
        self._send(protocol.REACH, {"port": port})
        try:
            async with asyncio.timeout(SETTLE_S):
                return await answer
        except TimeoutError:
            return None

    async def published(self, port: int) -> int:
        """Lead a free port of this machine to a port of the program's own network; return it."""

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await self.reached(port)
            if there is None:
                writer.close()
                return
            back, forth = await asyncio.open_connection(sock=there)
            await join(reader, writer, back, forth)

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        self._servers.append(server)
        number: int = server.sockets[0].getsockname()[1]
        return number

    def denied(self) -> tuple[Act, ...]:
        """What it was denied since the last call."""
        return self._acts.taken()

    @property
    def failed(self) -> str:
        """Why the program was not started, once its process has ended; empty when it was."""
        self._acts.acts()
        return self._acts.failed

    async def close(self) -> None:
        """End the program and its relay."""
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGKILL)
        for server in self._servers:
            server.close()
        await self._tcp.close()
        await self._dialed.close()
        await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(shutil.rmtree, self.base, ignore_errors=True)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._acts.close()

    def _send(self, kind: int, content: dict[str, int] | None = None) -> None:
        body = b"" if content is None else marshal.dumps(content, protocol.MARSHAL)
        with contextlib.suppress(OSError):  # its end is noticed by reading
            self._control.send(protocol.HEADER.pack(kind, len(body)) + body)

    def _read(self) -> None:
        try:
            part, descriptors, _, _ = socket.recv_fds(self._control, 65_536, 16)
        except BlockingIOError:
            return
        except OSError:
            part, descriptors = b"", []
        self._descriptors += descriptors
        self._received += part
        if not part:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._answered("its keeper ended")
        size = protocol.HEADER.size
        while len(self._received) >= size:
            kind, length = protocol.HEADER.unpack_from(self._received)
            if len(self._received) < size + length:
                return
            body = bytes(self._received[size : size + length])
            del self._received[: size + length]
            self._obey(kind, body)

    def _answered(self, why: str) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(why)
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(False)
        while why and self._reached:
            if not (answer := self._reached.popleft()).done():
                answer.set_result(None)

    def _obey(self, kind: int, body: bytes) -> None:
        words = body.decode(errors="replace").split(" ")
        if kind == protocol.READY:
            self._answered("")
        elif kind == protocol.FAILED:
            self._answered(body.decode(errors="replace"))
        elif kind == protocol.SETTLED and self._settled is not None:
            if not self._settled.done():
                self._settled.set_result(body == b"\x01")
        elif kind == protocol.LISTENING:
            listener = socket.socket(fileno=self._descriptors.pop(0))
            address = RelayAddress("", words[0], int(words[1]))
            task = asyncio.create_task(self._tcp.open([listener], [address]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == protocol.REACHED:
            there = socket.socket(fileno=self._descriptors.pop(0)) if body == b"\x01" else None
            answer = self._reached.popleft()
            if not answer.done():
                answer.set_result(there)
            elif there is not None:
                there.close()
        elif kind == protocol.DIALED:
            self._dialed.tell(int(words[0]), RelayAddress("", words[1], int(words[2])))


def contained_level(level: Level | str) -> ContainedLevel:
    """The level at which an agent is contained.

    Args:
        level: The one asked for; `auto` for the strongest that this machine has. On macOS that is
            `variables`, which stops less.

    Raises:
        SandboxUnavailable: This machine has it not, or none.
    """
    hint = (
        "Install bubblewrap, or use a kernel with Landlock and seccomp (5.14 or newer). To run the"
        " agent uncontained, set unsafe = true under [sandbox]: its rollouts then act for real."
    )
    if level == "variables" or (level == "auto" and sys.platform == "darwin"):
        return "variables"
    reasons = ['level = "none" under [sandbox] is no containment'] if level == "none" else []
    for name, why_not in (("bubblewrap", why_no_mounts), ("landlock", why_no_supervision)):
        if level in ("auto", name):
            if not (why := why_not()):
                return "bubblewrap" if name == "bubblewrap" else "landlock"
            reasons.append(why)
    raise SandboxUnavailable(
        f"The agent's rollouts cannot be contained on this machine: {'; '.join(reasons)}.",
        hint=hint,
    )


def why_no_mounts() -> str:
    """Why an agent cannot have files, a network and processes of its own; empty when it can."""
    why = why_no_namespaces(False)
    return why_no_namespaces(True) and why if why else ""


@cache
def why_no_namespaces(bubblewrap: bool) -> str:
    """Why namespaces cannot be had, directly or through bubblewrap; empty when they can."""
    if sys.platform != "linux":
        return "it needs Linux"
    program = shutil.which("bwrap")
    if bubblewrap and program is None:
        return "bwrap is not installed"
    return _tried("bubblewrap", (program or "", *_BWRAP, "--") if bubblewrap else ())


@cache
def why_no_supervision() -> str:
    """Why an agent cannot be contained by Landlock and a supervisor; empty when it can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if landlock.version() < 1:
        return "the kernel has no Landlock, or it is switched off"
    return _tried("landlock", ())


def _tried(level: Level, before: Sequence[str]) -> str:
    """Why a program that does nothing cannot be contained; empty when it can."""
    holder = os.path.realpath(tempfile.mkdtemp(prefix="ratchet-contained-"))
    base, folder = os.path.join(holder, "base"), os.path.join(holder, "copied")
    for path in (base, folder):
        os.mkdir(path)
    acts = ActReader()
    config = {
        "mode": "contain",
        "level": level,
        "entered": bool(before),
        "landlock": 99,
        "command": ["true"],
        "cwd": "/",
        "environment": {"PATH": os.defpath},
        "log": acts.fileno(),
        "descriptors": [],
        "base": base,
        "home": base,
        "hosts": [],
        "programs": executables(["true"], "/", os.defpath)[0],
        "executable": executables(["true"], "/", os.defpath)[1],
        "copies": [folder],
        "folders": [],
        "hidden": [],
        "writable": [],
        "rules": [("/", landlock.READ)],
        "relay": 0,
    }
    ours, theirs = socket.socketpair()
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        process = keeper_process(
            config,
            [acts.fileno(), theirs.fileno()],
            control=theirs.fileno(),
            before=before,
            start_new_session=True,
            **quiet,
        )
        theirs.close()
        ours.settimeout(START_S)
        printed = process.communicate(timeout=START_S)[1].decode(errors="replace").strip()
        told = ours.recv(4096)[protocol.HEADER.size :].decode(errors="replace").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be tried ({error})"
    finally:
        ours.close()
        acts.acts()
        acts.close()
        shutil.rmtree(holder, ignore_errors=True)
    if process.returncode == 0:
        return ""
    return acts.failed or told or (printed.splitlines() or ["it ended at once"])[-1]


def executables(programs: Sequence[str], folder: str, path: str) -> tuple[list[str], list[str]]:
    """The files that may be executed for some programs to run.

    Args:
        programs: Names on the PATH, or paths relative to a folder.
        folder: That folder.
        path: The PATH.

    Returns:
        The programs, their interpreters and the folders of their helpers; and the same with the
        loaders of their libraries, which only the kernel may start.
    """
    files: set[str] = set()
    loaders: set[str] = set()
    waiting = list(programs)
    while waiting:
        named = os.path.expanduser(waiting.pop())
        if os.sep in named:
            places = [os.path.join(folder, named)]
        else:
            places = [os.path.join(part or ".", named) for part in path.split(os.pathsep)]
        for place in places:
            actual = os.path.realpath(place)
            if not os.path.isfile(actual) or not os.access(actual, os.X_OK) or actual in files:
                continue
            files.add(actual)
            interpreters, loader = _needs(actual)
            waiting += interpreters
            loaders |= loader
            # Programs that it starts itself, such as those in /usr/lib/git-core.
            prefix, name = os.path.dirname(os.path.dirname(actual)), os.path.basename(place)
            helpers = glob.glob(f"{glob.escape(prefix)}/lib*/{glob.escape(name)}-core")
            files.update(os.path.realpath(folder) for folder in helpers if os.path.isdir(folder))
    return sorted(files), sorted(files | loaders)


def _needs(file: str) -> tuple[list[str], set[str]]:
    """The interpreters of a script, or the loader of a program's libraries."""
    try:
        with open(file, "rb") as opened:
            head = opened.read(4096)
    except OSError:
        return [], set()
    if script := _SHEBANG.match(head):
        names = [os.fsdecode(word) for word in script.groups() if word]
        by_env = os.path.basename(names[0]) == "env" and len(names) > 1
        return (names if by_env else names[:1]), set()
    loader = re.search(rb"/[\w./+-]*ld[\w.-]*\.so\.\d+\0", head)
    return [], {os.path.realpath(os.fsdecode(loader.group()[:-1]))} if loader else set()


def _copies(root: str, folders: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The folders that are copied on write: the outermost, and those on another file system."""
    named = [root, os.path.expanduser("~"), *_TEMPORARY]
    named += [environ[name] for name in _OWN_FOLDERS if environ.get(name)]
    places = {os.path.realpath(path) for path in named if os.path.isdir(path)} - {"/", *folders}
    return sorted(
        (
            path
            for path in places
            if not any(
                _within(path, [outer]) and os.stat(path).st_dev == os.stat(outer).st_dev
                for outer in places - {path}
            )
        ),
        key=lambda path: path.count("/"),
    )


def _rules(base: str, folders: Sequence[str], hidden: Sequence[str]) -> list[tuple[str, str]]:
    """Landlock's rules where files cannot be copies: everything is read, few folders written."""
    view = FileView(read=("/",), write=tuple(folders), hide=tuple(hidden))
    return [*landlock_rules(view, base), ("/dev/tty", landlock.DEVICE)]


def _without_mounts(environ: Mapping[str, str], base: str) -> dict[str, str]:
    """The environment where files cannot be copies: folders of its own, and a name service."""
    temporary = dict.fromkeys(_TEMPORARY_VARIABLES, f"{base}/tmp")  # noqa: S108 - a folder of its own
    # The name service is reached by a connection, which can be led elsewhere.
    return {**environ, **temporary, "HOME": f"{base}/home", "RES_OPTIONS": "use-vc"}


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _holds(folder: str, paths: Sequence[str]) -> bool:
    return any(_within(path, [folder]) for path in paths)
