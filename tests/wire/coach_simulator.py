"""A simulator of a coach: a real HTTP server that answers what a test scripts, and no model."""

from __future__ import annotations

import json
from typing import Any

from tests.llm.endpoint import HANG, Endpoint, React, Reaction, Request, answer

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}

OPINION: dict[str, Any] = {
    "what_it_is": "A desk that answers readers of a library.",
    "improve_first": "rules",
    "why": "It says what to do, and not what to leave out.",
    "likely_failures": ["It promises a loan\x1b[31m that nobody granted."],
}
EVALUATORS: dict[str, Any] = {
    "evaluators": [
        {
            "name": "same_answer",
            "why": "The answer must be the expected one.",
            "code": "def same_answer(output, expected):\n    return output == expected\n",
            "criteria": [],
        },
        {
            "name": "always_fine",
            "why": "It is always fine.",
            "code": "def always_fine(output, expected):\n    return 1.0\n",
            "criteria": [],
        },
        {"name": "polite", "why": "Tone.", "code": "", "criteria": ["Is the answer polite?"]},
    ]
}
INPUTS: dict[str, Any] = {
    "inputs": ["Is the atlas of 1910 lent?", "May I keep a map for two months?"]
}


def asked_for(request: Request) -> str:
    """Which of its three questions a request puts."""
    said = json.dumps(request.body)
    for name in ("what_it_is", "evaluators", "inputs"):
        if f'\\"{name}\\"' in said or f'"{name}"' in said:
            return name
    return ""


def scripted(**changed: Any) -> React:
    """A script: an answer of each kind, or what is given instead, by the kind's name."""
    usual = {"what_it_is": OPINION, "evaluators": EVALUATORS, "inputs": INPUTS, **changed}

    def react(request: Request) -> Reaction:
        said = usual[asked_for(request)]
        if isinstance(said, Reaction):
            return said
        text = said if isinstance(said, str) else json.dumps(said)
        return answer(text, usage=USAGE, model=request.body["model"])

    return react


HANGING = Reaction(how=HANG)

__all__ = ["HANGING", "INPUTS", "OPINION", "Endpoint", "asked_for", "scripted"]
