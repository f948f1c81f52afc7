"""The `anthropic` package: messages in a loop, the answer as a stream."""

import anthropic

import ratchet

ratchet.init()

TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@ratchet.tool
def get_weather(city: str) -> str:
    return "18 C"


@ratchet.agent
def assistant(question: str) -> str:
    client = anthropic.Anthropic()
    messages = [{"role": "user", "content": question}]
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": [TOOL]}
    answer = client.messages.create(messages=messages, **asked)
    (call,) = (part for part in answer.content if part.type == "tool_use")
    messages.append({"role": "assistant", "content": [call.model_dump(exclude_none=True)]})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": get_weather(**call.input)}
    messages.append({"role": "user", "content": [result]})
    with client.messages.stream(messages=messages, **asked) as stream:
        return "".join(stream.text_stream)


print(assistant("What is the weather in Paris?"))
