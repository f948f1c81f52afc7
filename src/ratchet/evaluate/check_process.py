"""Checks that an output can make endless, in a process of their own.

A regular expression can backtrack for longer than the universe is old, and Python holds its global
lock while it matches: neither a thread nor a time-out stops it. So matching happens in a worker
that an alarm ends, even when the process that asked has died. A worker serves many requests.
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
"""Seconds that one check may take."""


def match_within_limit(pattern: str, text: str, *, full: bool) -> str | None:
    """The first part of the text that a regular expression matches, or None.

    Args:
        pattern: The expression.
        text: What it is to match.
        full: The whole text must match.

    Raises:
        ValueError: The expression is malformed.
        TimeoutError: Matching took longer than MATCH_S.
    """
    found: str | None = _request({"pattern": pattern, "text": text, "full": full})
    return found


def schema_error_within_limit(schema: dict[str, Any], value: Any) -> str | None:
    """Where and how a value does not fit a JSON schema, or None when it does.

    Raises:
        ValueError: The schema cannot be applied.
        TimeoutError: Checking took longer than MATCH_S.
    """
    found: str | None = _request({"schema": schema, "value": value})
    return found


def schema_error(schema: dict[str, Any], value: Any) -> str | None:
    """The same as `schema_error_within_limit`, in this process."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    worst = best_match(validator_for(schema)(schema).iter_errors(value))
    return f"at {worst.json_path}: {worst.message}"[:500] if worst is not None else None


_idle: list[tuple[int, subprocess.Popen[bytes]]] = []
"""Workers that wait for a request, with the process that started them."""


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
            raise TimeoutError(f"The check did not end within {MATCH_S:g} s.")
        raise ChildProcessError(f"The process that checks ended with {worker.returncode}.")
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
    # -P: nothing of the folder that this file or the agent lies in shadows a module.
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the asking process, and this by that
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for line in sys.stdin.buffer:
        request = json.loads(line)
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
    compiled = re.compile(request["pattern"])
    found = (compiled.fullmatch if request["full"] else compiled.search)(request["text"])
    return found.group(0)[:200] if found else None


if __name__ == "__main__":
    _serve()
