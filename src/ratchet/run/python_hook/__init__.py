"""Folder that stands on `PYTHONPATH` of an agent whose model calls are led to the gateway."""
