"""Writes the wiring as one commit, takes it back, does it again, and says what no longer fits."""

from ratchet.wire.former.again import Again, again
from ratchet.wire.former.commit import FormerCommitted, commit, write
from ratchet.wire.former.doctor import Diagnosis, diagnose
from ratchet.wire.former.plan import FormerPlan, dry_run, make_plan
from ratchet.wire.former.undo import UndoReport, undo

__all__ = [
    "Again",
    "Diagnosis",
    "FormerCommitted",
    "FormerPlan",
    "UndoReport",
    "again",
    "commit",
    "diagnose",
    "dry_run",
    "make_plan",
    "undo",
    "write",
]
