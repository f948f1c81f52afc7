"""What a user may choose about a search."""

from __future__ import annotations

import msgspec


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `Evolve` that the search looks at as it goes."""

    examples: int = 6
    """Examples that a critique is shown, at most."""
    crossover: float = 0.2
    """Share of the coach's proposals that combine two candidates."""
    migrate_every: int = 10
    """Candidates kept after which the best of each island visits the next."""
    max_candidates: int | None = None
    patience: int | None = None
    """Candidates judged in a row without a better best after which the search ends."""
    max_growth: float = 4.0
    """How many times as long as the source's own a text may become."""
