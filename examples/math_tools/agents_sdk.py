"""The same agent in the OpenAI Agents SDK: the model calls the calculator itself."""

from __future__ import annotations

import ratchet
from agents import (
    Agent,
    ModelSettings,
    RunContextWrapper,
    Runner,
    function_tool,
    set_default_openai_api,
)

from calculator import value_of

INSTRUCTION = ratchet.prompt(
    "instruction",
    "Write the calculation that solves the problem as one arithmetic expression.",
)

# A model on this machine speaks chat completions.
set_default_openai_api("chat_completions")


@function_tool
def calculate(expression: str) -> str:
    """The value of an arithmetic expression."""
    try:
        return f"{expression} = {value_of(expression):g}"
    except ValueError as error:
        return f"no answer: {error}"


def instructions(context: RunContextWrapper[None], agent: Agent[None]) -> str:
    """The prompt as it is when the agent runs."""
    return INSTRUCTION.format()


solver = Agent[None](
    name="solver",
    instructions=instructions,
    tools=[calculate],
    tool_use_behavior="stop_on_first_tool",  # what it calculates is the answer
    model="local",
    model_settings=ModelSettings(temperature=0, max_tokens=80),
)


@ratchet.agent
async def solve(problem: str) -> str:
    """The calculation with its result, such as `3 * 4 = 12`."""
    return str((await Runner.run(solver, problem)).final_output)
