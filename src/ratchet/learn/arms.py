"""The arms of `Auto`: each pairs an algorithm with the resources it can change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from ratchet.learn.algorithm import Algorithm
from ratchet.learn.lab import Lab
from ratchet.types import Code, PromptTemplate, Resource, Task, search_space

Subset = Callable[[Lab, int], tuple[Sequence[Task], Sequence[Task]]]
"""The train and val tasks for a slice of this many rollouts."""


class Arm(msgspec.Struct, frozen=True):
    """One way to improve an agent."""

    name: str
    make: Callable[[], Algorithm]
    fits: Callable[[Resource], bool]
    """Whether it can change a resource."""
    asks: bool
    """Whether it requires a coach."""
    prior: float
    """Expected gain relative to the other arms, before any evidence."""
    what: str
    """What it changes, for messages."""
    one: bool = False
    """Whether it changes a single resource: the one with the largest share of the blame."""
    subset: Subset | None = None
    """The tasks of a slice, if the algorithm would run every task that it is given."""
    once: bool = False
    """Whether it starts from scratch each time, so that a second slice adds nothing."""
    blind: bool = False
    """Whether its changes are random, so that it relies on differences in score."""


def _made(module: str, name: str) -> Callable[[], Algorithm]:
    """Makes the algorithm, and imports its module only then."""

    def make() -> Algorithm:
        algorithm: Algorithm = getattr(import_module(f"ratchet.learn.{module}"), name)()
        return algorithm

    return make


def _is_prompt(resource: Resource) -> bool:
    return isinstance(resource, PromptTemplate)


def _is_code(resource: Resource) -> bool:
    return isinstance(resource, Code)


def _has_knobs(resource: Resource) -> bool:
    """Whether it has knobs or a choice of models."""
    return search_space(resource) is not None


def _several_trials(lab: Lab, rollouts: int) -> tuple[Sequence[Task], Sequence[Task]]:
    """The first train and val tasks: few enough for several trials, and for finalists on val."""
    return lab.train[: max(8, rollouts // 8)], lab.val[: max(4, rollouts // 16)]


ARMS: tuple[Arm, ...] = (
    Arm(
        "tune",
        _made("tune", "Tune"),
        _has_knobs,
        asks=False,
        prior=1.0,
        what="numbers and choices",
        subset=_several_trials,
        blind=True,
    ),
    Arm("apo", _made("apo", "APO"), _is_prompt, asks=True, prior=1.2, what="prompts"),
    Arm(
        "evolve-code",
        _made("evolve", "Evolve"),
        _is_code,
        asks=False,
        prior=0.9,
        what="code",
        blind=True,
    ),
    Arm(
        "few_shot",
        _made("few_shot", "FewShot"),
        _is_prompt,
        asks=False,
        prior=0.6,
        what="examples in prompts",
        one=True,
    ),
)
"""The arms of every agent."""

TRAINED = ("sft", "grpo")
"""Names of the arms that train weights; the code that can train the agent's model makes them."""
