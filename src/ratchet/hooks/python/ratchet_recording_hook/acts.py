"""What the process does besides: files, hosts, programs, variables, imports that failed."""

from __future__ import annotations

import functools
import os
import socket
import sys
from typing import Any, Callable

from .journal import EventJournal, harmless, is_quiet, quiet
from .stacks import Stacks

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SOURCE = (".py", ".pyc", ".pyi", ".so", ".pth", ".pyd", ".dist-info", ".egg-info")
_STANDARD = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")


class Acts:
    """Writes what the process does.

    Args:
        stacks: The repository's frames.
        journal: Where it is written.
        hidden: Folder of the recording itself.
    """

    def __init__(self, stacks: Stacks, journal: EventJournal, hidden: str) -> None:
        self._stacks = stacks
        self._journal = journal
        self._hidden = os.path.realpath(hidden)
        self._home = os.path.join(os.path.realpath(os.path.expanduser("~")), ".")
        self._names: dict[str, str] = {}
        self._handlers: dict[str, Callable[..., None]] = {
            "open": self._open,
            "os.remove": self._delete,
            "os.rmdir": self._delete,
            "shutil.rmtree": self._delete,
            "os.rename": self._rename,
            "os.truncate": self._change,
            "sqlite3.connect": self._change,
            "socket.connect": self._connect,
            "subprocess.Popen": self._start,
            "os.exec": self._start,
            "os.posix_spawn": self._start,
            "os.spawn": self._spawn,
            "os.system": self._shell,
        }

    def watch(self) -> None:
        """Begin."""
        sys.addaudithook(self._audited)
        self._watch_variables()
        self._watch_names()
        self._watch_crash()

    def _audited(self, event: str, args: Any) -> None:
        handler = self._handlers.get(event)
        if handler is None or is_quiet():
            return
        with quiet():
            try:
                handler(*args)
            except Exception:  # noqa: S110 - an act that cannot be described is not the program's
                pass

    def _path(self, path: Any) -> str:
        if isinstance(path, int) or path is None:
            return ""
        text = os.fsdecode(path)
        if text.startswith("file:"):
            text = text[5:].partition("?")[0]
        real_path = os.path.realpath(text)
        if real_path.startswith((self._hidden, "/dev/", "/proc/", "/sys/")) or text == ":memory:":
            return ""
        return real_path

    def _open(self, path: Any, mode: Any, flags: Any) -> None:
        writes = any(sign in mode for sign in "wax+") if mode else bool((flags or 0) & _WRITING)
        if writes:
            self._change(path)
            return
        real_path = self._path(path)
        # Hidden folders of the home, such as that of its settings, are not what a rollout sees.
        of_interest = self._stacks.file(real_path) or real_path.startswith(self._home)
        if real_path.endswith(_SOURCE) or not of_interest or os.path.isdir(real_path):
            return
        if self._stacks.inside() and os.path.isfile(real_path):
            self._journal.once("read", path=real_path)

    def _change(self, path: Any, *_: Any) -> None:
        real_path = self._path(path)
        if real_path and "__pycache__" not in real_path:
            how = "changed" if os.path.exists(real_path) else "created"
            self._journal.once("write", path=real_path, how=how)

    def _delete(self, path: Any, *_: Any) -> None:
        real_path = self._path(path)
        if real_path and "__pycache__" not in real_path:
            self._journal.write("write", path=real_path, how="deleted")

    def _rename(self, source: Any, target: Any, *_: Any) -> None:
        self._change(target)
        self._delete(source)

    def _connect(self, _socket: Any, address: Any) -> None:
        if isinstance(address, tuple) and len(address) >= 2 and address[1]:
            host = str(address[0])
            host = self._names.get(host, host)
            self._journal.write("connect", host=host, port=address[1])
        elif isinstance(address, (str, bytes)):
            self._journal.once("connect", host="unix:" + os.fsdecode(address), port=0)

    def _start(self, program: Any, args: Any = (), *_: Any) -> None:
        first = program or (args if isinstance(args, (str, bytes)) else args[0])
        self._journal.write("program", path=os.fsdecode(first))

    def _spawn(self, _mode: Any, path: Any, *_: Any) -> None:
        self._start(path)

    def _shell(self, command: Any) -> None:
        self._journal.write("program", path=os.fsdecode(command).split()[0])

    def _watch_variables(self) -> None:
        kind = type(os.environ)
        read = kind.__getitem__

        @functools.wraps(read)
        def watched_read(environ: Any, name: str) -> str:
            try:
                value = read(environ, name)
            except KeyError:
                self._asked(name, False)
                raise
            self._asked(name, True)
            return value

        kind.__getitem__ = watched_read  # type: ignore[method-assign]

    @harmless()
    def _asked(self, name: str, present: bool) -> None:
        if is_quiet() or not self._stacks.inside():
            return
        with quiet():
            file = self._stacks.caller(_STANDARD)
            # One that only a library asks for is of interest where it lacks.
            if file or not present:
                self._journal.once("variable", name=str(name), present=present, file=file)

    def _watch_names(self) -> None:
        resolve = socket.getaddrinfo

        @functools.wraps(resolve)
        def watched_resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                answers = resolve(host, *args, **kwargs)
            except socket.gaierror:
                port = args[0] if args else kwargs.get("port")
                if host and isinstance(port, int) and not is_quiet():
                    self._journal.write("connect", host=str(host), port=port)
                raise
            if host:
                for answer in answers:
                    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
                    self._names.setdefault(str(answer[4][0]), str(text))
            return answers

        socket.getaddrinfo = watched_resolve

    def _watch_crash(self) -> None:
        show = sys.excepthook

        def watched_show(kind: Any, error: Any, trace: Any) -> None:
            with quiet():
                chain: Any = error
                errors: list[dict[str, str]] = []
                while chain is not None and len(errors) < 10:
                    errors.append(
                        {
                            "type": type(chain).__name__,
                            "text": str(chain)[:500],
                            "name": str(getattr(chain, "name", None) or ""),
                            "file": str(getattr(chain, "filename", None) or ""),
                        }
                    )
                    chain = chain.__cause__ or chain.__context__
                self._journal.write("crash", errors=errors)
            show(kind, error, trace)

        sys.excepthook = watched_show
