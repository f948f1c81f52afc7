"""Models whose end a provider has announced: from a dated table, and from `genai-prices`."""

from __future__ import annotations

import datetime
import functools
import re
import shlex
import tomllib
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from ratchet.llm.prices import MAX_NAME, is_flagged

_SEPARATORS = re.compile("[/:]")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The announced end of a model."""

    model: str
    """The name under which the model was looked up."""
    on: datetime.date | None
    """First day without it; None if only its deprecation is known."""
    instead: str = ""
    """What its provider recommends instead; empty if unknown."""
    source: str
    """Source of the announcement."""

    def is_past(self, today: datetime.date) -> bool:
        """Whether the model is no longer available."""
        return self.on is not None and self.on <= today

    def sentence(self, today: datetime.date) -> str:
        """The announcement, in a sentence."""
        if self.on is None:
            return f"{self.model} is deprecated; the date of its end is not known."
        day = f"{self.on.day} {self.on:%B %Y}"
        if self.is_past(today):
            return f"{self.model} ended on {day}."
        days = (self.on - today).days
        return f"{self.model} ends on {day}, in {days} day{'' if days == 1 else 's'}."

    def command(self) -> str:
        """The command that moves an agent to another model, if that is proved to be no worse."""
        return f"ratchet migrate --from {shlex.quote(self.model)} --to {self.instead or 'MODEL'}"


class _Announced(NamedTuple):
    on: datetime.date
    instead: str
    source: str
    sold_as: frozenset[str]


@functools.lru_cache(maxsize=4096)
def ending_of(model: str, provider: str = "") -> Ending | None:
    """The announced end of a model; None if none is known.

    A provider that sells the model by a schedule of its own, such as Azure, has none in the table.

    Args:
        model: Its name in requests, in answers or in code; `openai/NAME`, `ft:NAME:acme` and
            `models/NAME` say who sells it.
        provider: Who answers it, as spans name it, or the URL of its API; empty if unknown.
    """
    if not model or len(model) > MAX_NAME:
        return None
    seller = provider.lower()
    if "://" in seller:
        seller = urlsplit(seller).hostname or ""
    *sold_as, name = _named(model)
    announced = _announced().get(_spelled(name))
    if announced is not None:
        sellers = {*sold_as, seller} - {""}
        if not sellers <= announced.sold_as:
            return None
        return Ending(
            model=model, on=announced.on, instead=announced.instead, source=announced.source
        )
    if is_flagged(provider, model):
        return Ending(model=model, on=None, source="the prices included with Ratchet")
    return None


def _named(model: str) -> list[str]:
    """The seller that a model's name states, and the plain name after it."""
    sellers = {seller for announced in _announced().values() for seller in announced.sold_as}
    parts = _SEPARATORS.split(model.lower())
    count = next((at for at, part in enumerate(parts) if part not in sellers), len(parts) - 1)
    return parts[: count + 1]


def _spelled(name: str) -> str:
    # OpenRouter writes the version of an Anthropic model with a dot, Anthropic with a hyphen.
    return name.replace(".", "-")


@functools.cache
def _table() -> dict[str, Any]:
    text = (files("ratchet.llm") / "model_endings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@functools.cache
def _announced() -> dict[str, _Announced]:
    """Announced ends, by the model's normalised name."""
    return {
        _spelled(model): _Announced(
            ending["on"],
            ending.get("instead", ""),
            provider["source"],
            frozenset(provider["sold_as"]),
        )
        for provider in _table().values()
        if isinstance(provider, dict)
        for ending in provider["endings"]
        for model in ending["models"]
    }
