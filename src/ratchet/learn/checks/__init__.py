"""Checks that a candidate must pass before it costs a rollout, or many."""

from ratchet.learn.checks.annotations import TypeChecks, has_mypy
from ratchet.learn.checks.check import CandidateChange, Check, Checks
from ratchet.learn.checks.copies import Copies
from ratchet.learn.checks.imports import imports_what_is_there, installed
from ratchet.learn.checks.own_tests import CheckRun, CommandRunner, OwnTests
from ratchet.learn.checks.prompt_text import keeps_prompt
from ratchet.learn.checks.shape import keeps_shape

__all__ = [
    "CandidateChange",
    "Check",
    "CheckRun",
    "Checks",
    "CommandRunner",
    "Copies",
    "OwnTests",
    "TypeChecks",
    "has_mypy",
    "imports_what_is_there",
    "installed",
    "keeps_prompt",
    "keeps_shape",
]
