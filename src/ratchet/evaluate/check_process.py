"""Runs checks that an output could make endless, in a worker process with a time limit.

A regular expression can backtrack for practically unlimited time, and Python holds the global
interpreter lock while it matches: neither a thread nor a timeout can stop it. So matching runs in a
worker process that an alarm signal terminates, even if the parent process has died. Workers are
reused.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

MATCH_S = 5.0
"""Time limit of one check, in seconds."""


def match_within_limit(pattern: str, text: str, *, full: bool) -> str | None:
    """The first part of the text that a regular expression matches, or None.

    Args:
        pattern: The expression.
        text: The text to match.
        full: The whole text must match.

    Raises:
        ValueError: The expression is malformed.
        TimeoutError: Matching took longer than MATCH_S.
    """
    matched: str | None = _request({"pattern": pattern, "text": text, "full": full})
    return matched


def schema_error_within_limit(schema: dict[str, Any], value: Any) -> str | None:
    """Where and how a value violates a JSON schema; None if it is valid.

    Raises:
        ValueError: The schema cannot be applied.
        TimeoutError: Checking took longer than MATCH_S.
    """
    problem: str | None = _request({"schema": schema, "value": value})
    return problem


def same_mathematics_within_limit(expected: str, output: str) -> str | None:
    """None if two texts are mathematically equal; otherwise the problem, or "expected" if the
    expected text cannot be read.

    Raises:
        ValueError: Math-Verify failed on them.
        TimeoutError: The comparison took longer than MATCH_S.
    """
    problem: str | None = _request({"mathematics": expected, "given": output})
    return problem


def schema_error(schema: dict[str, Any], value: Any) -> str | None:
    """Like `schema_error_within_limit`, but in this process."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    worst = best_match(validator_for(schema)(schema).iter_errors(value))
    return f"at {worst.json_path}: {worst.message}"[:500] if worst is not None else None


_idle: list[tuple[int, subprocess.Popen[bytes]]] = []
"""Idle workers, with the process id that started each."""


def _request(request: dict[str, Any]) -> Any:
    worker = _worker()
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps({**request, "seconds": MATCH_S}).encode() + b"\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
    except OSError:
        answer = b""
    if not answer:
        with contextlib.suppress(OSError):
            worker.stdin.close()
        worker.stdout.close()
        if worker.wait() == -signal.SIGALRM:
            raise TimeoutError(f"The check did not finish within {MATCH_S:g} s.")
        raise ChildProcessError(f"The checking process ended with exit code {worker.returncode}.")
    _idle.append((os.getpid(), worker))
    reply = json.loads(answer)
    if "error" in reply:
        raise ValueError(reply["error"])
    return reply["found"]


def _worker() -> subprocess.Popen[bytes]:
    while _idle:
        owner, worker = _idle.pop()
        if owner == os.getpid() and worker.poll() is None:
            return worker
    # -P: no module in this file's folder or the agent's may shadow a standard one.
    return subprocess.Popen(
        [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@atexit.register
def _kill_idle_workers() -> None:
    for owner, worker in _idle:
        if owner == os.getpid():
            worker.kill()
            worker.wait()


def _serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and the worker with it
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "mathematics" in request:
            import math_verify  # noqa: F401 - its import is not part of the time
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        try:
            answer = {"found": _answer(request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answer(request: dict[str, Any]) -> str | None:
    if "schema" in request:
        return schema_error(request["schema"], request["value"])
    if "mathematics" in request:
        return _mathematical_difference(request["mathematics"], request["given"])
    compiled = re.compile(request["pattern"])
    match = (compiled.fullmatch if request["full"] else compiled.search)(request["text"])
    return match.group(0)[:200] if match else None


def _mathematical_difference(expected: str, output: str) -> str | None:
    from math_verify import parse, verify

    # Its own time limits use the alarm that bounds this process.
    wanted, answer = (parse(text, parsing_timeout=None) for text in (expected, output))
    if not wanted:
        return "expected"
    if not answer:
        return "the output holds no answer that Math-Verify can parse"
    if verify(wanted, answer, timeout_seconds=None):
        return None
    return f"{answer[-1]}, expected {wanted[-1]}"[:500]


if __name__ == "__main__":
    _serve()
