"""Turns a question about cricket into a SQL query over `cricket.sqlite`."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import ratchet
from openai import AsyncOpenAI

HERE = Path(__file__).parent
SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")

INSTRUCTION = ratchet.prompt(
    "instruction",
    """{schema}
Write one SQLite query that answers the question, and nothing else.""",
)


@ratchet.agent
async def write_query(question: str) -> str:
    """The query whose result answers the question."""
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.completions.create(
            model="local",
            # The first word is written for the model, so that it answers with a query.
            prompt=f"{INSTRUCTION.format(schema=SCHEMA)}\n\nInput: {question}\nOutput: SELECT",
            temperature=0,
            max_tokens=60,
            stop=["\n", ";"],
        )
    return f"SELECT{done.choices[0].text}".strip()


def rows(query: str) -> list[tuple[object, ...]]:
    """What the database says."""
    with sqlite3.connect(f"file:{HERE / 'cricket.sqlite'}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


if __name__ == "__main__":
    query = asyncio.run(write_query(" ".join(sys.argv[1:])))
    print(query, *rows(query), sep="\n")
