"""OpenAI Agents SDK."""

import ratchet
from agents import Agent, Runner, function_tool, set_tracing_export_api_key

ratchet.init()
set_tracing_export_api_key("")


@function_tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


agent = Agent(name="assistant", instructions="Be brief.", tools=[get_weather], model="gpt-4o-mini")
print(Runner.run_sync(agent, "What is the weather in Paris?").final_output)
