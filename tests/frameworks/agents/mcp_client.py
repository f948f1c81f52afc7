"""MCP: the tool is that of a server which runs as a process of its own."""

import asyncio
import json
import sys

import openai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import ratchet

ratchet.init()

SERVER = """
from mcp.server import MCPServer
server = MCPServer("weather")

@server.tool()
def get_weather(city: str) -> str:
    return "18 C"

server.run()
"""


@ratchet.agent
async def assistant(question: str) -> str:
    started = StdioServerParameters(command=sys.executable, args=["-c", SERVER])
    async with stdio_client(started) as streams, ClientSession(*streams) as session:
        await session.initialize()
        client = openai.AsyncOpenAI()
        tools = [
            {"type": "function", "function": {"name": each.name, "parameters": each.input_schema}}
            for each in (await session.list_tools()).tools
        ]
        messages = [{"role": "user", "content": question}]
        while True:
            answer = await client.chat.completions.create(
                model="gpt-4o-mini", messages=messages, tools=tools
            )
            said = answer.choices[0].message
            if not said.tool_calls:
                return said.content
            messages.append(said)
            for call in said.tool_calls:
                arguments = json.loads(call.function.arguments)
                result = await session.call_tool(call.function.name, arguments)
                text = result.content[0].text
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


print(asyncio.run(assistant("What is the weather in Paris?")))
