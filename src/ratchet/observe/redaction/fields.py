"""Fields: which keys of attributes and of JSON hold what is not to be stored."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fnmatch import translate
from typing import TypeAlias

from ratchet.types import ConfigError

Path: TypeAlias = tuple[str, ...]
"""The names from the outside to the inside; places in a list do not count."""

SECRET_NAMES = frozenset(
    {
        *("authorization", "authentication", "cookie", "setcookie", "cookies", "credential"),
        *("credentials", "connectionstring", "sharedaccesskey", "jwt", "bearer"),
        *("cvv", "cvv2", "cvc", "cardnumber", "creditcardnumber", "creditcard", "iban"),
        *("ssn", "socialsecuritynumber", "xauth", "pwd", "passwd", "secretaccesskey"),
    }
)
"""Names without their dashes, dots and underscores, in small letters."""

SECRET_ENDS = (
    *("password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "privatekey"),
    *("secretkey", "accesskey", "signingkey", "encryptionkey", "accountkey", "authkey"),
    *("authorization", "connectionstring", "clientsecret", "masterkey"),
)
"""Ends of such names."""

NUMBERS_TOO = re.compile(r"(?:password|passcode|passwd|pwd|cvv2?|cvc|ssn|number|pin)\Z").search
"""Names whose numbers are secret as well. A `token` that is a number is a token of a language."""

MOST_KEYS = 200
LONGEST_KEY = 200

_SEPARATORS = re.compile(r"[-_ .:]+")


@functools.lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """A name as the lists above have it."""
    return _SEPARATORS.sub("", name[-100:]).lower()


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a key of this name holds a secret, whoever uses it."""
    name = plain_name(name)
    return name in SECRET_NAMES or name.endswith(SECRET_ENDS)


@functools.lru_cache(maxsize=4096)
def path_of(key: str) -> Path:
    """A key of an attribute as a path: what stands between its dots, without numbers."""
    return tuple(part for part in key[:500].split(".") if part and not part.isdigit())


class Fields:
    """Which fields are secret: the ones that go by usual names, and those that a project names.

    Args:
        keys: Names, or ends of paths as `headers.cookie`; `*` stands for anything within a name.
            One that begins with `$.` is a whole path, from the attribute on.
        usual: Whether the usual names count.
    """

    def __init__(self, keys: Sequence[str] = (), *, usual: bool = True) -> None:
        self._usual = usual
        self._whole: list[list[re.Pattern[str]]] = []
        self._ends: list[list[re.Pattern[str]]] = []
        self.names: list[str] = []
        """What the named ones end with, as far as it says anything: to look for it in text."""
        for key in keys:
            given = key.removeprefix("$.")
            compiled = [re.compile(translate(part), re.IGNORECASE) for part in given.split(".")]
            (self._whole if given != key else self._ends).append(compiled)
            pieces = [piece for part in given.split(".") for piece in part.split("*") if piece]
            self.names.append(pieces[-1].lower() if pieces else "")

    def is_secret(self, path: Path) -> bool:
        """Whether what stands there is secret."""
        if not path:
            return False
        if self._usual and is_secret_name(path[-1]):
            return True
        return any(_fits(one, path[-len(one) :]) for one in self._ends) or any(
            _fits(one, path) for one in self._whole
        )

    def is_named(self, path: Path) -> bool:
        """Whether a project named it, not we."""
        return any(_fits(one, path[-len(one) :]) for one in self._ends) or any(
            _fits(one, path) for one in self._whole
        )


def _fits(compiled: Sequence[re.Pattern[str]], path: Path) -> bool:
    return len(compiled) == len(path) and all(
        pattern.match(part) for pattern, part in zip(compiled, path, strict=True)
    )


def checked_keys(keys: Sequence[str]) -> Sequence[str]:
    """The keys, when there are not too many and each names a field.

    Raises:
        ConfigError: One does not.
    """
    if len(keys) > MOST_KEYS:
        raise ConfigError(f"[redaction] names {len(keys)} keys; {MOST_KEYS} may be.")
    for key in keys:
        if not 0 < len(key) <= LONGEST_KEY or not key.replace("*", "").strip(".$ "):
            raise ConfigError(
                f"[redaction] keys: {key!r} names no field.",
                hint='Name fields as "headers.cookie", "*.token" or "customer_name".',
            )
    return keys
