"""The HTTP library: httpx2 where it is installed (new versions of openai bring it), else httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2
else:
    try:
        import httpx2
    except ImportError:
        import httpx as httpx2

__all__ = ["httpx2"]
