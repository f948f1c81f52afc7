"""What a repository's source says: read, never run. Imports nothing but the nouns."""

from ratchet.source.secret_files import checkouts, in_secret_place, secret_files
from ratchet.source.touching import TestFile, touching_tests
from ratchet.source.tree import Import, Module, Tree, imports_of

__all__ = [
    "Import",
    "Module",
    "TestFile",
    "Tree",
    "checkouts",
    "imports_of",
    "in_secret_place",
    "secret_files",
    "touching_tests",
]
