"""How trainers ask a coach: messages in the manner of several of them, worded for these tests.

Nothing is copied: each has the structure of what it stands for, the headings, fences and forms in
which the current text, the failures and the task are given, in words of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Messages = list[dict[str, Any]]

TOO_SMALL = "A101 is wrong: it is too small, it seats 4 of 10. The right answer was B202."
BOOKED = "A101 is wrong: it is already booked from 10:00 to 11:30. The right answer was B202."
REQUEST = "We need a room for 10 people on 2026-03-04 at 11:00 for 60 minutes. We need a phone."

ROOMS = {
    "rooms": [
        {
            "id": "A101",
            "capacity": 4,
            "equipment": ["phone"],
            "accessible": True,
            "distance_m": 20,
            "bookings": [],
        },
        {
            "id": "B202",
            "capacity": 12,
            "equipment": ["phone"],
            "accessible": True,
            "distance_m": 20,
            "bookings": [],
        },
    ]
}


def conversation(prompt: str, answer: str = "A101") -> list[dict[str, Any]]:
    """The messages of a rollout, its tool's result included."""
    call = {"name": "list_rooms", "arguments": '{"date": "2026-03-04"}'}
    return [
        {"role": "system", "content": prompt},
        {"role": "user", "content": REQUEST},
        {"role": "assistant", "content": None, "tool_calls": [{"function": call}]},
        {"role": "tool", "content": json.dumps(ROOMS)},
        {"role": "assistant", "content": answer},
    ]


def gradient(prompt: str, failure: str) -> Messages:
    """Textual gradient: the prompt under a heading, rollouts as JSON, a critique is asked for."""
    runs = json.dumps([{"messages": conversation("Help.", "B202")}, {"grader": failure}])
    text = (
        "You tune a template for prompts.\n\n"
        f"# Original Prompt Template\n\n{prompt}\n\n"
        "# Experiments with it\n\n## Experiment 1\n\nIt succeeded with a final reward of 0.2.\n\n"
        f"### Chat messages\n\n{runs}\n\n"
        "# Your Task\n\nWrite a short critique with the causes of the low reward, as bullets,"
        " each a"
        " concrete change (constraints, format, order, definitions)."
    )
    return [{"role": "user", "content": text}]


def spans(prompt: str, failure: str) -> Messages:
    """Textual gradient from spans: one JSON object a line."""
    attributes = {"gen_ai.completion.0.content": "A101", "message": failure}
    text = (
        "# Role\n\nYou know how prompts are engineered.\n\n# Task\n\nAnalyse where the current"
        " prompt"
        f" failed.\n\n# Current Prompt Template\n\n{prompt}\n\n# Sample Runs\n\n"
        "These are spans of OpenTelemetry.\n\n## Sample Run #1\n\n"
        f"{json.dumps({'name': 'message', 'attributes': attributes})}\n\n"
        "# Output Format\n\nGive 3-5 bullets under the title 'Critique:' on missing constraints."
    )
    return [{"role": "user", "content": text}]


def edit(prompt: str, failure: str) -> Messages:
    """The edit after a textual gradient: instructions as system, prompt and critique as user."""
    advice = "The room must have enough seats for everybody." if "small" in failure else failure
    system = (
        "Revise the given prompt template; take the critique as constraints.\n\n# Revision"
        " Rules\n\n"
        "1. Restructure it if the critique implies that.\n2. Keep placeholders in curly"
        " brackets.\n\n"
        "# Output Format\n\nReturn only the improved prompt template, without any explanation."
    )
    user = f"# Prompt Template\n\n{prompt}\n\n# Critique\n\nCritique:\n- {advice}"
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def reflection(prompt: str, failure: str) -> Messages:
    """Reflective mutation: the prompt in a fence, examples with feedback in another."""
    text = (
        "An assistant works for me with these instructions:\n"
        f"```\n{prompt}\n```\n\n"
        "Here are examples of inputs given to the assistant, what it answered, and feedback on how"
        f" that could be better:\n```\n# Example 1\n## Inputs\n{REQUEST}\n\n## Generated"
        f" Outputs\nA101"
        f"\n\n## Feedback\n{failure}\n\n```\n\n"
        "Your job is to write new instructions for the assistant. Include what is specific to the"
        " domain.\n\nProvide the new instructions within ``` blocks."
    )
    return [{"role": "user", "content": text}]


def _program(prompt: str, failure: str) -> str:
    return (
        "# Current Program Information\n- Fitness: 0.51\n- Focus areas: none\n\n"
        f"## Last Execution Output\n### feedback\n```\n{failure}\n```\n\n"
        "# Program Evolution History\n## Previous Attempts\n\n### Attempt 1\n- Changes: a line\n\n"
        "## Top Performing Programs\n\n### Program 1 (Score: 0.5)\n```text\n"
        "You are an assistant.\nBe brief and kind.\n```\nKey features: kind\n\n"
        f"# Current Program\n```text\n{prompt}\n```\n\n"
    )


def evolution_diff(prompt: str, failure: str) -> Messages:
    """Program evolution by differences."""
    text = _program(prompt, failure) + (
        "# Task\nPropose improvements of the program that raise its FITNESS SCORE.\n\n"
        "You MUST give changes in this form:\n\n<<<<<<< SEARCH\n# what is there (exact)\n=======\n"
        "# what replaces it\n>>>>>>> REPLACE\n\nIMPORTANT: no rewrite of the entire program."
    )
    return [
        {"role": "system", "content": "You are an expert developer who improves a codebase."},
        {"role": "user", "content": text},
    ]


def evolution_rewrite(prompt: str, failure: str) -> Messages:
    """Program evolution by whole rewrites."""
    text = _program(prompt, failure) + (
        "# Task\nRewrite the program to raise its FITNESS SCORE.\n"
        "Provide the complete new program code.\n\n```text\n# Your rewritten program here\n```"
    )
    return [{"role": "user", "content": text}]


def tagged(prompt: str, failure: str) -> Messages:
    """A prompt in tags, with the evaluator's words beside it."""
    text = (
        f"Improve this.\n\n<current_prompt>\n{prompt}\n</current_prompt>\n\n<failures>\n{failure}\n"
        "</failures>\n\nWrite an improved version of the prompt. Answer with it alone."
    )
    return [{"role": "user", "content": text}]


def bare(prompt: str, failure: str) -> Messages:
    """Nothing but the prompt in the last message."""
    system = (
        f"Rewrite the prompt that the user gives you. It failed: {failure} Return only the prompt."
    )
    return [{"role": "system", "content": system}, {"role": "user", "content": prompt}]


CRITICS: dict[str, Callable[[str, str], Messages]] = {"gradient": gradient, "spans": spans}
WRITERS: dict[str, Callable[[str, str], Messages]] = {
    "edit": edit,
    "reflection": reflection,
    "evolution_diff": evolution_diff,
    "evolution_rewrite": evolution_rewrite,
    "tagged": tagged,
    "bare": bare,
}
