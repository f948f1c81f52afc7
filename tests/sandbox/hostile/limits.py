"""Programs that take more time, memory or output than they may."""

from __future__ import annotations

from typing import Any

from tests.sandbox.hostile.program import hostile


@hostile("loops for ever", ends=("timed_out",))
def loop(facts: dict[str, Any]) -> list[str]:
    while True:
        pass


@hostile("sleeps for ever", ends=("timed_out",))
def sleep(facts: dict[str, Any]) -> list[str]:
    import time

    time.sleep(1e6)
    return ["woke"]


@hostile("ignores every signal and blocks them", ends=("timed_out",))
def deaf(facts: dict[str, Any]) -> list[str]:
    import signal
    import time

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(1)


@hostile("raises the alarm that should end it, and swallows every exception", ends=("timed_out",))
def swallowing(facts: dict[str, Any]) -> list[str]:
    import signal

    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


@hostile("holds the interpreter in one endless step (backtracking)", ends=("timed_out",))
def backtracking(facts: dict[str, Any]) -> list[str]:
    import re

    re.fullmatch(r"(a+)+b", "a" * 60)
    return ["matched"]


@hostile("computes a number with billions of digits", ends=("timed_out", "memory"))
def large_number(facts: dict[str, Any]) -> list[str]:
    return [str((7**7**9) % 3)]


@hostile("turns the clock back to get more time", ends=("timed_out",))
def clock(facts: dict[str, Any]) -> list[str]:
    import datetime
    import time

    real = time.sleep
    time.time = time.monotonic = time.perf_counter = lambda: 0.0
    time.sleep = lambda seconds: None
    datetime.datetime = None
    real(1e6)
    return ["woke"]


@hostile("prints without end", ends=("flooded",))
def endless_output(facts: dict[str, Any]) -> list[str]:
    while True:
        print("x" * 10_000)


@hostile("writes to standard error without end, past Python", ends=("flooded",))
def endless_errors(facts: dict[str, Any]) -> list[str]:
    import os

    while True:
        os.write(2, b"x" * 65_536)


@hostile("returns more than anybody wants", ends=("flooded",))
def giant_result(facts: dict[str, Any]) -> list[str]:
    return ["x" * 20_000_000]


@hostile("takes memory in lists", ends=("memory",))
def memory(facts: dict[str, Any]) -> list[str]:
    held = []
    while True:
        held.append(bytearray(5_000_000))


@hostile("takes memory in one piece", ends=("memory",))
def memory_at_once(facts: dict[str, Any]) -> list[str]:
    return [str(len(bytearray(40_000_000_000)))]


@hostile("maps memory that is shared, past Python's own", ends=("raised", "memory", "timed_out"))
def mapped_memory(facts: dict[str, Any]) -> list[str]:
    import mmap

    held = []
    for _ in range(100):
        page = mmap.mmap(-1, 100_000_000)
        for at in range(0, len(page), 4096):
            page[at] = 1
        held.append(page)
    return ["mapped ten gigabytes"]


@hostile("takes memory in many processes, each within its limit", ends=("memory", "flooded"))
def memory_in_processes(facts: dict[str, Any]) -> list[str]:
    import os
    import time

    for _ in range(6):
        if os.fork() == 0:
            held = bytearray(70_000_000)
            for at in range(0, len(held), 4096):
                held[at] = 1
            time.sleep(60)
    time.sleep(60)
    return ["took it"]


@hostile("swallows the error that it has no memory, and goes on", ends=("memory", "timed_out"))
def memory_again(facts: dict[str, Any]) -> list[str]:
    held = []
    while True:
        try:
            while True:
                held.append(bytearray(1_000_000))
        except MemoryError:
            continue


@hostile("calls itself without end", ends=("raised",), raises=("RecursionError",))
def recursion(facts: dict[str, Any]) -> list[str]:
    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    return [str(deeper(0))]


@hostile(
    "raises the limit on calls and runs over its stack",
    ends=("crashed", "memory", "raised"),
    raises=("RecursionError", "AttributeError"),
)
def stack(facts: dict[str, Any]) -> list[str]:
    import sys

    sys.setrecursionlimit(10**9)

    class Deeper:
        def __getattr__(self, name: str) -> Any:
            return getattr(self, name + "x")

        def __repr__(self) -> str:
            return repr([self])

    return [repr(Deeper())]


@hostile("sends a result that is nested deeper than anything can read", ends=("crashed",))
def deep_result(facts: dict[str, Any]) -> list[str]:
    import json

    deep = "[" * 200_000 + "]" * 200_000
    json.dumps = lambda *_, **__: deep
    return []
