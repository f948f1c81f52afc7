"""The `openai` package: responses in a loop, async, with the package imported after `init`."""

import asyncio
import json

import ratchet

ratchet.init()

import openai  # noqa: E402

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@ratchet.tool
def get_weather(city: str) -> str:
    return "18 C"


@ratchet.agent
async def assistant(question: str) -> str:
    client = openai.AsyncOpenAI()
    sent = [{"role": "user", "content": question}]
    while True:
        answer = await client.responses.create(model="gpt-4o-mini", input=sent, tools=[TOOL])
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        for call in calls:
            result = get_weather(**json.loads(call.arguments))
            sent.append(call.model_dump(exclude_none=True))
            answered = {"type": "function_call_output", "call_id": call.call_id}
            sent.append({**answered, "output": result})


print(asyncio.run(assistant("What is the weather in Paris?")))
