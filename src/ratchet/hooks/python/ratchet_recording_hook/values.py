"""Copies of values as JSON: bounded, and without secrets."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import os
import pathlib
import re
import uuid
from typing import Any

from .journal import harmless

TEXT = 20_000
ITEMS = 200
DEPTH = 8
TOTAL = 200_000
"""Maximum length of a text, number of items, depth, and total length; lengths in characters."""

_SECRET_NAME = re.compile(
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|api_?key|private_?key|secret_?key"
    r"|access_?key|auth_?key|authorization|credentials?|connection_?string|cookie|bearer|dsn)s?$",
    re.IGNORECASE,
)
_SECRET_FORM = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_\-]{16,}|gsk_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_\-]{30,}|hf_[A-Za-z0-9]{25,}|xox[abeoprs]-[A-Za-z0-9\-]{10,}"
    r"|eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]*)"
)
_SHORTEST = 8
"""Characters of the shortest variable's value that is looked for in texts."""
_AS_TEXT = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, pathlib.PurePath)


def is_secret_name(name: str) -> bool:
    """Whether a key, parameter or variable of that name holds a secret."""
    looks_secret = _SECRET_NAME.search(name.replace("-", "_")) is not None
    return looks_secret and name not in ("PWD", "OLDPWD")


def without_secrets(text: str) -> str:
    """A text in which keys, and the values of variables that hold secrets, are replaced."""
    for name, value in list(os.environ._data.items()):  # type: ignore[attr-defined] # no reading
        name, value = os.fsdecode(name), os.fsdecode(value)
        if len(value) >= _SHORTEST and value in text and is_secret_name(name):
            text = text.replace(value, f"[redacted:{name}]")
    return _SECRET_FORM.sub("[redacted:key]", text)


def type_name(value: Any) -> str:
    """Qualified name of a value's type."""
    kind = type(value)
    module = getattr(kind, "__module__", "builtins")
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


class Copy:
    """A copy in the making."""

    def __init__(self) -> None:
        self.whole = True
        self._left = TOTAL
        self._above: list[int] = []

    def of(self, value: Any, name: str = "") -> Any:
        """The JSON of a value; None, and not `whole`, where there is none."""
        if name and is_secret_name(name) and value is not None:
            return self._cut("[redacted]")
        if value is None or (isinstance(value, (bool, int)) and not isinstance(value, enum.Enum)):
            return value
        if isinstance(value, str) and not isinstance(value, enum.Enum):
            return self._text(str(value))
        if isinstance(value, float):
            return value if math.isfinite(value) else self._cut(None)
        if id(value) in self._above or len(self._above) > DEPTH or self._left <= 0:
            return self._cut(None)
        self._above.append(id(value))
        try:
            return self._composed(value)
        except Exception:  # a property of theirs may raise anything
            return self._cut(None)
        finally:
            self._above.pop()

    def _composed(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, _AS_TEXT):
            return str(value)
        if isinstance(value, dict):
            return self._fields(value.items())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields(zip(value._fields, value))
        if isinstance(value, (list, tuple, set, frozenset)):
            if len(value) > ITEMS:
                self.whole = False
            return [self.of(item) for item, _ in zip(value, range(ITEMS))]
        if isinstance(value, type):
            return self._cut(None)
        dumped = getattr(value, "model_dump", None)
        if callable(dumped):  # pydantic 2, and with it LangChain's messages
            return self.of(dumped())
        if hasattr(value, "__fields__") and callable(getattr(value, "dict", None)):  # pydantic 1
            return self.of(value.dict())
        names = _field_names(value)
        if names is None:
            return self._cut(None)
        return self._fields((name, getattr(value, name)) for name in names)

    def _fields(self, pairs: Any) -> Any:
        copied: dict[str, Any] = {}
        for name, value in pairs:
            if len(copied) >= ITEMS:
                self.whole = False
                break
            if not isinstance(name, str) or isinstance(name, enum.Enum):
                self.whole = False
            copied[str(name)] = self.of(value, str(name))
        return copied

    def _text(self, text: str) -> str:
        redacted = without_secrets(text)
        if len(redacted) > TEXT:
            redacted = redacted[:TEXT]
        if redacted != text:
            self.whole = False
        self._left -= len(redacted)
        return redacted

    def _cut(self, value: Any) -> Any:
        self.whole = False
        return value


def _field_names(value: Any) -> Any:
    """Names of the fields of a dataclass, an attrs class or a msgspec struct; None of others."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    return getattr(kind, "__struct_fields__", None)


@harmless({"value": None, "whole": False, "type": ""})
def copied(value: Any, name: str = "") -> dict[str, Any]:
    """The copy of a value: `value`, `whole`, `type`."""
    copy = Copy()
    copied_value = copy.of(value, name)
    return {"value": copied_value, "whole": copy.whole, "type": type_name(value)}
