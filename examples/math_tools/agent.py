"""Solves word problems: a model writes the calculation, a calculator does it."""

from __future__ import annotations

import asyncio
import sys

import ratchet
from openai import AsyncOpenAI

from calculator import value_of

INSTRUCTION = ratchet.prompt(
    "instruction",
    "Write the calculation that solves the problem as one arithmetic expression.",
)


@ratchet.tool
def calculate(expression: str) -> float:
    """The value of an arithmetic expression."""
    return value_of(expression)


@ratchet.agent
async def solve(problem: str) -> str:
    """The calculation with its result, such as `3 * 4 = 12`."""
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.completions.create(
            model="local",
            prompt=f"{INSTRUCTION.format()}\n\nInput: {problem}\nOutput:",
            temperature=0,
            max_tokens=50,
            stop=["\n", "="],
        )
    expression = done.choices[0].text.strip()
    try:
        return f"{expression} = {calculate(expression):g}"
    except ValueError as error:
        return f"no answer: {error}"


if __name__ == "__main__":
    print(asyncio.run(solve(" ".join(sys.argv[1:]))))
