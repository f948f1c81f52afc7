"""A simulated model for the examples: what it knows decides what it answers, examples teach it.

It is no language model: it looks answers up in the example's tasks. It answers a task rightly if
it can without help, or once the prompt holds worked examples; else it gives a poor answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any], bool], str]
"""What is answered to a task; the second argument is whether the prompt holds worked examples."""


@contextmanager
def imitating_model(tasks: list[dict[str, Any]], answer: Answer) -> Iterator[str]:
    """Serve it; gives the base URL of OpenAI's API."""
    by_input = {task["input"]: task for task in tasks}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            system, user = (message["content"] for message in asked["messages"])
            text = answer(by_input[user], "Output: " in system)
            body = json.dumps(
                {
                    "id": "simulated",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "simulated",
                    "choices": [
                        {
                            "index": 0,
                            "finish_reason": "stop",
                            "message": {"role": "assistant", "content": text},
                        }
                    ],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
