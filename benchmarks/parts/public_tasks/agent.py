"""The agent of every dataset: one call of a model."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from openai import AsyncOpenAI

import ratchet

INSTRUCTION = ratchet.prompt("instruction", "FIRST PROMPT")

MAX_TOKENS = int(os.environ.get("MAX_TOKENS", "100"))


@ratchet.agent
async def answer(question: str) -> str:
    """The model's answer."""
    async with AsyncOpenAI(timeout=600) as client:
        done = await client.chat.completions.create(
            model="task",
            messages=[
                {"role": "system", "content": str(INSTRUCTION)},
                {"role": "user", "content": question},
            ],
            temperature=0,
            max_tokens=MAX_TOKENS,
        )
    return (done.choices[0].message.content or "").strip()


async def answers(questions: list[str], at_once: int) -> list[str]:
    """The answers to many questions."""
    free = asyncio.Semaphore(at_once)

    async def ask(question: str) -> str:
        async with free:
            return await answer(question)

    return await asyncio.gather(*map(ask, questions))


if __name__ == "__main__":
    asked, said = map(Path, sys.argv[1:3])
    given = json.loads(asked.read_text())
    said.write_text(json.dumps(asyncio.run(answers(given["questions"], given["at_once"]))))
