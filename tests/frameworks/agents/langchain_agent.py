"""LangChain: `create_agent`, async, as a stream; with a step of ours inside of the tool."""

import asyncio

import ratchet

ratchet.init()

from langchain.agents import create_agent  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402


@ratchet.trace
def look_up(city: str) -> str:
    return "18 C"


async def get_weather(city: str) -> str:
    """Weather of a city."""
    return look_up(city)


async def main() -> str:
    model = ChatOpenAI(model="gpt-4o-mini", streaming=True, stream_usage=True)
    agent = create_agent(model, [get_weather])
    question = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    said = ""
    async for _, (message, _) in agent.astream(question, stream_mode=["messages"]):
        if message.type.startswith("AI"):
            said += message.text
    return said


print(asyncio.run(main()))
