"""Turns a support ticket into JSON that a help desk can sort by."""

from __future__ import annotations

import asyncio
import sys

import ratchet
from openai import AsyncOpenAI

SYSTEM = ratchet.prompt(
    "system",
    """You sort the support tickets of a shop for household appliances.
Answer with one JSON object and nothing else. Its keys:
"team": safety, repairs, logistics, billing, accounts or sales,
"priority": how urgent it is,
"product": the kind of appliance it is about, or null,
"order": the order number, or null.""",
)


@ratchet.agent
async def route(ticket: str) -> str:
    """The ticket's team, priority, product and order as JSON."""
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.chat.completions.create(
            model="local",
            messages=[
                {"role": "system", "content": str(SYSTEM)},
                {"role": "user", "content": ticket},
            ],
            temperature=0,
            max_tokens=80,
        )
    return (done.choices[0].message.content or "").strip()


if __name__ == "__main__":
    print(asyncio.run(route(" ".join(sys.argv[1:]))))
