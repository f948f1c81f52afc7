"""Parses store URLs, and formats them without their password."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from ratchet.types import StoreError

_FORMS = "sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user@host/name"
_SECRETS = ("password", "sslpassword")


def parse(url: str) -> URL:
    """Parse a store URL; adds the driver, and for SQLite makes the path absolute.

    Raises:
        StoreError: It is malformed, names another kind of database, or names no file.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The text is not quoted: a URL that does not parse may still contain a password.
        raise StoreError("The store URL is malformed.", hint=f"Write it as {_FORMS}.") from None
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        return _sqlite(parsed)
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(
        f"The store URL names {backend!r}, which is not supported.", hint=f"Write it as {_FORMS}."
    )


def redacted(url: URL) -> str:
    """Format the store for error messages: a path, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    hidden = {key: "***" for key in url.query if key in _SECRETS}
    safe_url = url.set(drivername="postgresql").update_query_dict(hidden)
    return safe_url.render_as_string(hide_password=True)


def exists(url: str) -> bool:
    """Whether the file of a SQLite store exists; True for a server's store.

    Raises:
        StoreError: As for `parse`.
    """
    parsed = parse(url)
    return parsed.get_backend_name() != "sqlite" or Path(str(parsed.database)).exists()


def _sqlite(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.host:
        raise StoreError(
            "The store URL names no file.",
            hint="A store must be on disk: write sqlite:///relative/path.db or "
            "sqlite:////absolute/path.db.",
        )
    return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).absolute()))
