"""Static analysis of a repository's source; never runs it. Depends on `types` only."""

from ratchet.source.related_tests import TestFile, related_tests
from ratchet.source.secret_files import checkouts, in_secret_place, secret_files
from ratchet.source.tree import Import, Module, SourceTree, imports_of

__all__ = [
    "Import",
    "Module",
    "SourceTree",
    "TestFile",
    "checkouts",
    "imports_of",
    "in_secret_place",
    "related_tests",
    "secret_files",
]
