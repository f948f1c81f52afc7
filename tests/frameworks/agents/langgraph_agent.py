"""LangChain and LangGraph: a graph of a model node and a tool node."""

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import ratchet

ratchet.init()


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return "18 C"


model = ChatOpenAI(model="gpt-4o-mini").bind_tools([get_weather])


def assistant(state: MessagesState) -> MessagesState:
    return {"messages": [model.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("assistant", assistant)
graph.add_node("tools", ToolNode([get_weather]))
graph.add_edge(START, "assistant")
graph.add_conditional_edges("assistant", tools_condition)
graph.add_edge("tools", "assistant")
app = graph.compile()
said = app.invoke({"messages": [("user", "What is the weather in Paris?")]})
print(said["messages"][-1].content)
