"""`ratchet.params`: declares numbers and choices that may evolve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.bind import context, registry
from ratchet.types import Declaration, InputError, Params
from ratchet.types.knobs import infer


class Knobs(Mapping[str, Any]):
    """Named params. Each attribute read returns the value bound in the current context."""

    __slots__ = ("_default", "_name")

    def __init__(self, name: str, default: Params) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_default", default)

    def _values(self) -> dict[str, Any]:
        default: Params = self._default
        resource = context.resolve(self._name)
        if not isinstance(resource, Params):
            return default.values
        # A release made before a knob was added lacks it: use the source's default.
        return (
            resource.values
            if resource.values.keys() == default.values.keys()
            else {k: resource.values.get(k, v) for k, v in default.values.items()}
        )

    def __getattr__(self, knob: str) -> Any:
        try:
            return self._values()[knob]
        except KeyError:
            raise AttributeError(
                f"params {self._name!r} has no knob {knob!r}; it has {sorted(self._default.space)}"
            ) from None

    def __setattr__(self, knob: str, value: Any) -> None:
        raise AttributeError(
            f"params {self._name!r} is read-only; change the default in the source"
        )

    def __getitem__(self, knob: str) -> Any:
        return self._values()[knob]

    def __reduce__(self) -> tuple[type[Knobs], tuple[str, Params]]:
        # Immutable slots do not survive copying or pickling.
        return Knobs, (self._name, self._default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._default.space)

    def __len__(self) -> int:
        return len(self._default.space)

    def __repr__(self) -> str:
        return f"ratchet.params({self._name!r}, {self._values()!r})"


def params(name: str, /, **knobs: Any) -> Knobs:
    """Declare numbers and choices that may evolve.

    Args:
        name: Their name, unique in the agent.
        knobs: An Int, Float, Choice or Bool each, or a bare value whose range is inferred (see
            `ratchet.types.knobs.infer`).

    Raises:
        InputError: A default lies outside its bounds, a knob is named like a method of mappings, or
            the name is taken.

    Example:
        >>> from ratchet import Int
        >>> KNOBS = params("search", k=Int(5, 1, 20))
        >>> KNOBS.k
        5
    """
    for knob in knobs:
        if hasattr(Knobs, knob):
            raise InputError(
                f"A knob of params {name!r} cannot be named {knob!r}: params are a mapping, and "
                "mappings have a method with that name.",
                hint="Give it another name.",
            )
    default = Params({knob: infer(f"{name}.{knob}", value) for knob, value in knobs.items()})
    frame = registry.caller()
    file, line = frame.f_code.co_filename, frame.f_lineno
    registry.declare(
        name, registry.site_of(frame, "params"), lambda: Declaration(name, default, file, line)
    )
    return Knobs(name, default)
