"""Novelty: which candidates of a search say something that none before them said."""

from __future__ import annotations

import ast

from ratchet.learn.checks.prompt_text import said
from ratchet.types import Candidate, Code, PromptTemplate, Resource, content_hash, version_of


class Novelty:
    """The candidates seen so far."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def is_new(self, candidate: Candidate) -> bool:
        """Whether a candidate differs from all earlier ones in more than form; records it."""
        form = content_hash({name: _form(r) for name, r in candidate.resources.items()})
        if form in self._seen:
            return False
        self._seen.add(form)
        return True


def _form(resource: Resource) -> str:
    """A text that is equal for resources that say the same."""
    if isinstance(resource, PromptTemplate):
        return " ".join([resource.engine, *said(resource.text)])
    return (
        ast.dump(ast.parse(resource.source)) if isinstance(resource, Code) else version_of(resource)
    )
