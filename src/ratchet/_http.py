"""The HTTP library that is installed: httpx2, or httpx where an agent's own packages hold it back.

The package openai brings one of them, older versions httpx.
"""

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
