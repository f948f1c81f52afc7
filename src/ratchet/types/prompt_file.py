"""Files that hold prompts, which need no declaration in the agent's code."""

from __future__ import annotations

import msgspec

from ratchet.types.template import Engine


class PromptFile(msgspec.Struct, frozen=True):
    """A file whose text, or some of whose fields, are prompts.

    Args:
        path: Its path, relative to the project's folder.
        fields: Keys that lead to each prompt in a YAML, TOML or JSON file, joined by dots; empty
            for the whole file as one prompt.
        engine: Syntax of the texts. None: f-string or jinja2 where a text has such placeholders,
            else plain.
        name: First part of the resources' names; the file's stem when empty.
    """

    path: str
    fields: tuple[str, ...] = ()
    engine: Engine | None = None
    name: str = ""
