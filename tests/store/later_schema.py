"""A later Ratchet, whose schema has one more step: for it a store of today is an older one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from ratchet.store import schema
from ratchet.store.engine import Database
from ratchet.store.location import parse

LATER = """
import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1.0"


def upgrade():
    op.add_column("journal", sa.Column("length", sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE journal SET length = length(body)")
"""


def become_later(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Turn this Ratchet into a later one; its migrations are in `folder`."""
    shutil.copytree(schema.MIGRATIONS, folder / "migrations")
    (folder / "migrations" / "versions" / "v2_later.py").write_text(LATER)
    monkeypatch.setattr(schema, "MIGRATIONS", folder / "migrations")
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS, "2"))


def stamp(url: str, version: str) -> None:
    """Write the schema version into a database and leave the rest as it is."""
    database = Database(parse(url))
    change = f"UPDATE {schema.VERSION_TABLE} SET version_num = '{version}'"
    database.write(lambda c: c.execute(text(change)))
    database.close()
