"""Migrations: the steps that bring an older database to the shape of `tables.py`."""
