"""Files that hold prompts, which need no declaration in the agent's code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from ratchet.types.template import Engine

FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*\r?\n", re.DOTALL)
"""What may precede the prompt at the beginning of a text file."""


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

    def prompt_name(self, keys: Iterable[str | int] = ()) -> str:
        """Name of the prompt at some keys of the file, or of the whole file."""
        stem = self.name or PurePosixPath(self.path).stem
        return re.sub(r"[^\w.-]", "-", ".".join([stem, *map(str, keys)]))


class RenderedFile(msgspec.Struct, frozen=True):
    """The content of a prompt file with a release's texts."""

    path: str
    """Relative to the project's folder."""
    source: str
    """SHA-256 of the original content of the file that it was made from."""
    content: bytes


class RenderedFiles(msgspec.Struct, frozen=True):
    """The prompt files that a release changes."""

    release_id: str
    files: tuple[RenderedFile, ...] = ()
    refusal: str = ""
    """Why they could not be made; empty if they could."""
