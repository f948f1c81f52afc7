"""The same agent in LangGraph: a node in which the model writes, and one that calculates."""

from __future__ import annotations

from typing import TypedDict

import ratchet
from langchain_openai import OpenAI
from langgraph.graph import END, START, StateGraph

from calculator import value_of

INSTRUCTION = ratchet.prompt(
    "instruction",
    "Write the calculation that solves the problem as one arithmetic expression.",
)


class State(TypedDict, total=False):
    """What the nodes know."""

    problem: str
    expression: str
    answer: str


async def write(state: State) -> State:
    """The model writes the calculation."""
    model = OpenAI(model="local", temperature=0, max_tokens=50, timeout=120)
    prompt = f"{INSTRUCTION.format()}\n\nInput: {state['problem']}\nOutput:"
    return {"expression": (await model.ainvoke(prompt, stop=["\n", "="])).strip()}


def calculate(state: State) -> State:
    """The calculator does it."""
    expression = state["expression"]
    try:
        return {"answer": f"{expression} = {value_of(expression):g}"}
    except ValueError as error:
        return {"answer": f"no answer: {error}"}


graph = StateGraph(State)
graph.add_node("write", write)
graph.add_node("calculate", calculate)
graph.add_edge(START, "write")
graph.add_edge("write", "calculate")
graph.add_edge("calculate", END)
app = graph.compile()


@ratchet.agent
async def solve(problem: str) -> str:
    """The calculation with its result, such as `3 * 4 = 12`."""
    return str((await app.ainvoke({"problem": problem}))["answer"])
