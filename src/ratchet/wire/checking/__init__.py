"""Checks a wired agent: runs it against a simulated model, with nothing that it could harm."""

from ratchet.wire.checking.check import CheckReport, Finding, check

__all__ = ["CheckReport", "Finding", "check"]
