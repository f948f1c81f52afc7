"""An agent under live traffic: looks something up, waits as for a model, sometimes books."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import ratchet

MODEL_S = 0.02
"""How long an answer waits for its model, in seconds."""

PACE_S = 0.04
"""Interval between the calls of one user, in seconds."""

USERS = 4
BOOKS_EACH = 20
"""One of so many calls has a side effect."""

GREETING = ratchet.prompt("greeting", "Hello {name}")


@ratchet.tool
def look_up(name: str) -> str:
    return GREETING.format(name=name) + " " * (sum(range(2_000)) % 3)


@ratchet.tool(side_effects=True)
def book(name: str) -> str:
    with Path(os.environ["BOOKED"]).open("a") as file:
        file.write(f"{name}\n")
    return "booked"


@ratchet.agent(mirror=True)
async def answer(question: str) -> str:
    found = look_up(question)
    await asyncio.sleep(MODEL_S)
    return book(question) if question.endswith("book") else found


async def traffic(calls: int) -> list[float]:
    """Make so many calls, by several users, and return how long each took, in seconds."""
    took: list[float] = []

    async def user(number: int) -> None:
        for call in range(calls // USERS):
            due = time.perf_counter() + PACE_S
            question = f"{number}-{call} " + ("book" if call % BOOKS_EACH == 0 else "ask")
            begun = time.perf_counter()
            await answer(question)
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    await asyncio.gather(*map(user, range(USERS)))
    return took


def main() -> None:
    handle = ratchet.init("bot", instrument=False)
    print("ready", flush=True)
    for line in sys.stdin:
        took = asyncio.run(traffic(int(line)))
        handle.flush(30)
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
