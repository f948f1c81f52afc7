"""What is redacted, as a project says it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ratchet.observe.redaction.rules import NAMES
from ratchet.types import ConfigError


class RedactionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is redacted, as `[redaction]` of a `ratchet.toml` says it."""

    enabled: bool = True
    """False leaves everything as it is."""
    rules: tuple[str, ...] = ()
    """Names of the rules that hold; all when empty. With a minus before each: all but those."""
    keys: tuple[str, ...] = ()
    """Further names of fields, or ends of their paths, with `*` for anything within a name."""
    patterns: dict[str, str] = {}
    """Further regular expressions, by name."""
    allow: tuple[str, ...] = ()
    """What may stay although a rule finds it, with `*` for anything."""
    pseudonyms: bool = False
    """Whether equal values stay equal: a short keyed hash stands with the rule's name."""
    capture_content: bool = True
    """False keeps the structure of spans alone."""


def active_rules(rules: Sequence[str]) -> frozenset[str]:
    """The built-in rules that hold.

    Args:
        rules: `RedactionRules.rules`.

    Raises:
        ConfigError: There is no such rule, or some are named to hold and others not to.
    """
    unknown = [name for name in rules if name.removeprefix("-") not in NAMES]
    if unknown:
        raise ConfigError(
            f"[redaction] rules: there is no rule {unknown[0]!r}.",
            hint=f"Known: {', '.join(NAMES)}.",
        )
    without = {name[1:] for name in rules if name.startswith("-")}
    if without and len(without) < len(set(rules)):
        raise ConfigError(
            "[redaction] rules names some to hold and some not to.",
            hint="Name those that hold, or those that do not, each with a minus before it.",
        )
    return frozenset(NAMES) - without if without or not rules else frozenset(rules)
