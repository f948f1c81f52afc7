"""The `openai` package: chat completions as a stream, and responses as a stream."""

import json

import openai

import ratchet

ratchet.init()

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@ratchet.tool
def get_weather(city: str) -> str:
    return "18 C"


@ratchet.agent
def assistant(question: str) -> str:
    client = openai.OpenAI()
    messages = [{"role": "user", "content": question}]
    call = {"name": "", "arguments": ""}
    for chunk in client.chat.completions.create(
        model="gpt-4o-mini",
        messages=messages,
        tools=[TOOL],
        stream=True,
        stream_options={"include_usage": True},
    ):
        for choice in chunk.choices:
            for part in choice.delta.tool_calls or ():
                call["name"] += part.function.name or ""
                call["arguments"] += part.function.arguments
    result = get_weather(**json.loads(call["arguments"]))
    # The answer comes from the other API, which streams in another way.
    sent = [
        *messages,
        {"type": "function_call", "call_id": "call_1", **call},
        {"type": "function_call_output", "call_id": "call_1", "output": result},
    ]
    said = ""
    for event in client.responses.create(model="gpt-4o-mini", input=sent, stream=True):
        if event.type == "response.output_text.delta":
            said += event.delta
    return said


print(assistant("What is the weather in Paris?"))
