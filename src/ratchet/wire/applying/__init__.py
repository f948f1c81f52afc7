"""Writes the wiring as one commit, takes it back, does it again, and says what no longer fits."""

from ratchet.wire.applying.again import Again, again
from ratchet.wire.applying.commit import Committed, commit, write
from ratchet.wire.applying.doctor import Diagnosis, diagnose
from ratchet.wire.applying.plan import Plan, dry_run, make_plan
from ratchet.wire.applying.undo import UndoReport, undo

__all__ = [
    "Again",
    "Committed",
    "Diagnosis",
    "Plan",
    "UndoReport",
    "again",
    "commit",
    "diagnose",
    "dry_run",
    "make_plan",
    "undo",
    "write",
]
