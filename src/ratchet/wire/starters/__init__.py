"""Starter tasks and evaluators, from what the repository itself shows."""

from ratchet.wire.starters.evaluators import StarterEvaluator, fitting_evaluators
from ratchet.wire.starters.starters import starters
from ratchet.wire.starters.tasks import StarterTasks, find_tasks

__all__ = ["StarterEvaluator", "StarterTasks", "find_tasks", "fitting_evaluators", "starters"]
