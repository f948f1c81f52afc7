"""Prompt templates: text with f-string or Jinja2 placeholders, or without any.

Templates are untrusted, since rewritten prompts are generated text: a template may print public
attributes and items of its values, but cannot reach Python's internals through them.
"""

from __future__ import annotations

import functools
import re
import string
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.types.errors import InputError
from ratchet.types.extras import extra

if TYPE_CHECKING:
    from jinja2 import Template

Engine = Literal["f-string", "jinja2", "plain"]


class _TakesTemplate(msgspec.StructMeta):
    """Accepts `template=` as an alias of `text=`, the name used by other trainers."""

    def __call__(cls, *args: Any, **keywords: Any) -> Any:  # noqa: N805 - a metaclass
        if "template" in keywords and "text" not in keywords and not args:
            keywords["text"] = keywords.pop("template")
        return super().__call__(*args, **keywords)


class PromptTemplate(msgspec.Struct, frozen=True, tag="prompt", metaclass=_TakesTemplate):
    """A prompt with placeholders.

    Args:
        text: The template. The f-string form uses `{name}` and doubles literal braces; the Jinja2
            form uses `{{ name }}`. Both refuse attributes that begin with an underscore or lead to
            frames and code. Plain text has no placeholders, and its braces mean nothing.
        engine: Syntax of `text`.

    Raises:
        InputError: The text is not a template of that form.
    """

    text: str
    engine: Engine = "f-string"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"A prompt is text, not {type(self.text).__name__}.")
        _placeholders(self.text, self.engine)

    @property
    def template(self) -> str:
        """Alias of `text`, as Agent Lightning names it."""
        return self.text

    @property
    def placeholders(self) -> frozenset[str]:
        """Names that `format` needs."""
        return _placeholders(self.text, self.engine)

    def check_fields(self, fields: frozenset[str] | set[str]) -> None:
        """Raise InputError if a placeholder has no field with its name."""
        missing = sorted(self.placeholders - fields)
        if missing:
            raise InputError(
                f"The prompt has a placeholder {{{missing[0]}}} that nothing fills;"
                f" the fields are {sorted(fields)}.",
                hint="Rename the placeholder, or double the braces if they are meant literally.",
            )

    def format(self, /, **fields: Any) -> str:
        """Fill the placeholders.

        Args:
            fields: A value for every placeholder; others are ignored.

        Raises:
            InputError: A placeholder has no field, or cannot be filled with it.
        """
        self.check_fields(fields.keys() | set())
        if self.engine == "plain":
            return self.text
        try:
            if self.engine == "jinja2":
                return _jinja(self.text).render(fields)
            return string.Formatter().vformat(self.text, (), fields)
        except Exception as error:  # a value's own __format__ may raise anything
            raise InputError(
                f"The prompt could not be filled: {type(error).__name__}: {error}."
            ) from error

    def identity(self) -> Any:
        """Content of the version hash."""
        return {"kind": "prompt", "text": self.text, "engine": self.engine}

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=1024)
def _placeholders(text: str, engine: Engine) -> frozenset[str]:
    if engine == "jinja2":
        return _jinja_placeholders(text)
    if engine == "plain":
        return frozenset()
    if engine != "f-string":
        raise InputError(f"Prompt engine {engine!r} is not 'f-string', 'jinja2' or 'plain'.")
    try:
        return frozenset(_fields(text, nested=False))
    except (ValueError, KeyError) as error:
        raise InputError(
            f"The prompt is not an f-string template: {error}.",
            hint='Double literal braces, or declare it with engine="plain", or engine="jinja2".',
        ) from None


def _fields(text: str, *, nested: bool) -> set[str]:
    names: set[str] = set()
    for _, field, spec, conversion in string.Formatter().parse(text):
        if field is None:
            continue
        if nested and spec and "{" in spec:
            raise ValueError("format specifications are nested more than once")
        name = re.split(r"[.\[]", field, maxsplit=1)[0]
        if not name.isidentifier():
            raise ValueError(f"{{{field}}} is not a named placeholder")
        if conversion not in (None, "r", "s", "a"):
            raise ValueError(f"{{{field}!{conversion}}}: only !r, !s and !a are allowed")
        if spec and re.search(r"\d{5}", spec):
            raise ValueError(f"{{{field}:{spec}}} pads to more than 9999 characters")
        string.Formatter().get_field(field, (), {name: _Anything()})
        names.add(name)
        if spec:
            names |= _fields(spec, nested=True)
    return names


_INTERNAL = frozenset(
    {"ag_code", "ag_frame", "cr_code", "cr_frame", "gi_code", "gi_frame", "tb_frame", "mro"}
    | {"f_back", "f_builtins", "f_code", "f_globals", "f_locals"}
)
"""Attributes with public names that lead to code and frames, and so to every module."""


class _Anything:
    """Placeholder value for checking a template: has every attribute and item except unsafe ones.

    Format strings read attributes of their values: `{x.__init__.__globals__}` would print a
    module's secrets. Jinja2's sandbox refuses the same names.
    """

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _INTERNAL:
            raise ValueError(f"it may not reach the attribute {name!r} of what fills it")
        return self

    def __getitem__(self, key: object) -> Any:
        return self


def _jinja_placeholders(text: str) -> frozenset[str]:
    with extra("jinja", 'A prompt with engine="jinja2"'):
        from jinja2 import TemplateSyntaxError, nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()
    try:
        # `jinja2.meta` would compile the template, which evaluates constant expressions such as
        # `10**9` repetitions of a string. Here it is only parsed.
        tree = environment.parse(text)
        for kind, registered in (
            (nodes.Filter, environment.filters),
            (nodes.Test, environment.tests),
        ):
            for call in tree.find_all(kind):
                if call.name not in registered:
                    what = kind.__name__.lower()
                    raise InputError(
                        f"The prompt is not a Jinja2 template: there is no {what} {call.name!r}."
                    )
        used = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}
        assigned = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        assigned |= {macro.name for macro in tree.find_all(nodes.Macro)}
        return frozenset(
            used - assigned - environment.globals.keys() - {"loop", "caller", "varargs"}
        )
    except TemplateSyntaxError as error:
        raise InputError(f"The prompt is not a Jinja2 template: {error.message}.") from None
    except (RecursionError, MemoryError):
        raise InputError("The prompt is not a Jinja2 template: it is nested too deeply.") from None


@functools.lru_cache(maxsize=256)
def _jinja(text: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(text)
