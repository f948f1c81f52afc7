"""Tells when a recorded activation ends, with what it returned or raised."""

from __future__ import annotations

import gc
import opcode
import sys
from typing import Any, Callable

_RETURNS = {code for name, code in opcode.opmap.items() if name.startswith("RETURN_")}
_GENERATOR, _ASYNC_GENERATOR = 0x20, 0x200
_GENERATORS = _GENERATOR | _ASYNC_GENERATOR
_MOST_ITEMS = 200

Ended = Callable[..., None]


def watcher(ended: Ended) -> Callable[[Any], bool]:
    """A function that watches a frame until its end; False where it cannot be watched."""
    if sys.version_info >= (3, 12):
        return _Monitored(ended).watch
    return _Traced(ended).watch


class _Monitored:
    """By `sys.monitoring`: costs nothing in functions that are not watched."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._frames: dict[int, list[Any]] = {}
        """Items that were yielded, by the id of a watched frame."""
        self._tool: int | None = None

    def _begin(self) -> bool:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for number in (4, 3, 5):
            if monitoring.get_tool(number) is None:
                monitoring.use_tool_id(number, "ratchet recording")
                self._tool = number
                events = monitoring.events
                monitoring.register_callback(number, events.PY_RETURN, self._returned)
                monitoring.register_callback(number, events.PY_YIELD, self._yielded)
                monitoring.register_callback(number, events.PY_UNWIND, self._unwound)
                monitoring.set_events(number, events.PY_UNWIND)
                return True
        return False

    def watch(self, frame: Any) -> bool:
        if self._tool is None and not self._begin():
            return False
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._frames[id(frame)] = []
        wanted = monitoring.events.PY_RETURN
        if frame.f_code.co_flags & _GENERATORS:
            wanted |= monitoring.events.PY_YIELD
        monitoring.set_local_events(self._tool, frame.f_code, wanted)
        return True

    def _returned(self, _code: Any, _offset: int, value: Any) -> None:
        frame = sys._getframe(1)
        items = self._frames.pop(id(frame), None)
        if items is not None:
            generator = frame.f_code.co_flags & _GENERATORS
            self._ended(frame, returned=items if generator else value)

    def _yielded(self, _code: Any, _offset: int, value: Any) -> None:
        frame = sys._getframe(1)
        items = self._frames.get(id(frame))
        if items is not None:
            _add_item(items, frame, value)

    def _unwound(self, _code: Any, _offset: int, error: BaseException) -> None:
        frame = sys._getframe(1)
        items = self._frames.pop(id(frame), None)
        if items is not None:
            self._ended(frame, **_outcome(error, items))


class _Traced:
    """By a trace function on the watched frames alone."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._pending: Any = None

    def watch(self, frame: Any) -> bool:
        current: Any = sys._getframe(1)
        while current is not None and current is not frame:
            current = current.f_back
        if sys.gettrace() not in (None, getattr):
            return False  # a debugger's
        items: list[Any] = []
        errors: list[Any] = [None, -1]

        def trace(traced: Any, event: str, value: Any) -> Any:
            if event == "exception":
                errors[:] = [value[1], traced.f_lasti]
            elif event == "return":
                self._left(traced, value, items, errors)
            return trace

        frame.f_trace_lines = False
        frame.f_trace = trace
        if current is not None:
            trace_this_thread()
        else:
            self._trace_main_thread()
        return current is not None

    def _trace_main_thread(self) -> None:
        """Let the main thread trace, whose frames may wait for this one."""
        try:
            import ctypes

            if self._pending is None:
                kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
                self._pending = kind(trace_this_thread)
                ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
        except (ImportError, AttributeError, OSError):
            return  # then it is not known what they return

    def _left(self, frame: Any, value: Any, items: list[Any], errors: list[Any]) -> None:
        generator = frame.f_code.co_flags & _GENERATORS
        if frame.f_code.co_code[frame.f_lasti] in _RETURNS:
            self._ended(frame, returned=items if generator else value)
        elif errors[0] is not None and errors[1] == frame.f_lasti:
            self._ended(frame, **_outcome(errors[0], items))
        elif generator:
            _add_item(items, frame, value)


def trace_this_thread(_: Any = None) -> int:
    """Let trace functions of frames be called in this thread, before Python 3.12.

    Frames that wait for another thread can only be watched when their own one traces.
    """
    # For each new function `getattr(frame, "call", None)` says None: it is not traced. Being
    # written in C, it costs less than any function of ours.
    if sys.version_info < (3, 12) and sys.gettrace() is None:
        sys.settrace(getattr)
    return 0


def _outcome(error: BaseException, items: list[Any]) -> dict[str, Any]:
    """How a frame was left by an exception: a generator that nobody asks for more has ended."""
    return {"returned": items} if isinstance(error, GeneratorExit) else {"raised": error}


def _add_item(items: list[Any], frame: Any, value: Any) -> None:
    if frame.f_code.co_flags & _ASYNC_GENERATOR:
        # It yields items in a wrapper, and between them whatever it waits for.
        if type(value).__name__ != "async_generator_wrapped_value":
            return
        value = gc.get_referents(value)[0]
    if len(items) < _MOST_ITEMS:
        items.append(value)
