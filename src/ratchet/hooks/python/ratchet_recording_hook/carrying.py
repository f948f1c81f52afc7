"""Threads, pools, tasks and copied contexts begin with the stack of those who begin them."""

from __future__ import annotations

import builtins
import contextvars
import functools
import sys
import threading
from typing import Any

from . import ends
from .patches import after_import
from .stacks import CARRIED, Stacks


def carry(stacks: Stacks) -> None:
    """Patch what begins work elsewhere."""
    _carry_threads(stacks)
    _carry_contexts(stacks)

    @after_import("concurrent.futures.thread")
    def pools(module: Any) -> None:
        submit = module.ThreadPoolExecutor.submit

        @functools.wraps(submit)
        def carried_submit(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            frames = stacks.current()
            if frames and threading.current_thread() is not threading.main_thread():
                ends.trace_this_thread()
            return submit(self, _within(frames, function), *args, **kwargs)

        module.ThreadPoolExecutor.submit = carried_submit

    @after_import("asyncio.base_events")
    def loops(module: Any) -> None:
        _carry_tasks(stacks, module.BaseEventLoop)

    @after_import("uvloop")
    def uvloops(module: Any) -> None:
        _carry_tasks(stacks, module.Loop)

    @after_import("gevent")
    def greenlets(module: Any) -> None:
        spawn = module.spawn

        @functools.wraps(spawn)
        def carried_spawn(function: Any, *args: Any, **kwargs: Any) -> Any:
            return spawn(_within(stacks.current(), function), *args, **kwargs)

        module.spawn = carried_spawn

    @after_import("multiprocessing.process")
    def processes(module: Any) -> None:
        start, begin = module.BaseProcess.start, module.BaseProcess._bootstrap

        @functools.wraps(start)
        def carried_start(self: Any) -> None:
            self._ratchet_stack = tuple(stacks.names())
            start(self)

        @functools.wraps(begin)
        def carried_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            CARRIED.set(self.__dict__.get("_ratchet_stack", ()))
            return begin(self, *args, **kwargs)

        module.BaseProcess.start = carried_start
        module.BaseProcess._bootstrap = carried_begin


def _within(frames: Any, function: Any) -> Any:
    @functools.wraps(function, updated=())
    def carried(*args: Any, **kwargs: Any) -> Any:
        before = CARRIED.set(frames)
        try:
            return function(*args, **kwargs)
        finally:
            CARRIED.reset(before)

    return carried


def _carry_threads(stacks: Stacks) -> None:
    start = threading.Thread.start

    @functools.wraps(start)
    def carried_start(self: Any) -> None:
        frames, run = stacks.current(), self.run

        def carried_run() -> None:
            self.__dict__.pop("run", None)
            CARRIED.set(frames)
            run()

        if frames:
            self.run = carried_run
        start(self)

    threading.Thread.start = carried_start  # type: ignore[method-assign]


def _carry_contexts(stacks: Stacks) -> None:
    copy_context = contextvars.copy_context

    @functools.wraps(copy_context)
    def carried_copy() -> Any:
        context = copy_context()
        frames = stacks.current()
        if frames:
            context.run(CARRIED.set, frames)
        return context

    contextvars.copy_context = carried_copy


def _carry_tasks(stacks: Stacks, loop: Any) -> None:
    create_task = loop.create_task

    @functools.wraps(create_task)
    def carried_create(self: Any, coroutine: Any, **kwargs: Any) -> Any:
        frames = stacks.current()
        context = kwargs.get("context")
        if context is not None:
            context.run(CARRIED.set, frames)
            return create_task(self, coroutine, **kwargs)
        before = CARRIED.set(frames)
        try:
            return create_task(self, coroutine, **kwargs)
        finally:
            CARRIED.reset(before)

    loop.create_task = carried_create


class _Builtins(dict):  # type: ignore[type-arg]
    """The builtins of the repository's modules; what is added to the real ones later counts too."""

    def __missing__(self, name: str) -> Any:
        return builtins.__dict__[name]


def constructors(stacks: Stacks, describe: Any) -> Any:
    """A function that lets a module's classes remember how their objects are constructed.

    Only the repository's modules are prepared: libraries may look at the frames above a class.
    """
    build = builtins.__build_class__

    def building(body: Any, name: str, *bases: Any, **kwargs: Any) -> Any:
        new = build(body, name, *bases, **kwargs)
        if isinstance(new, type) and stacks.file(body.__code__.co_filename):
            own = new.__dict__.get("__init__")
            if callable(own) and getattr(own, "__code__", None) is not None:
                _watch_constructor(stacks, new, own, describe)
        return new

    def prepare(module: Any) -> None:
        own = _Builtins(builtins.__dict__)
        own["__build_class__"] = building
        module.__dict__["__builtins__"] = own

    return prepare


def _watch_constructor(stacks: Stacks, kind: Any, own: Any, describe: Any) -> None:
    @functools.wraps(own)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands for it
        if type(self) is kind:
            stacks.made(self, kind, describe(own, self, args, kwargs))
        own(self, *args, **kwargs)

    try:
        kind.__init__ = __init__
    except (AttributeError, TypeError):
        sys.exc_info()  # a metaclass forbids it: then the constructor is not known
