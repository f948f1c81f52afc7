"""Turns driver errors into StoreErrors that name the database and a remedy."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ratchet.types import StoreError

_LOCKED = "55P03"

# Prefixes of SQLITE_BUSY, SQLITE_LOCKED and their extended codes.
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")

# 40001 serialization failure, 40P01 deadlock, 55P03 lock not available: certainly rolled back.
# 57P01-57P03: the server shuts down, crashed or starts up. 53300: too many connections. 08xxx: the
# connection broke.
_PASSING_STATES = ("40001", "40P01", _LOCKED, "57P01", "57P02", "57P03", "53300")

_SQLITE_ADVICE = {
    "SQLITE_NOTADB": (
        "is not a SQLite database",
        "Nothing was written to it. Name another file, or move this one away.",
    ),
    "SQLITE_CORRUPT": (
        "is damaged",
        "It was left as it is. Move it away to start with an empty store, or restore a copy.",
    ),
    "SQLITE_FULL": ("could not be written: the disk is full", "Free some space and try again."),
    "SQLITE_READONLY": (
        "cannot be written",
        "Make the file and its folder writable, or name another path.",
    ),
    "SQLITE_CANTOPEN": (
        "cannot be opened",
        "The file and its folder must be readable and writable.",
    ),
    "SQLITE_PERM": ("cannot be opened", "The file and its folder must be readable and writable."),
    "SQLITE_BUSY": (
        "stayed locked by another process",
        "Wait for that process, or end it, and try again.",
    ),
    "SQLITE_LOCKED": (
        "stayed locked by another process",
        "Wait for that process, or end it, and try again.",
    ),
    "SQLITE_IOERR": (
        "could not be read or written: the disk reported an error",
        "Check the disk and its free space.",
    ),
}


def passes(error: Exception) -> bool:
    """Whether an error is transient: a lock, a deadlock, a lost connection."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return _sqlite_name(cause).startswith(_BUSY)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in _PASSING_STATES or state.startswith("08")
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    # A failed or broken connection carries no SQLSTATE.
    return lost or type(cause).__name__ == "OperationalError"


def explain(error: Exception, location: str) -> StoreError:
    """Convert `error` to a StoreError; `location` is a path, or a URL without its password."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        name = _sqlite_name(cause)
        for code, (problem, hint) in _SQLITE_ADVICE.items():
            if name.startswith(code):
                return StoreError(f"The store {location} {problem} ({cause}).", hint=hint)
        return StoreError(f"The store {location} could not be read or written: {cause}.")
    if isinstance(cause, PoolTimeout):
        return StoreError(
            f"All connections to the store {location} stayed in use.",
            hint="Use fewer threads, or open a store per process.",
        )
    if getattr(cause, "sqlstate", None) == _LOCKED:
        return StoreError(
            f"A table of the store {location} stayed locked by another connection.",
            hint="Try again when its transaction has ended.",
        )
    reason = " ".join(str(cause).split()) or type(cause).__name__
    if passes(error):
        return StoreError(
            f"The store {location} cannot be reached: {reason}.",
            hint="Check that the server is running, and the host, port, user and password in the "
            "URL.",
        )
    return StoreError(f"The store {location} refused an operation: {reason}.")


def _cause(error: Exception) -> BaseException:
    if isinstance(error, StatementError) and error.orig is not None:
        return error.orig
    return error


def _sqlite_name(error: sqlite3.Error) -> str:
    # Absent when Python's module raised it, for example for a closed connection.
    return getattr(error, "sqlite_errorname", "") or ""
