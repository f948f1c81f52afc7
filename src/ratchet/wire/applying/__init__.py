"""Writes a plan as one commit or in place, and undoes it."""

from ratchet.wire.applying.commit import BRANCH, Committed, check_branch, commit
from ratchet.wire.applying.plan import Plan, PlannedFile, make_plan, show
from ratchet.wire.applying.record import Record, RunTrace
from ratchet.wire.applying.stored import write
from ratchet.wire.applying.undo import KeptFile, Undone, still_there, tracked_among, undo, wired

__all__ = [
    "BRANCH",
    "Committed",
    "KeptFile",
    "Plan",
    "PlannedFile",
    "Record",
    "RunTrace",
    "Undone",
    "check_branch",
    "commit",
    "make_plan",
    "show",
    "still_there",
    "tracked_among",
    "undo",
    "wired",
    "write",
]
