"""smolagents: an agent that calls tools."""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import ratchet

ratchet.init()


@tool
def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Its name.
    """
    return "18 C"


agent = ToolCallingAgent(
    tools=[get_weather],
    model=OpenAIServerModel(model_id="gpt-4o-mini"),
    name="assistant",
    description="Knows the weather.",
)
print(agent.run("What is the weather in Paris?"))
