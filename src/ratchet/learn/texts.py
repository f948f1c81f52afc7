"""Converts between a candidate's resources and texts by name, as libraries expect them."""

from __future__ import annotations

from ratchet.learn.search.placeholders import mended
from ratchet.types import Code, InputError, PromptTemplate, Resource


def with_text(resource: Resource, text: str) -> Resource:
    """The resource with another text; respelt placeholders are normalised.

    Raises:
        InputError: The text is invalid: a placeholder is missing, or the code does not parse.
    """
    if isinstance(resource, PromptTemplate):
        if text == resource.text:
            return resource
        if not text.strip():
            raise InputError("The prompt is empty.")
        template, problem = mended(text, resource)
        if template is None:
            raise InputError(problem)
        return template
    if isinstance(resource, Code):
        return Code(source=text, function=resource.function)
    raise InputError("Only prompts and code are texts.")
