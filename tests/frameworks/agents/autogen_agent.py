"""AutoGen: an assistant of agentchat."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

import ratchet

ratchet.init()


async def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


async def main() -> str:
    model = OpenAIChatCompletionClient(model="gpt-4o-mini")
    agent = AssistantAgent(
        "assistant", model_client=model, tools=[get_weather], reflect_on_tool_use=True
    )
    result = await agent.run(task="What is the weather in Paris?")
    await model.close()
    return str(result.messages[-1].content)


print(asyncio.run(main()))
