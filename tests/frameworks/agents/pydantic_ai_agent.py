"""pydantic-ai."""

from pydantic_ai import Agent

import ratchet

ratchet.init()

agent = Agent("openai-chat:gpt-4o-mini", name="assistant", instructions="Be brief.")


@agent.tool_plain
def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


print(agent.run_sync("What is the weather in Paris?").output)
