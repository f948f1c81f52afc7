"""Asks a language model for evaluators, showing it the agent and outputs with known verdicts.

What it writes is data: code runs in the sandbox only, and the report card decides what is kept.
"""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.generation.json_paths import data_of
from ratchet.evaluate.generation.observed import KnownOutput
from ratchet.evaluate.generation.proposal import ARGUMENTS, ProposedEvaluator, arguments_of
from ratchet.llm import ChatClient, Message, ask_paid
from ratchet.observe.capture import shorten
from ratchet.observe.redaction import marks_in
from ratchet.types import InputError

EXAMPLES_SHOWN = 12
"""Number of examples shown to the model; half of them good, if that is known."""

VALUE_LIMIT = 1_500
"""Characters shown of a value."""

SOURCE_CHARACTERS = 12_000
"""Characters shown of the agent's source and prompts."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["evaluators"],
    "properties": {
        "evaluators": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "why", "code", "criteria"],
                "properties": {
                    "name": {"type": "string"},
                    "why": {"type": "string"},
                    "code": {"type": "string"},
                    "criteria": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
}

_INSTRUCTIONS = """You write evaluators for an LLM agent: checks that tell good outputs
from bad ones.

Prefer code to opinion. An evaluator is one of:
- a Python function, in "code". It has the evaluator's name; its parameters are among {arguments}
  ("output" is always one); it returns a number from 0 to 1, or a boolean. It uses the standard
  library only, reads no file and no network, and gives the same verdict each time. A wrong output
  must score lower than a right one; a missing field or a wrong type is a wrong output, not an
  exception. "criteria" is then empty.
- a rubric for a judge, in "criteria": questions that are answered with yes or no, where yes is
  good, for what code cannot check. "code" is then empty.

Each checks one thing. Do not check style or length for their own sake. Propose at most {count}."""


async def propose_by_llm(
    client: ChatClient,
    examples: Sequence[KnownOutput],
    *,
    agent: str,
    existing: Sequence[str] = (),
    count: int = 6,
) -> tuple[list[ProposedEvaluator], list[str]]:
    """Evaluators that a language model proposes.

    Args:
        client: The model.
        examples: Outputs with what is known about them.
        agent: The agent's source, prompts and tools, as text.
        existing: What evaluators there are already, in words.
        count: Maximum number of evaluators to ask for.

    Returns:
        The proposals that can be tried, and a sentence for each that cannot.

    Raises:
        CoachUnavailable: No model is usable.
    """
    request = [
        Message("system", _INSTRUCTIONS.format(arguments=", ".join(ARGUMENTS), count=count)),
        Message("user", _described(examples, agent, existing)),
    ]
    reply = await ask_paid(client, request, kind="generator", schema=SCHEMA)
    if reply.problem or not isinstance(reply.data, dict):
        return [], [f"The model's answer cannot be used: {reply.problem or 'it is not an object'}."]
    proposals: dict[str, ProposedEvaluator] = {}
    refused: list[str] = []
    for item in reply.data["evaluators"][: 2 * count]:
        try:
            proposal = _read(item, reply.model)
        except InputError as error:
            refused.append(error.message)
            continue
        if proposal.name in proposals:
            refused.append(f"Two evaluators are named {proposal.name!r}; the first is kept.")
        else:
            proposals[proposal.name] = proposal
    return [*proposals.values()][:count], refused


def _read(item: dict[str, Any], model: str) -> ProposedEvaluator:
    name = re.sub(r"\W+", "_", item["name"]).strip("_").lower()[:80]
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(
            f"The model named an evaluator {item['name'][:80]!r}, which is not a valid name."
        )
    fields: dict[str, Any] = {
        "name": name,
        "why": " ".join(item["why"].split())[:500],
        "made_by": f"llm {model}",
    }
    code, criteria = item["code"].strip(), [criterion.strip() for criterion in item["criteria"]]
    marks = marks_in("\n".join([name, code, *criteria]))
    if marks:
        raise InputError(
            f"The evaluator {name!r} was dropped: it holds {', '.join(marks)} in place of a value"
            " that was redacted for the model."
        )
    if code:
        if item["name"] != name:
            code = re.sub(rf"\b{re.escape(item['name'])}\b", name, code)
        arguments_of(code, name)
        return ProposedEvaluator(**fields, source=code + "\n")
    if not any(criteria):
        raise InputError(f"The evaluator {name!r} has neither code nor criteria.")
    options = {"criteria": [criterion for criterion in criteria if criterion]}
    return ProposedEvaluator(**fields, use="judge", options=options)


def _described(examples: Sequence[KnownOutput], agent: str, existing: Sequence[str]) -> str:
    parts = ["The agent:", shorten(agent, SOURCE_CHARACTERS), ""]
    if existing:
        parts += ["Existing evaluators, which yours must not repeat:", *existing, ""]
    kinds = Counter(_kind(example.output) for example in examples)
    types = ", ".join(f"{kind} ({count} of {len(examples)})" for kind, count in kinds.most_common())
    parts += [f"What `output` is: {types}.", "", "Some of its outputs:"]
    for number, example in enumerate(_chosen(examples), start=1):
        verdict = {True: "good", False: "bad", None: "not known to be good or bad"}[example.good]
        if example.is_near_miss:
            verdict = f"a near miss: wrong in a part, score {example.score:.2f}"
        parts += [
            "",
            f"## {number} ({verdict})",
            f"input: {_shown(example.input)}",
            f"output: {_shown(example.output)}",
        ]
        if example.expected is not None:
            parts.append(f"expected: {_shown(example.expected)}")
    return "\n".join(parts)


def _kind(output: Any) -> str:
    """The type of an output that a function gets."""
    if isinstance(output, str) and data_of(output) is not None:
        return "str that holds JSON"
    return "None" if output is None else type(output).__name__


def _chosen(examples: Sequence[KnownOutput]) -> list[KnownOutput]:
    """Good examples, and bad ones, mostly near misses: crude failures are easy to detect."""
    near = [example for example in examples if example.is_near_miss][: EXAMPLES_SHOWN // 3]
    crude = [example for example in examples if example.good is False][
        : EXAMPLES_SHOWN // 2 - len(near)
    ]
    acceptable = [
        example for example in examples if example.good is not False and not example.is_near_miss
    ]
    acceptable.sort(key=lambda example: example.good is None)
    return [*acceptable[: EXAMPLES_SHOWN - len(near) - len(crude)], *near, *crude]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, VALUE_LIMIT)
