"""A travel agent written with Anthropic's own library. It knows nothing of Ratchet."""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic

TOOLS: Any = [
    {
        "name": "weather",
        "description": "Tells the weather of a city.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
]

WEATHER = {"Oslo": "snow", "Rome": "sun"}


def main() -> None:
    """Answer the task on standard input."""
    asked = json.load(sys.stdin)["input"]
    client = anthropic.Anthropic()
    system = (
        f"You are the travel assistant of {asked['company']}.\n"
        f"Today is {asked['date']}. Look the weather up before you answer.\n"
        "Answer in one sentence."
    )
    messages: list[Any] = [{"role": "user", "content": asked["question"]}]
    while True:
        with client.messages.stream(
            model="claude-haiku-4-5",
            max_tokens=200,
            system=system,
            messages=messages,
            tools=TOOLS,
        ) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": WEATHER.get(dict(call.input)["city"], "unknown"),  # type: ignore[call-overload]
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    text = "".join(block.text for block in answer.content if block.type == "text")
    print(json.dumps({"answer": text}))


main()
