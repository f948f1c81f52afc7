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
            prompt = asked.get("prompt") or asked["messages"][-1]["content"]
            before, _, last = prompt.rpartition("\n\nInput: ")
            text, _, begun = last.partition("\nOutput:")
            said = answer(by_input[text], "Output: " in before).removeprefix(begun.strip())
            for stop in asked.get("stop", ()):
                said = said.partition(stop)[0]
            choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
            if "prompt" in asked:
                choice |= {"text": said}
            else:
                choice |= {"message": {"role": "assistant", "content": said}}
            body = json.dumps(
                {
                    "id": "simulated",
                    "object": "text_completion" if "prompt" in asked else "chat.completion",
                    "created": 0,
                    "model": "simulated",
                    "choices": [choice],
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
