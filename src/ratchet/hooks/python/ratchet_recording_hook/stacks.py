"""Which functions of the repository a model call stands below, across threads and tasks."""

from __future__ import annotations

import contextvars
import dis
import gc
import itertools
import os
import sys
import threading
import types
from typing import Any, Sequence

from . import ends, values
from .journal import EventJournal, harmless, quiet

CARRIED: contextvars.ContextVar[Any] = contextvars.ContextVar("ratchet_recording", default=())
"""Frames of those who began this thread or task, outermost first; those of the process that began
this one by their names."""

_HIDDEN = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_INSTALLED = ("site-packages", "dist-packages", "node_modules")
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR, _OPTIMIZED = 0x20, 0x80, 0x200, 0x1
_ARGS, _KWARGS = 0x4, 0x8
_MOST_OBJECTS = 20_000


class Stacks:
    """The repository's frames of this process.

    Args:
        root: The repository's folder.
        journal: Where new frames are written.
    """

    def __init__(self, root: str, journal: EventJournal) -> None:
        self._root = os.path.realpath(root)
        self._journal = journal
        self._files: dict[str, str] = {}
        self._live: dict[int, str] = {}
        """Names of activations that have not ended, by the frame's id."""
        self._held: list[Any] = []
        """Frames whose end cannot be watched: held, so that no other gets their id."""
        self._functions: dict[Any, Any] = {}
        self._made: dict[int, tuple[type, dict[str, Any]]] = {}
        self._told: set[int] = set()
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._watch = ends.watcher(self._ended)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.names, after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.RLock()

    def file(self, name: str) -> str:
        """Path relative to the repository of a code object's file; empty for another's file."""
        relative = self._files.get(name)
        if relative is None:
            relative = self._files[name] = self._relative(name)
        return relative

    def _relative(self, name: str) -> str:
        if not name or name[0] == "<":
            return ""
        path = os.path.realpath(name)
        parts = path.split(os.sep)
        packages = next((part for part in _INSTALLED if part in parts), "")
        if packages:  # an installed copy of the repository's own package stands for it
            below = os.sep.join(parts[len(parts) - parts[::-1].index(packages) :])
            for folder in ("", "src"):
                if os.path.isfile(os.path.join(self._root, folder, below)):
                    return "/".join(filter(None, [folder, below.replace(os.sep, "/")]))
            return ""
        if not path.startswith(self._root + os.sep):
            return ""
        for prefix in {sys.prefix, sys.base_prefix}:
            prefix = os.path.realpath(prefix) + os.sep
            if path.startswith(prefix) and not self._root.startswith(prefix[:-1]):
                return ""
        return os.path.relpath(path, self._root).replace(os.sep, "/")

    def inside(self) -> bool:
        """Whether the repository's code is at work in this thread."""
        return bool(self.current())

    def caller(self, passing: tuple[str, ...]) -> str:
        """File of the repository that asks for something; empty where a library asks.

        Args:
            passing: Ends of the files that stand between.
        """
        frame: Any = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.endswith(passing) and os.path.dirname(name) != _HERE:
                return self.file(name)
            frame = frame.f_back
        return ""

    def current(self) -> tuple[Any, ...]:
        """Frames of the repository that stand below one another now, outermost first."""
        frame: Any = sys._getframe(1)
        own = []
        while frame is not None:
            code = frame.f_code
            if self.file(code.co_filename) and _counts(code):
                own.append(frame)
            frame = frame.f_back
        carried: tuple[Any, ...] = CARRIED.get()
        if not own:
            return carried
        own.reverse()
        if not carried:
            return tuple(own)
        carried_ids = set(map(id, carried))
        return carried + tuple(frame for frame in own if id(frame) not in carried_ids)

    @harmless(())
    def names(self) -> Sequence[str]:
        """Names of the activations of the current stack; writes those that are new."""
        with quiet(), self._lock:
            return list(dict.fromkeys(self._name(frame) for frame in self.current()))

    def _name(self, frame: Any) -> str:
        if isinstance(frame, str):  # of the process that began this one
            return frame
        name = self._live.get(id(frame))
        if name is None:
            name = f"{os.getpid()}:{next(self._numbers)}"
            self._live[id(frame)] = name
            self._journal.write("frame", name=name, **self._described(frame))
            if not self._watch(frame):
                self._held.append(frame)
        return name

    @harmless()
    def _ended(self, frame: Any, **how: Any) -> None:
        """Write what a recorded activation returned or raised."""
        with quiet(), self._lock:
            name = self._live.pop(id(frame), None)
            if name is None:
                return
            if "returned" in how:
                how["returned"] = values.copied(how["returned"])
            if "raised" in how:
                error = how["raised"]
                text = values.without_secrets(f"{type(error).__name__}: {error}")
                how["raised"] = text[:2000]
            self._journal.write("ended", name=name, **how)

    def _described(self, frame: Any) -> dict[str, Any]:
        code = frame.f_code
        local = frame.f_locals
        function = self._function(frame, local)
        kind = _kind(code)
        qualified = getattr(code, "co_qualname", None) or getattr(function, "__qualname__", "")
        arguments = [] if kind == "module" else _arguments(code, local, function)
        if code.co_argcount and code.co_varnames[:1] == ("self",):
            self._tell_constructor(local.get("self"))
        return {
            "file": self.file(code.co_filename),
            "module": str(frame.f_globals.get("__name__", "")),
            "line": code.co_firstlineno,
            "function": qualified or code.co_name,
            "type": kind,
            "arguments": arguments,
        }

    def _function(self, frame: Any, local: Any) -> Any:
        """The function object of a frame; None where it is not found."""
        code = frame.f_code
        if code not in self._functions:
            self._functions[code] = _find_function(code, frame.f_globals, local)
        return self._functions[code]

    def made(self, new: Any, kind: type, arguments: dict[str, Any]) -> None:
        """Remember how an object of the repository was constructed."""
        if len(self._made) < _MOST_OBJECTS:
            self._made[id(new)] = (kind, arguments)
            self._told.discard(id(new))

    def _tell_constructor(self, owner: Any) -> None:
        kind, described = self._made.get(id(owner), (None, None))
        if kind is not None and isinstance(owner, kind) and id(owner) not in self._told:
            self._told.add(id(owner))
            self._journal.write("constructor", **(described or {}))


