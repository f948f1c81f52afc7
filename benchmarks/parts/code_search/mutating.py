"""A server with the OpenAI chat API that answers with mutations of the given function.

It mutates as the `ast` proposer does, so that a peer that can only query a model gets the same
proposals.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ratchet.learn.mutations import Shapes, mutated, shapes_of
from ratchet.learn.mutations.mutants import EDITS
from ratchet.types import Code, InputError

PROGRAM = re.compile(r"# Current Program\s*```python\n(.*?)```", re.S)
BLOCK = re.compile(r"# EVOLVE-BLOCK-START\n(.*?)# EVOLVE-BLOCK-END", re.S)


def answer(asked: str, function: str, rng: random.Random, shapes: Shapes = ()) -> str:
    """The current program of a request, with its function mutated."""
    shown = PROGRAM.search(asked)
    if shown is None:
        return "There is no current program."
    program = shown.group(1)
    block = BLOCK.search(program)
    try:
        code = Code(block.group(1) if block else program, function)
    except InputError as error:
        return f"The current program cannot be read: {error}"
    for _ in range(rng.choices((1, 2, 3), EDITS)[0]):
        grown = mutated(code, rng, None, shapes)
        code = grown.code if grown else code
    source = f"# EVOLVE-BLOCK-START\n{code.source.rstrip()}\n# EVOLVE-BLOCK-END\n"
    return f"```python\n{source}```"


@contextmanager
def serving(function: str, seed: int, tasks: Sequence[Any]) -> Iterator[str]:
    """Run the server for one function; yields its base URL."""
    rng, lock, shapes = random.Random(seed), threading.Lock(), shapes_of(tasks)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = "\n".join(str(m["content"]) for m in asked["messages"])
            with lock:
                said = answer(text, function, rng, shapes)
            message = {"role": "assistant", "content": said}
            body = json.dumps(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": asked["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
