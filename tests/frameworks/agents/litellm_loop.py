"""LiteLLM: completions in a loop."""

import json

import litellm

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
    messages = [{"role": "user", "content": question}]
    while True:
        answer = litellm.completion(model="openai/gpt-4o-mini", messages=messages, tools=[TOOL])
        said = answer.choices[0].message
        if not said.tool_calls:
            return said.content
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls:
            result = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


print(assistant("What is the weather in Paris?"))
