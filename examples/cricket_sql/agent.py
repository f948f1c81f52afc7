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

SYSTEM = ratchet.prompt(
    "system",
    """{schema}
Write one SQLite query that answers the question. Answer with the query and nothing else.""",
)


@ratchet.agent
async def write_query(question: str) -> str:
    """The query whose result answers the question."""
    async with AsyncOpenAI(timeout=120) as client:
        done = await client.chat.completions.create(
            model="local",
            messages=[
                {"role": "system", "content": SYSTEM.format(schema=SCHEMA)},
                {"role": "user", "content": question},
            ],
            temperature=0,
            max_tokens=100,
        )
    return (done.choices[0].message.content or "").strip()


def rows(query: str) -> list[tuple[object, ...]]:
    """What the database says."""
    with sqlite3.connect(f"file:{HERE / 'cricket.sqlite'}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


if __name__ == "__main__":
    query = asyncio.run(write_query(" ".join(sys.argv[1:])))
    print(query, *rows(query), sep="\n")
