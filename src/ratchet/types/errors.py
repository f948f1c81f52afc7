"""Errors a person can act on: what was wrong, what was expected, what to do next."""

from __future__ import annotations


class RatchetError(Exception):
    """Base of every error that Ratchet raises on purpose.

    Args:
        message: One sentence that names the thing (file, key, id) and what is wrong with it.
        hint: What to do next, or None when the message already says it.
    """

    exit_code = 1
    """Exit code of the command line when this error ends it; docs/exit-codes.md lists them."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class ConfigError(RatchetError):
    """`ratchet.toml` or a command-line option is missing, malformed or contradictory."""

    exit_code = 2


class InputError(RatchetError):
    """A value handed in by the user (a task file, an id, a template, params) is not usable."""

    exit_code = 2


class NotFound(InputError):
    """What an id or a name is to name is not there."""


NOT_FOUND = "urn:ratchet:problem:not-found"
"""The type of a server's problem that says so, told from a path that is unknown to it."""


class AgentError(RatchetError):
    """The user's agent could not be loaded, or failed on every task."""

    exit_code = 3


class StoreError(RatchetError):
    """The database cannot be opened, read or written."""

    exit_code = 4


class ShipError(RatchetError):
    """A release could not be made or undone: dirty tree, no git, failing tests."""

    exit_code = 5


class VerificationError(RatchetError):
    """Evidence does not recompute to what it states."""

    exit_code = 6


class Conflict(RatchetError):
    """Somebody else holds or changed the thing: a lock, a lease, a fencing token."""

    exit_code = 7
