"""The requirement of Ratchet's own package, as each manifest writes it."""

from __future__ import annotations

import re

from ratchet._version import __version__

PACKAGE = "agent-ratchet"
_LOWEST = (3, 11)
TOO_OLD = "Ratchet needs Python 3.11 or newer, which the project does not allow. Allow it first."
_BOUND = re.compile(r"(>=|>|\^|~=|~|==)\s*(\d+)\.(\d+)")
NAMED = re.compile(r"""^[\s"'-]*agent[-_.]ratchet(?![\w-])""", re.IGNORECASE)


def constraint() -> str:
    """Such as `>=0.1`: releases that know what this one writes. Empty for a build between them."""
    found = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)*", __version__)
    return f">={found[1]}" if found else ""


def requirement(python: str = "") -> str:
    """As pip reads it.

    Args:
        python: The project's own constraint of Python; where that allows versions that Ratchet does
            not run on, the requirement has a marker, so that the project still resolves.
    """
    marker = "; python_version >= '3.11'" if allows_older(python) else ""
    return f"{PACKAGE}{constraint()}{marker}"


def allows_older(python: str) -> bool:
    """Whether a constraint of Python allows versions below Ratchet's lowest."""
    lowest = [(int(major), int(minor)) for _, major, minor in _BOUND.findall(python)]
    return bool(lowest) and max(lowest) < _LOWEST


def excludes_all(python: str) -> bool:
    """Whether a constraint of Python allows no version that Ratchet runs on."""
    for operator, major, minor in re.findall(r"(<=?|==)\s*(\d+)\.(\d+)", python):
        bound = (int(major), int(minor))
        if bound < _LOWEST or (operator == "<" and bound == _LOWEST):
            return True
    return False
