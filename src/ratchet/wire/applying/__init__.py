"""Writes the wiring as one commit, takes it back, and does it again."""

from ratchet.wire.applying.commit import Committed, commit, write
from ratchet.wire.applying.plan import Plan, dry_run, make_plan
from ratchet.wire.applying.undo import UndoReport, undo

__all__ = ["Committed", "Plan", "UndoReport", "commit", "dry_run", "make_plan", "undo", "write"]
