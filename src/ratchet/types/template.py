"""Prompt templates: text with f-string or Jinja2 placeholders."""

from __future__ import annotations

import functools
import string
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.types.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template

Engine = Literal["f-string", "jinja2"]


class PromptTemplate(msgspec.Struct, frozen=True, tag="prompt"):
    """Text with placeholders.

    Args:
        text: The template. f-string form writes `{name}` and doubles literal braces; Jinja2 form
            writes `{{ name }}`.
        engine: Which of the two forms `text` has.

    Raises:
        InputError: The text is not a template of that form.
    """

    text: str
    engine: Engine = "f-string"

    def __post_init__(self) -> None:
        _placeholders(self.text, self.engine)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names that `format` must be given."""
        return _placeholders(self.text, self.engine)

    def check_fields(self, fields: frozenset[str] | set[str]) -> None:
        """Raise InputError when a placeholder has no field of that name."""
        missing = sorted(self.placeholders - fields)
        if missing:
            raise InputError(
                f"The prompt has a placeholder {{{missing[0]}}} that nothing fills;"
                f" the fields are {sorted(fields)}.",
                hint="Rename the placeholder, or double the braces if they are meant literally.",
            )

    def format(self, **fields: Any) -> str:
        """Fill the placeholders.

        Args:
            fields: A value for every placeholder; others are ignored.

        Raises:
            InputError: A placeholder has no field.
        """
        self.check_fields(fields.keys() | set())
        if self.engine == "jinja2":
            return _jinja(self.text).render(**fields)
        try:
            return string.Formatter().vformat(self.text, (), fields)
        except (ValueError, KeyError, AttributeError, IndexError, TypeError) as error:
            raise InputError(f"The prompt could not be filled: {error}.") from error

    def identity(self) -> Any:
        """What the version hash covers."""
        return {"kind": "prompt", "text": self.text, "engine": self.engine}

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=1024)
def _placeholders(text: str, engine: Engine) -> frozenset[str]:
    if engine == "jinja2":
        return _jinja_placeholders(text)
    if engine != "f-string":
        raise InputError(f"Prompt engine {engine!r} is neither 'f-string' nor 'jinja2'.")
    names: set[str] = set()
    try:
        for _, field, spec, _ in string.Formatter().parse(text):
            if field is None:
                continue
            name = field.split(".")[0].split("[")[0]
            if not name.isidentifier():
                raise ValueError(f"{{{field}}} is not a named placeholder")
            names.add(name)
            names |= _placeholders(spec, "f-string") if spec else frozenset()
    except ValueError as error:
        raise InputError(
            f"The prompt is not an f-string template: {error}.",
            hint='Double literal braces, or declare it with engine="jinja2".',
        ) from None
    return frozenset(names)


def _jinja_placeholders(text: str) -> frozenset[str]:
    from jinja2 import TemplateSyntaxError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        tree = ImmutableSandboxedEnvironment().parse(text)
    except TemplateSyntaxError as error:
        raise InputError(f"The prompt is not a Jinja2 template: {error}.") from None
    return frozenset(meta.find_undeclared_variables(tree))


@functools.lru_cache(maxsize=256)
def _jinja(text: str) -> Template:
    # A rewritten prompt is generated text: it may not reach attributes of what fills it.
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(text)
