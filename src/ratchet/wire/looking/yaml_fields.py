"""Fields of a YAML file that are text for a model, with the bytes of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ratchet.wire.facts import Place, PromptPart

MAX_TEXT = 500_000
"""Characters of a file; of a larger one no fields are told."""

CREW = frozenset(
    {
        *("role", "goal", "backstory", "description", "expected_output"),
        *("system_template", "prompt_template", "response_template"),
    }
)
"""Fields that CrewAI puts into its prompts."""
AGENT = frozenset({"system_prompt", "instructions"})
"""Fields of an agent that a file describes, as those of Pydantic AI."""


def yaml_parts(
    path: str, text: str, keys: tuple[str, ...] = (), fields: frozenset[str] = frozenset()
) -> list[PromptPart]:
    """Fields of a file, in its order; none if it does not parse.

    Args:
        path: The file.
        text: Its text.
        keys: The keys that are read, outermost first; empty for the whole file.
        fields: Keys of texts, or of lists of them, that are wanted alone; empty for all long texts.
    """
    import yaml

    if len(text) > MAX_TEXT:
        return []
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    parts = []
    for names, node in _scalars(root, (), set()):
        wanted = (
            next((one for one in reversed(names) if not one.isdigit()), "") in fields
            if fields
            else all(key in names for key in keys)
            and len(re.findall(r"[^\W\d_]{2,}", node.value)) > 3
        )
        if wanted:
            start, end = node.start_mark.index, node.end_mark.index
            end = start + len(text[start:end].rstrip())
            parts.append(
                PromptPart(
                    ".".join(names),
                    Place(path, node.start_mark.line + 1),
                    len(text[:start].encode()),
                    len(text[:end].encode()),
                    node.value,
                )
            )
    return parts


def _scalars(
    node: Any, names: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Strings that stand under a key, with their keys and numbers."""
    import yaml

    if id(node) in seen:
        return  # an alias: what it names stands elsewhere
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield from _scalars(value, (*names, key.value), seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _scalars(value, (*names, str(number)), seen)
    elif names and isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
        yield names, node
