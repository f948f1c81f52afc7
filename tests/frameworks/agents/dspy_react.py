"""DSPy: ReAct."""

import dspy

import ratchet

ratchet.init()


def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", cache=False))
agent = dspy.ReAct("question -> answer", tools=[get_weather])
print(agent(question="What is the weather in Paris?").answer)
