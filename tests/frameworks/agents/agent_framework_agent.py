"""Microsoft Agent Framework."""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient

import ratchet

ratchet.init()


def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


async def main() -> str:
    agent = Agent(
        client=OpenAIChatClient(model="gpt-4o-mini"), name="assistant", tools=[get_weather]
    )
    return (await agent.run("What is the weather in Paris?")).text


print(asyncio.run(main()))
