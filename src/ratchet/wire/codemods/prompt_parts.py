"""Which literals of a prompt are declared, and under which names."""

from __future__ import annotations

import re

from ratchet.wire.choices import PromptChoice
from ratchet.wire.facts import PromptPart


def named_parts(choice: PromptChoice) -> list[tuple[PromptPart, str]]:
    """The parts of a prompt that are texts of their own, each with its name."""
    parts = [part for part in choice.prompt.parts if part.end > part.start]
    if len(parts) > 1:  # what joins the parts is no text of its own
        parts = [part for part in parts if not part.text or re.search(r"\w", part.text)]
    if len(parts) == 1:
        return [(parts[0], choice.name)]
    fields = [re.sub(r"\W+", "_", part.field).strip("_") for part in parts]
    if all(fields) and len(set(fields)) == len(fields):
        return [
            (part, choice.name if field == "instructions" else f"{choice.name}.{field}")
            for part, field in zip(parts, fields, strict=True)
        ]
    return [(part, f"{choice.name}.{number}") for number, part in enumerate(parts, 1)]