_HERE = os.path.dirname(os.path.abspath(__file__))


def _counts(code: Any) -> bool:
    """Whether a code object is a function or a module, not a comprehension or a class's body."""
    name = code.co_name
    return name not in _HIDDEN and (bool(code.co_flags & _OPTIMIZED) or name == "<module>")


def _kind(code: Any) -> str:
    flags = code.co_flags
    if flags & _ASYNC_GENERATOR:
        return "async_generator"
    if flags & _COROUTINE:
        return "coroutine"
    if flags & _GENERATOR:
        return "generator"
    return "module" if code.co_name == "<module>" else "function"


def _arguments(code: Any, local: Any, function: Any) -> list[dict[str, Any]]:
    count = code.co_argcount + code.co_kwonlyargcount
    names = [(name, name) for name in code.co_varnames[:count]]
    for flag, stars in ((_ARGS, "*"), (_KWARGS, "**")):
        if code.co_flags & flag:
            names.append((code.co_varnames[len(names)], stars))
    defaults = _defaults(code, function)
    stored = _stored(code)
    arguments = []
    for name, label in names:
        label = label if label == name else label + name
        if name not in local:
            continue
        value = local[name]
        arguments.append(
            {
                "name": label,
                **values.copied(value, name),
                "is_default": name in defaults and defaults[name] is value,
                "rebound": name in stored,
            }
        )
    return arguments


def _defaults(code: Any, function: Any) -> dict[str, Any]:
    if function is None:
        return {}
    positional_defaults = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(
        zip(positional[len(positional) - len(positional_defaults) :], positional_defaults)
    )
    defaults.update(function.__kwdefaults__ or {})
    return defaults


def _stored(code: Any) -> set[str]:
    """Names of local variables that a function assigns to."""
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "STORE_DEREF")):
            value = instruction.argval
            stored = value if isinstance(value, tuple) else (value,)
            names.update(stored[:1] if "LOAD" in instruction.opname else stored)
    return names


@harmless()
def _find_function(code: Any, module: Any, local: Any) -> Any:
    candidates = [module.get(code.co_name)]
    if code.co_argcount:
        first = local.get(code.co_varnames[0])
        for kind in (type(first), first):
            for owner in getattr(kind, "__mro__", ()):
                member = owner.__dict__.get(code.co_name)
                candidates.append(getattr(member, "__func__", member))
    for candidate in candidates:
        for _ in range(20):  # decorators that say what they wrap
            if getattr(candidate, "__code__", None) is code:
                return candidate
            candidate = getattr(candidate, "__wrapped__", None)
    for referrer in gc.get_referrers(code):
        if isinstance(referrer, types.FunctionType) and referrer.__code__ is code:
            return referrer
    return None
