"""Candidates: the lab, and the algorithms that work in it."""

from ratchet.learn.algorithm import Algorithm, Finding
from ratchet.learn.budget import Budget, BudgetExhausted, Spent
from ratchet.learn.lab import Lab
from ratchet.learn.tune import Tune
from ratchet.learn.work import Evaluation, Proposal, Work, mean, objective_value

__all__ = [
    "Algorithm",
    "Budget",
    "BudgetExhausted",
    "Evaluation",
    "Finding",
    "Lab",
    "Proposal",
    "Spent",
    "Tune",
    "Work",
    "mean",
    "objective_value",
]
