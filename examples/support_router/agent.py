"""Turns a support ticket into JSON that a help desk can sort by."""

from __future__ import annotations

import asyncio
import sys

import ratchet
from openai import AsyncOpenAI

INSTRUCTION = ratchet.prompt(
    "instruction",
    """You sort the support tickets of a shop for household appliances.
Answer with one JSON object and nothing else. Its keys:
"team": safety, repairs, logistics, billing, accounts or sales,
"priority": how urgent it is,
"product": the kind of appliance that it is about, in one word, or null,
"order": the order number, or null.""",
)


@ratchet.agent
async def route(ticket: str) -> str:
    """The ticket's team, priority, product and order as JSON."""
    question = f"{INSTRUCTION.format()}\n\nInput: {ticket}\nOutput:"
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.chat.completions.create(
            model="local",
            messages=[{"role": "user", "content": question}],
            temperature=0,
            max_tokens=80,
        )
    return (done.choices[0].message.content or "").strip()


if __name__ == "__main__":
    print(asyncio.run(route(" ".join(sys.argv[1:]))))
