"""Folder that stands first on `PYTHONPATH` of a recorded command."""
