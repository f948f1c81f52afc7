"""Alembic migrations that bring an older database to the schema of `tables.py`."""
