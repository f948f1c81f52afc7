"""CrewAI: a crew of one."""

from crewai import Agent, Crew, Task
from crewai.tools import tool

import ratchet

ratchet.init()


@tool("get_weather")
def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


agent = Agent(
    role="assistant",
    goal="Tell the weather",
    backstory="A weather office",
    tools=[get_weather],
    llm="openai/gpt-4o-mini",
)
task = Task(description="What is the weather in Paris?", expected_output="A line", agent=agent)
print(Crew(agents=[agent], tasks=[task]).kickoff())
