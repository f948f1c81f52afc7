"""The example in Node as it runs, beside a Ratchet that asks everybody for a key."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ratchet._http import httpx2
from ratchet.store import Store
from ratchet.types import Feedback, Span

EXAMPLE = Path(__file__).parents[2] / "examples" / "node_agent"


@dataclass
class Site:
    """The example and its Ratchet, which asks everybody for a key."""

    chat: str
    ratchet: str
    store: Store
    program: Path
    feedback_key: str
    ingest_key: str
    runner_key: str
    provider_key: str

    def ask(self, message: str, conversation: str = "") -> dict[str, str]:
        """One turn, as the page has it."""
        body = {"message": message, "conversation_id": conversation}
        answer = httpx2.post(f"{self.chat}/api/chat", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        found: dict[str, str] = answer.json()
        return found

    def trace(self, trace_id: str, count: int) -> list[Span]:
        """The spans of a trace, once there are so many: the agent's, its tool's, its model's."""
        deadline = time.monotonic() + 20
        while len(found := self.store.spans.of_trace(trace_id)) < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        assert len(found) == count
        return ordered(found)

    def feedback(self, conversation: str) -> list[Feedback]:
        """What was said of a conversation, the oldest first."""
        found, _ = self.store.feedback.list(conversation_id=conversation)
        return found[::-1]


class Started:
    """A program that says where it is in its first line."""

    def __init__(self, command: list[str], folder: Path, **changes: str) -> None:
        # Nothing of this machine decides where it sends or with which key.
        ours = ("RATCHET_", "OPENAI_", "OTEL_")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environ | changes, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, f"{command} ended with {self.process.wait()}"

    def end(self) -> int:
        """End it as a service manager does; its exit code."""
        with self.process:  # which closes its pipe
            self.process.send_signal(signal.SIGTERM)
            try:
                return self.process.wait(60)
            finally:
                self.process.kill()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def kept_port() -> socket.socket:
    """A port that nobody answers at: nobody gets it by chance, and whoever names it may have it."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


def ordered(spans: list[Span]) -> list[Span]:
    """Spans by what they are, and those of the model by what it knew: clocks have ties."""
    operations = ("invoke_agent", "execute_tool", "chat")

    def place(span: Span) -> tuple[int, int]:
        known = span.attributes.get("gen_ai.input.messages", "")
        return operations.index(span.attributes["gen_ai.operation.name"]), len(known)

    return sorted(spans, key=place)
