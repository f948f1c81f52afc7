"""Alembic environment: runs the migrations in the transaction of the given connection."""

from __future__ import annotations

from alembic import context

from ratchet.store.schema import VERSION_TABLE
from ratchet.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
