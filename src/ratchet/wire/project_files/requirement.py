"""The requirement of Ratchet's SDK, as manifests write it."""

from __future__ import annotations

import re

PACKAGE = "agent-ratchet"
_LOWEST = (3, 11)
_BOUND = re.compile(r"(>=|>|\^|~=|~|==)\s*(\d+)\.(\d+)")
NAMED_REQUIREMENT = re.compile(r"""^[\s"'-]*agent[-_.]ratchet(?![\w-])""", re.IGNORECASE)


def requirement(version: str, python: str = "") -> str:
    """The requirement in pip's format.

    Args:
        version: The lowest version.
        python: The project's own constraint of Python; where that allows versions that Ratchet does
            not run on, the requirement has a marker, so that the project still resolves.
    """
    marker = "; python_version >= '3.11'" if allows_older(python) else ""
    return f"{PACKAGE}>={version}{marker}"


def poetry_line(version: str, python: str = "") -> str:
    """The requirement in Poetry's format."""
    if allows_older(python):
        return f'{PACKAGE} = {{ version = ">={version}", python = ">=3.11" }}'
    return f'{PACKAGE} = ">={version}"'


def allows_older(python: str) -> bool:
    """Whether a constraint on Python allows versions below Ratchet's lowest."""
    lowest = [(int(major), int(minor)) for _, major, minor in _BOUND.findall(python)]
    return bool(lowest) and max(lowest) < _LOWEST


def excludes_all(python: str) -> bool:
    """Whether a constraint on Python allows no version that Ratchet runs on."""
    bounds = re.findall(r"(<=?|==)\s*(\d+)\.(\d+)", python)
    return any(
        (int(major), int(minor), operator != "<") < (*_LOWEST, True)
        for operator, major, minor in bounds
    )
