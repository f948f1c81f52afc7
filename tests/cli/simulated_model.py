"""A simulated model behind three APIs: it answers as it was shown, and only then.

Told of a product, it says the product's name in capitals if its instructions hold an example of
that, and in small letters otherwise.
"""

from __future__ import annotations

import re
from typing import Any

from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

LEARNED = re.compile(r"Output: [A-Z]+")


def answer(instructions: str, question: str) -> str:
    """What the model says."""
    product = question.split()[-1]
    return product.upper() if LEARNED.search(instructions) else product


def script(seen: Seen, wire: Wire) -> None:
    """Answer one request of chat completions, responses or messages."""
    body = seen.json
    if seen.target.endswith("/messages"):
        text = answer(str(body.get("system", "")), body["messages"][-1]["content"])
        wire.send(reply(_message(text)))
    elif seen.target.endswith("/responses"):
        text = answer(body.get("instructions", ""), body["input"])
        wire.send(reply(_response(text)))
    else:
        prompts = "".join(message["content"] for message in body["messages"])
        wire.send(reply(completion(answer(prompts, body["messages"][-1]["content"]))))


def simulated_model() -> StubUpstream:
    """A running simulated model."""
    return StubUpstream(script)


def instructions_in(seen: Seen) -> str:
    """The instructions of a request."""
    body = seen.json
    if "messages" in body and "system" not in body:
        return "".join(m["content"] for m in body["messages"] if m["role"] == "system")
    return str(body.get("system") or body.get("instructions") or "")


def completion(text: str) -> dict[str, Any]:
    """A chat completion that says a text."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "simulated",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def _message(text: str) -> dict[str, Any]:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "simulated",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 2},
    }


def _response(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "r",
        "object": "response",
        "model": "simulated",
        "status": "completed",
        "output": [{"type": "message", "id": "o", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
    }
