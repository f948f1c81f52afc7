"""LlamaIndex: a function agent."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

import ratchet

ratchet.init()


def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


async def main() -> str:
    agent = FunctionAgent(
        name="assistant", tools=[get_weather], llm=OpenAI(model="gpt-4o-mini"), streaming=False
    )
    return str(await agent.run("What is the weather in Paris?"))


print(asyncio.run(main()))
