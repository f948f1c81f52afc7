"""`ratchet.prompt`: declares a prompt that may evolve."""

from __future__ import annotations

import warnings
from typing import Any

from ratchet.bind import context, registry
from ratchet.types import Declaration, InputError, PromptTemplate
from ratchet.types.template import Engine


class Prompt:
    """A named prompt; each use resolves to the candidate's, the release's or the source's."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: PromptTemplate) -> None:
        self.name = name
        self.default = default

    @property
    def template(self) -> PromptTemplate:
        """The template bound in the current context; its `text` has slots and doubled braces."""
        resource = context.resolve(self.name)
        return resource if isinstance(resource, PromptTemplate) else self.default

    def format(self, /, **fields: Any) -> str:
        """Fill the placeholders.

        Raises:
            InputError: A placeholder has no field. A released template that cannot be filled with
                the source's fields never raises: the source's template is used, with a warning.
        """
        template = self.template
        try:
            return template.format(**fields)
        except Exception:  # Jinja2 and the fields raise their own exceptions
            if template is self.default or context.current() is not None:
                raise
            warnings.warn(
                f"The released prompt {self.name!r} does not fit its fields {sorted(fields)};"
                " the source's own is used.",
                RuntimeWarning,
                stacklevel=2,
            )
            return self.default.format(**fields)

    def __str__(self) -> str:
        """The prompt as the model reads it; `template.text` is how it is written.

        Raises:
            InputError: It has open slots, which only `format` fills.
        """
        slots = sorted(self.default.placeholders)
        if slots:
            slot_list = ", ".join(f"{{{slot}}}" for slot in slots)
            fields = ", ".join(f"{slot}=…" for slot in slots)
            raise InputError(
                f"The prompt {self.name!r} has unfilled slots: {slot_list}.",
                hint=f"Fill them: .format({fields}). A framework that fills templates itself takes"
                " .template.text.",
            )
        return self.format()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __add__(self, text: str) -> str:
        return str(self) + text

    def __radd__(self, text: str) -> str:
        return text + str(self)

    def __mod__(self, values: object) -> str:
        raise InputError(
            f"The prompt {self.name!r} cannot be filled with %, since a percent sign in another "
            "version of it would be read as a slot.",
            hint="Write its slots as {name}, and fill them with .format(name=…).",
        )

    def __repr__(self) -> str:
        return f"ratchet.prompt({self.name!r}, {self.template.text!r})"


def prompt(name: str, default: str, *, engine: Engine = "f-string") -> Prompt:
    """Declare a prompt that may evolve.

    Args:
        name: Its name, unique in the agent.
        default: The current text, with `{placeholders}`.
        engine: `f-string`, `jinja2`, or `plain`: text without placeholders, whose braces mean
            nothing.

    Raises:
        InputError: The text is not a template of that form, or the name is taken.

    Example:
        >>> SYSTEM = prompt("system", "You are a booking assistant. {policy}")
        >>> SYSTEM.format(policy="Be brief.")
        'You are a booking assistant. Be brief.'
    """
    template = PromptTemplate(default, engine)
    frame = registry.caller()
    file, line = frame.f_code.co_filename, frame.f_lineno
    registry.declare(
        name, registry.site_of(frame, "prompt"), lambda: Declaration(name, template, file, line)
    )
    return Prompt(name, template)
