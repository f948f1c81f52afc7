"""The package's source, parsed once for all tests that read it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import ratchet

SOURCE = Path(ratchet.__file__).parent


@functools.cache
def source_trees() -> dict[Path, tuple[str, ast.Module]]:
    """Text and syntax tree of each module of the package, in the order of their paths."""
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    return {path: (text, ast.parse(text)) for path, text in texts.items()}
