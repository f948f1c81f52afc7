"""Ship a proved candidate: patch the source, test it, commit it to a branch, and roll it back."""

from ratchet.ship.activation import activate, deactivate, refresh_active
from ratchet.ship.check import TestCommand, TestReport
from ratchet.ship.edit import PatchTarget, SourceEdit
from ratchet.ship.literal_search import LiteralPlace, LiteralSearch, find_literal
from ratchet.ship.patch import Patch, literal_text, make_patch
from ratchet.ship.release import branch_name, ship
from ratchet.ship.repository import Repository, check_clean
from ratchet.ship.rollback import refresh, rollback

__all__ = [
    "LiteralPlace",
    "LiteralSearch",
    "Patch",
    "PatchTarget",
    "Repository",
    "SourceEdit",
    "TestCommand",
    "TestReport",
    "activate",
    "branch_name",
    "check_clean",
    "deactivate",
    "find_literal",
    "literal_text",
    "make_patch",
    "refresh",
    "refresh_active",
    "rollback",
    "ship",
]
