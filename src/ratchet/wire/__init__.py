"""Looks into a repository that nobody prepared. Reads; runs and imports nothing of it."""

from ratchet.wire.facts import RepositoryLook
from ratchet.wire.looking.former_look import look

__all__ = ["RepositoryLook", "look"]
