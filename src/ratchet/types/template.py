"""Prompt templates: text with f-string or Jinja2 placeholders.

A rewritten prompt is generated text, so a template is never trusted: it may print what fills it
with its public attributes and items, but not reach Python's internals through that.
"""

from __future__ import annotations

import functools
import re
import string
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.types.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template

Engine = Literal["f-string", "jinja2"]


class _TakesTemplate(msgspec.StructMeta):
    """Lets `template=` stand for `text=`, as trainers elsewhere call it."""

    def __call__(cls, *args: Any, **named: Any) -> Any:  # noqa: N805 - a metaclass
        if "template" in named and "text" not in named and not args:
            named["text"] = named.pop("template")
        return super().__call__(*args, **named)


class PromptTemplate(msgspec.Struct, frozen=True, tag="prompt", metaclass=_TakesTemplate):
    """Text with placeholders.

    Args:
        text: The template. f-string form writes `{name}` and doubles literal braces; Jinja2 form
            writes `{{ name }}`. Attributes that begin with an underscore, or lead to frames and
            code, are refused in both.
        engine: Which of the two forms `text` has.

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
        """The text, under the name that it has in Agent Lightning."""
        return self.text

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

    def format(self, /, **fields: Any) -> str:
        """Fill the placeholders.

        Args:
            fields: A value for every placeholder; others are ignored.

        Raises:
            InputError: A placeholder has no field, or cannot be filled with it.
        """
        self.check_fields(fields.keys() | set())
        try:
            if self.engine == "jinja2":
                return _jinja(self.text).render(fields)
            return string.Formatter().vformat(self.text, (), fields)
        except Exception as error:  # a format of the values' own types may raise anything
            raise InputError(
                f"The prompt could not be filled: {type(error).__name__}: {error}."
            ) from error

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
    try:
        return frozenset(_fields(text, nested=False))
    except (ValueError, KeyError) as error:
        raise InputError(
            f"The prompt is not an f-string template: {error}.",
            hint='Double literal braces, or declare it with engine="jinja2".',
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
            raise ValueError(f"{{{field}!{conversion}}}: there are only !r, !s and !a")
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
"""Public by name, but they lead to code, frames and through them to every module."""


class _Anything:
    """Stands for a value while a template is checked: has every attribute and item but unsafe ones.

    Format strings take attributes from whatever fills them: `{x.__init__.__globals__}` would print
    a module's secrets (Jinja2's sandbox refuses the same names).
    """

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _INTERNAL:
            raise ValueError(f"it may not reach the attribute {name!r} of what fills it")
        return self

    def __getitem__(self, key: object) -> Any:
        return self


def _jinja_placeholders(text: str) -> frozenset[str]:
    from jinja2 import TemplateSyntaxError, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()
    try:
        # Jinja2's own search for names compiles, which computes what is constant: `10**9` letters
        # of a text, say. A template is only looked at here.
        tree = environment.parse(text)
        for kind, known in ((nodes.Filter, environment.filters), (nodes.Test, environment.tests)):
            for call in tree.find_all(kind):
                if call.name not in known:
                    what = kind.__name__.lower()
                    raise InputError(
                        f"The prompt is not a Jinja2 template: there is no {what} {call.name!r}."
                    )
        used = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}
        made = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        made |= {macro.name for macro in tree.find_all(nodes.Macro)}
        return frozenset(used - made - environment.globals.keys() - {"loop", "caller", "varargs"})
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
