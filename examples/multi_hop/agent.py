"""Answers a question from two paragraphs: what the first says decides what to look up next."""

from __future__ import annotations

import asyncio
import sys

import ratchet
from openai import AsyncOpenAI

from library import PARAGRAPHS, best_titles

ANSWER = ratchet.prompt("answer", "Answer the question from the paragraphs.")
NEXT = ratchet.prompt("next", "Name what has to be looked up next to answer the question.")


@ratchet.tool
def read(title: str) -> str:
    """The paragraph of a title."""
    return f"{title}: {PARAGRAPHS[title]}"


async def ask(instruction: str, question: str, paragraphs: list[str]) -> str:
    """A line that the model writes."""
    known = "\n".join(paragraphs)
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.completions.create(
            model="local",
            prompt=f"{instruction}\n\nParagraphs:\n{known}\n\nInput: {question}\nOutput:",
            temperature=0,
            max_tokens=20,
            stop=["\n"],
        )
    return done.choices[0].text.strip()


@ratchet.agent
async def answer(question: str) -> str:
    """A name or a number."""
    first = best_titles(question, 1)[0]
    paragraphs = [read(first)]
    query = await ask(NEXT.format(), question, paragraphs)
    second = next(title for title in best_titles(query, 2) if title != first)
    paragraphs.append(read(second))
    return await ask(ANSWER.format(), question, paragraphs)


if __name__ == "__main__":
    print(asyncio.run(answer(" ".join(sys.argv[1:]))))
