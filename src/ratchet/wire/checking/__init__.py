"""Checks a wired agent: runs it against a simulated model, with nothing that it could harm."""

from ratchet.wire.checking.check import CheckReport, check
from ratchet.wire.checking.findings import CheckFinding
from ratchet.wire.checking.wired_project import run_once

__all__ = ["CheckFinding", "CheckReport", "check", "run_once"]
