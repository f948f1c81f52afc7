"""Secret fields: attribute and JSON keys whose values are redacted."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fnmatch import translate
from typing import TypeAlias

from ratchet.types import ConfigError

FieldPath: TypeAlias = tuple[str, ...]
"""Names from the outermost to the innermost key, without list indexes."""

SECRET_NAMES = frozenset(
    {
        *("authorization", "authentication", "cookie", "setcookie", "cookies", "credential"),
        *("credentials", "connectionstring", "sharedaccesskey", "jwt", "bearer"),
        *("cvv", "cvv2", "cvc", "cardnumber", "creditcardnumber", "creditcard", "iban"),
        *("ssn", "socialsecuritynumber", "xauth", "pwd", "passwd", "secretaccesskey"),
    }
)
"""Names in lower case, without dashes, dots and underscores."""

SECRET_ENDS = (
    *("password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "privatekey"),
    *("secretkey", "accesskey", "signingkey", "encryptionkey", "accountkey", "authkey"),
    *("authorization", "connectionstring", "clientsecret", "masterkey"),
)
"""Suffixes of such names."""

NUMBERS_TOO = re.compile(r"(?:password|passcode|passwd|pwd|cvv2?|cvc|ssn|number|pin)\Z").search
"""Names whose numeric values are secret too. A numeric `token` is a model's token."""

MAX_KEYS = 200
MAX_KEY_LENGTH = 200

_SEPARATORS = re.compile(r"[-_ .:]+")


@functools.lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """A name in the form of the lists above."""
    return _SEPARATORS.sub("", name[-100:]).lower()


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a key of this name usually holds a secret."""
    name = plain_name(name)
    return name in SECRET_NAMES or name.endswith(SECRET_ENDS)


@functools.lru_cache(maxsize=4096)
def path_of(key: str) -> FieldPath:
    """An attribute key as a path: its parts between dots, without numbers."""
    return tuple(part for part in key[:500].split(".") if part and not part.isdigit())


class Fields:
    """Decides which fields are secret: those with common names, and those that a project names.

    Args:
        keys: Names, or ends of paths such as `headers.cookie`; `*` matches any part of a name. A
            key that begins with `$.` is a whole path, from the attribute on.
        usual: Whether fields with usual names are secret.
    """

    def __init__(self, keys: Sequence[str] = (), *, usual: bool = True) -> None:
        self._usual = usual
        self._whole: list[list[re.Pattern[str]]] = []
        self._ends: list[list[re.Pattern[str]]] = []
        self.names: list[str] = []
        """Literal ends of the project's keys, to search for in text; empty if a key has none."""
        for key in keys:
            pattern = key.removeprefix("$.")
            compiled = [re.compile(translate(part), re.IGNORECASE) for part in pattern.split(".")]
            (self._whole if pattern != key else self._ends).append(compiled)
            pieces = [piece for part in pattern.split(".") for piece in part.split("*") if piece]
            self.names.append(pieces[-1].lower() if pieces else "")

    def is_secret(self, path: FieldPath) -> bool:
        """Whether the value at a path is secret."""
        if not path:
            return False
        if self._usual and is_secret_name(path[-1]):
            return True
        if not self.names:
            return False
        return any(_fits(patterns, path[-len(patterns) :]) for patterns in self._ends) or any(
            _fits(patterns, path) for patterns in self._whole
        )

    def is_named(self, path: FieldPath) -> bool:
        """Whether one of the project's keys matches a path."""
        return any(_fits(patterns, path[-len(patterns) :]) for patterns in self._ends) or any(
            _fits(patterns, path) for patterns in self._whole
        )


def _fits(compiled: Sequence[re.Pattern[str]], path: FieldPath) -> bool:
    return len(compiled) == len(path) and all(
        pattern.match(part) for pattern, part in zip(compiled, path, strict=True)
    )


def checked_keys(keys: Sequence[str]) -> Sequence[str]:
    """Validate a project's keys.

    Raises:
        ConfigError: There are too many, or one names no field.
    """
    if len(keys) > MAX_KEYS:
        raise ConfigError(f"[redaction] names {len(keys)} keys; at most {MAX_KEYS} are allowed.")
    for key in keys:
        if not 0 < len(key) <= MAX_KEY_LENGTH or not key.replace("*", "").strip(".$ "):
            raise ConfigError(
                f"[redaction] keys: {key!r} is not a field name.",
                hint='Name fields as "headers.cookie", "*.token" or "customer_name".',
            )
    return keys
