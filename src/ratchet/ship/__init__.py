"""Ship a proved candidate: patch the source, test it, commit it to a branch, and roll it back."""

from ratchet.ship.activation import activate, deactivate, refresh_active
from ratchet.ship.check import TestCommand, TestReport
from ratchet.ship.edit import PatchTarget, SourceEdit
from ratchet.ship.patch import Patch, make_patch
from ratchet.ship.release import branch_name, ship
from ratchet.ship.repository import Repository, check_clean
from ratchet.ship.rollback import refresh, rollback

__all__ = [
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
    "make_patch",
    "refresh",
    "refresh_active",
    "rollback",
    "ship",
]
