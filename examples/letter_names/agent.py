"""Reads the Unicode name of a letter with marks and answers the letter below them.

A text completion model does the work: the small local one, or any other behind `OPENAI_BASE_URL`.
"""

from __future__ import annotations

import functools
import sys

import openai
import ratchet

INSTRUCTION = ratchet.prompt("instruction", "Which letter is this?")

SAMPLING = ratchet.params(
    "sampling",
    temperature=ratchet.Float(0.7, 0.0, 1.5),
    max_tokens=ratchet.Int(16, 1, 32),
    # Where an answer ends: at the model's own end, at a line's end, or at a sentence's.
    stop=ratchet.Choice("model", ("model", "line", "sentence")),
)

STOPS = {"model": None, "line": ["\n"], "sentence": [".", "\n"]}


@functools.cache
def client() -> openai.OpenAI:
    return openai.OpenAI(timeout=60)


@ratchet.agent
def answer(name: str) -> str:
    """The letter, such as `e` for LATIN SMALL LETTER E WITH ACUTE."""
    done = client().completions.create(
        model="local",
        prompt=f"{INSTRUCTION}\n\nInput: {name}\nOutput:",
        temperature=SAMPLING.temperature,
        max_tokens=SAMPLING.max_tokens,
        stop=STOPS[SAMPLING.stop],
    )
    return done.choices[0].text.strip()


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:])))
