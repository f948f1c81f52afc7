"""AutoGen: a team of agentchat, with one assistant."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

import ratchet

ratchet.init()


def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


async def main() -> str:
    model = OpenAIChatCompletionClient(model="gpt-4o-mini")
    agent = AssistantAgent(
        "assistant", model_client=model, tools=[get_weather], reflect_on_tool_use=True
    )
    team = RoundRobinGroupChat([agent], termination_condition=TextMessageTermination("assistant"))
    result = await team.run(task="What is the weather in Paris?")
    await model.close()
    return str(result.messages[-1].content)


print(asyncio.run(main()))
