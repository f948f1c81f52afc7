"""Prompt templates for the coach: text files that share a version; and the answer "NO CHANGE"."""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping
from importlib.resources import files

from ratchet.types import content_hash

_DECLINES = re.compile(
    r"\A\W*no[ _-]?changes?(?: (?:is|are) (?:needed|required|necessary))?\s*(?:[^\w\s]|\n|\Z)",
    re.IGNORECASE,
)


class CoachPrompts:
    """The prompt templates of one algorithm.

    Args:
        package: The package whose folder `prompts` holds the files `NAME.md`.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    @functools.cached_property
    def _texts(self) -> Mapping[str, str]:
        folder = files(self._package).joinpath("prompts")
        return {
            file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
            for file in folder.iterdir()
            if file.name.endswith(".md")
        }

    @functools.cached_property
    def version(self) -> str:
        """Hash of all templates; part of the journal keys of coach calls."""
        return content_hash(dict(sorted(self._texts.items())))[:8]

    def fill(self, name: str, **fields: str) -> str:
        """A prompt with its `$fields` substituted verbatim."""
        return string.Template(self._texts[name]).substitute(fields).strip() + "\n"


def declines(answer: str) -> bool:
    """Whether a coach answers that nothing should change."""
    has_text = "```" in answer or "<<<<<<<" in answer
    return bool(_DECLINES.match(answer.strip())) and not has_text
