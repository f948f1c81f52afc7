"""Configuration of redaction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ratchet.observe.redaction.rules import RULE_NAMES
from ratchet.types import ConfigError


class RedactionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is redacted: the section `[redaction]` of `ratchet.toml`."""

    enabled: bool = True
    """False switches redaction off."""
    rules: tuple[str, ...] = ()
    """Names of the active rules; empty for all. Prefixed by a minus: all but these."""
    keys: tuple[str, ...] = ()
    """Further secret fields: names or ends of paths, with `*` for any part of a name."""
    patterns: dict[str, str] = {}
    """Further regular expressions, by name."""
    allow: tuple[str, ...] = ()
    """Texts that are never redacted, with `*` for anything."""
    pseudonyms: bool = False
    """Whether equal values stay recognisable: a short keyed hash follows the rule's name."""
    capture_content: bool = True
    """False stores the structure of spans without contents."""


def active_rules(rules: Sequence[str]) -> frozenset[str]:
    """The active built-in rules.

    Args:
        rules: `RedactionRules.rules`.

    Raises:
        ConfigError: A rule is unknown, or names with and without a minus are mixed.
    """
    unknown = [name for name in rules if name.removeprefix("-") not in RULE_NAMES]
    if unknown:
        raise ConfigError(
            f"[redaction] rules: there is no rule {unknown[0]!r}.",
            hint=f"Known: {', '.join(RULE_NAMES)}.",
        )
    without = {name[1:] for name in rules if name.startswith("-")}
    if without and len(without) < len(set(rules)):
        raise ConfigError(
            "[redaction] rules mixes names with and without a minus.",
            hint="Name either the rules to use, or those to leave out, each with a minus before "
            "it.",
        )
    return frozenset(RULE_NAMES) - without if without or not rules else frozenset(rules)
