"""Checks a wired agent: runs it against a simulated model, with nothing that it could harm."""

from ratchet.wire.checking.check import CheckFinding, CheckReport, check

__all__ = ["CheckFinding", "CheckReport", "check"]
