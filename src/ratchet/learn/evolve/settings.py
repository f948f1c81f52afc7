"""User options of a search."""

from __future__ import annotations

import msgspec


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `Evolve` that apply during the search."""

    examples: int = 6
    """Maximum number of examples shown to a critique."""
    crossover: float = 0.2
    """Share of the coach's proposals that combine two candidates."""
    migrate_every: int = 10
    """Number of accepted candidates between migrations of each island's best to the next."""
    max_candidates: int | None = None
    patience: int | None = None
    """Number of candidates judged in a row without a better best after which the search ends."""
    max_growth: float = 4.0
    """Maximum length of a text, as a multiple of the source's own."""
