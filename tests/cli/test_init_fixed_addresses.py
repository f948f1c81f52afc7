"""`ratchet init` of agents whose model clients take no address from a variable."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.simulated_model import LEARNED, answer, completion
from tests.cli.test_init_watching import Wired, repository
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

OWN_KEY = "gsk-of-the-owner"


def script(seen: Seen, wire: Wire) -> None:
    """A provider: OpenAI's protocol, Ollama's and Gemini's."""
    body = seen.json
    path = seen.target.partition("?")[0]
    if path.endswith(":generateContent"):
        said = answer(
            body["systemInstruction"]["parts"][0]["text"], body["contents"][0]["parts"][0]["text"]
        )
        content = {"role": "model", "parts": [{"text": said}]}
        wire.send(reply({"candidates": [{"content": content, "finishReason": "STOP"}]}))
        return
    if path.endswith("/api/generate"):
        said = answer(body.get("system", ""), body["prompt"])
        wire.send(reply({"model": body["model"], "response": said, "done": True}))
        return
    system = "".join(m["content"] for m in body["messages"] if m["role"] == "system")
    said = answer(system, body["messages"][-1]["content"])
    if path.endswith("/api/chat"):
        lines = [
            {"model": "m", "message": {"role": "assistant", "content": piece}, "done": False}
            for piece in said
        ]
        lines.append(
            {
                "model": "m",
                "message": {"role": "assistant", "content": ""},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 7,
                "eval_count": 3,
            }
        )
        stream = "".join(json.dumps(line) + "\n" for line in lines).encode()
        wire.send(reply(stream, content_type="application/x-ndjson"))
        return
    wire.send(reply(completion(said)))
