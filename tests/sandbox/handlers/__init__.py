"""Handlers that tests run in sandboxes; each module stands alone."""
