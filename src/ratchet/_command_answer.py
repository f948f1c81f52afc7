"""What a command tells the program that started it, apart from all that is printed.

The agent's code runs in a command's own process, and may print anything on standard output and
standard error, also after the command's end. So the answer, the error and the progress of the
command take a descriptor of their own, as lines of JSON.
"""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any

from ratchet.types import AgentError

VARIABLE = "RATCHET_TELL"
"""Variable of a command's environment with the number of the descriptor."""

INTERRUPTED = 130
"""Exit code of a command that was stopped from outside."""

MAX_LINES = 40
"""Newest lines of progress that a reader keeps."""

MAX_CHARACTERS = 2_000
"""Of a line of progress."""


class Teller:
    """The command's end.

    Args:
        descriptor: Where to; processes that the command starts do not inherit it.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._line = ""

    def answer(self, data: Any) -> None:
        """Give the result: JSON as it is printed elsewhere."""
        self._send({"answer": data})

    def error(self, message: str, hint: str | None, code: int) -> None:
        """Tell what went wrong, what to do about it, and the exit code."""
        self._send({"error": {"message": message, "hint": hint or "", "code": code}})

    def write(self, text: str) -> int:
        """Take text of progress; each whole line is told."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line.strip():
                self._send({"progress": line.strip()[:MAX_CHARACTERS]})
        return len(text)

    def flush(self) -> None:
        """Do nothing: whole lines are told at once."""

    def _send(self, body: dict[str, Any]) -> None:
        data = (json.dumps(body, ensure_ascii=False) + "\n").encode(errors="replace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # nobody listens any more, which is no fault of the command


def teller_of_environment() -> Teller | None:
    """The teller that the starting program asked for; None if it did not.

    The variable is removed, so that neither the agent's code nor what it starts sees it.
    """
    number = os.environ.pop(VARIABLE, "")
    try:
        return Teller(int(number)) if number else None
    except (ValueError, OSError):
        return None  # no descriptor of this process


class CommandAnswer:
    """The other end: what was told so far."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=MAX_LINES)
        """Newest lines of progress, oldest first."""
        self.count = 0
        """Lines of progress so far."""
        self.answer: Any = None
        self.answered = False
        self.error: dict[str, Any] | None = None
        self.started: dict[str, Any] | None = None
        """The process that was started, as its starter noted it."""
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was read; a line may come in pieces."""
        head, *tail = data.split(b"\n")
        self._rest += head
        for piece in tail:
            line, self._rest = self._rest, bytearray(piece)
            try:
                body = json.loads(line, parse_constant=lambda _: None)  # NaN is no JSON
            except ValueError:
                continue
            if not isinstance(body, dict):
                continue
            if "progress" in body:
                self.lines.append(str(body["progress"]))
                self.count += 1
            if "answer" in body:
                self.answer, self.answered = body["answer"], True
            if isinstance(body.get("started"), dict):
                self.started = body["started"]
            if isinstance(body.get("error"), dict):
                self.error = body["error"]

    @property
    def problem(self) -> str:
        """What went wrong, and on the next line what to do; empty if nothing did."""
        return "\n".join(part for part in (*self._error("message"), *self._error("hint")) if part)

    @property
    def own_words(self) -> str:
        """The part of the problem that the command says itself."""
        if self.error is None:
            return ""
        first = "The agent's code failed." if self._is_the_agents else self._first_and_rest[0]
        return "\n".join(part for part in (first, *self._error("hint")) if part)

    @property
    def quoted(self) -> str:
        """The part of the problem that quotes the agent's code or what the project's tests say."""
        return "".join(self._error("message")) if self._is_the_agents else self._first_and_rest[1]

    @property
    def _is_the_agents(self) -> bool:
        return self.error is not None and self.error.get("code") == AgentError.exit_code

    @property
    def _first_and_rest(self) -> tuple[str, str]:
        first, _, rest = "".join(self._error("message")).partition("\n")
        return first, rest

    def _error(self, key: str) -> list[str]:
        return [str(self.error[key])] if self.error and self.error.get(key) else []

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped from outside, with its finished work saved."""
        return self.error is not None and self.error.get("code") == INTERRUPTED
