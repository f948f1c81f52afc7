"""Hostile programs: what code in a sandbox may try, each a function whose source is sent there."""

from tests.sandbox.hostile import answers, files, kernel, limits, network, processes
from tests.sandbox.hostile.program import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "answers", "files", "kernel", "limits", "network", "processes"]
