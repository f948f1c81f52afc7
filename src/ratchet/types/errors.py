"""Errors that a user can act on: what is wrong, what was expected, what to do next."""

from __future__ import annotations


class RatchetError(Exception):
    """Base of every error that Ratchet raises on purpose.

    Args:
        message: One sentence that names the subject (file, key, id) and what is wrong with it.
        hint: What to do next; None if the message already says it.
    """

    exit_code = 1
    """Exit code of the command line when this error ends it; see docs/exit-codes.md."""

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
    """A value supplied by the user (a task file, an id, a template, params) is not usable."""

    exit_code = 2


class NotFound(InputError):
    """No object has the given id or name."""


NOT_FOUND = "urn:ratchet:problem:not-found"
"""Problem type of a 404 for an unknown id or name; a 404 for an unknown URL path has none."""


class BudgetExhausted(RatchetError):
    """The next step would exceed the budget. Paid results are kept.

    Algorithms end with their best result so far.
    """

    exit_code = 2  # where it ends a command, the budget did not cover what the command needs


class AgentError(RatchetError):
    """The user's agent could not be loaded, or failed on every task."""

    exit_code = 3


class StoreError(RatchetError):
    """The database cannot be opened, read or written."""

    exit_code = 4


class ShipError(RatchetError):
    """A release could not be made or undone: uncommitted changes, no git, failing tests."""

    exit_code = 5


class ForgeUnavailable(ShipError):
    """GitHub or GitLab cannot be reached, or asks to wait; nothing is lost by waiting.

    Args:
        message: As for `RatchetError`.
        retry_at: Unix seconds; the same call may succeed then.
        hint: As for `RatchetError`.
    """

    def __init__(self, message: str, *, retry_at: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_at = retry_at


class VerificationError(RatchetError):
    """Recomputing the evidence does not give the values that it states."""

    exit_code = 6


class Conflict(RatchetError):
    """Another process holds or changed the resource: a lock, a lease, a fencing token."""

    exit_code = 7


class LeaseLost(Conflict):
    """Another process has taken over the lease; this process's writes are refused."""
