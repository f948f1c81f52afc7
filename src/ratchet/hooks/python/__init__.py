"""Folder that stands first on `PYTHONPATH` of what is recorded, or led to the gateway."""
