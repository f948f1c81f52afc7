"""Semantic Kernel: a chat completion agent."""

import asyncio

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

import ratchet

ratchet.init()


class Weather:
    @kernel_function(description="Weather of a city")
    def get_weather(self, city: str) -> str:
        return "18 C"


async def main() -> str:
    agent = ChatCompletionAgent(
        service=OpenAIChatCompletion(ai_model_id="gpt-4o-mini"),
        name="assistant",
        plugins=[Weather()],
    )
    return str((await agent.get_response(messages="What is the weather in Paris?")).message)


print(asyncio.run(main()))
