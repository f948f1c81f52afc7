"""The same agent in LangGraph: a graph of the model and its tool."""

from __future__ import annotations

import os
from typing import Any

import ratchet
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from .rooms import OFFICE, rooms_on

MODEL = "gpt-6-luna"
TURNS = 4

SYSTEM = ratchet.prompt(
    "system",
    "You are a booking assistant for {office}. Help people with meeting rooms.",
)


@tool
def list_rooms(date: str) -> dict[str, Any]:
    """The meeting rooms of the office, with their bookings on a date.

    Args:
        date: As YYYY-MM-DD.
    """
    return {"date": date, "rooms": rooms_on(date)}


async def assistant(state: MessagesState) -> dict[str, Any]:
    """The model's next message."""
    model = ChatOpenAI(model=os.environ.get("ROOM_BOOKING_MODEL") or MODEL)
    system = SystemMessage(SYSTEM.format(office=OFFICE))
    answer = await model.bind_tools([list_rooms]).ainvoke([system, *state["messages"]])
    return {"messages": [answer]}


graph = StateGraph(MessagesState)
graph.add_node("assistant", assistant)
graph.add_node("tools", ToolNode([list_rooms], handle_tool_errors=True))
graph.add_edge(START, "assistant")
graph.add_conditional_edges("assistant", tools_condition)
graph.add_edge("tools", "assistant")
app = graph.compile()


@ratchet.agent
async def book(request: str) -> str:
    """Which room to book: its id, or `none`."""
    try:
        state = await app.ainvoke({"messages": [("user", request)]}, {"recursion_limit": 2 * TURNS})
    except GraphRecursionError:
        return f"No answer in {TURNS} turns."
    return str(state["messages"][-1].content).strip()
