"""Where the runs of a check keep compiled modules: a framework is not compiled anew in each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ENOUGH = 0.5
"""Share of an environment's packages that are compiled, from which on nothing is to be gained."""


@contextmanager
def compiled_once(python: Path) -> Iterator[dict[str, str]]:
    """Variables of the runs. Nothing is written beside the packages or the project's modules.

    Packages that were just installed are often not compiled; then the first run compiles them, into
    a folder that is removed at the end.

    Args:
        python: The interpreter of the environment.
    """
    if _is_compiled(python):
        yield {}
        return
    with tempfile.TemporaryDirectory(
        prefix="ratchet-bytecode-", ignore_cleanup_errors=True
    ) as made:
        yield {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": made}


def _is_compiled(python: Path) -> bool:
    packages = [
        one.parent
        for folder in python.parent.parent.glob("lib/python3*/site-packages")
        for one in folder.glob("*/__init__.py")
    ]
    compiled = sum((one / "__pycache__").is_dir() for one in packages)
    return compiled >= _ENOUGH * len(packages)
