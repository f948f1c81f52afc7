"""Learning algorithms by configuration name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.autopilot.fine_tuning import FineTuning
from ratchet.autopilot.policy_learning import PolicyLearning
from ratchet.learn import Algorithm, Tune
from ratchet.learn.apo import APO
from ratchet.learn.auto import Auto
from ratchet.learn.evolve import Evolve
from ratchet.learn.few_shot import FewShot
from ratchet.learn.gepa import GEPA
from ratchet.learn.openevolve import OpenEvolve
from ratchet.types import ConfigError

SFT = functools.partial(FineTuning, "sft")
"""Learns answers to imitate; see `FineTuning`."""
DPO = functools.partial(FineTuning, "dpo")
"""Learns the better of two answers; see `FineTuning`."""
GRPO = functools.partial(PolicyLearning, "grpo")
"""Learns from rollouts, compared within a task; see `PolicyLearning`."""
PPO = functools.partial(PolicyLearning, "ppo")
"""Learns from rollouts, compared with a critic's estimate; see `PolicyLearning`."""

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "auto": Auto,
    "tune": Tune,
    "apo": APO,
    "evolve": Evolve,
    "few_shot": FewShot,
    "gepa": GEPA,
    "openevolve": OpenEvolve,
    "sft": SFT,
    "dpo": DPO,
    "grpo": GRPO,
    "ppo": PPO,
}
"""Algorithm by name; each is called with its options."""


def make_algorithm(name: str, options: Mapping[str, Any]) -> Algorithm:
    """Create the algorithm that a configuration names.

    Raises:
        ConfigError: There is no such algorithm, or an option does not exist.
    """
    factory = ALGORITHMS.get(name)
    if factory is None:
        near = difflib.get_close_matches(name, ALGORITHMS, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"improve.algorithm = {name!r} is not one of {', '.join(ALGORITHMS)}.{meant}"
        )
    known = list(inspect.signature(factory).parameters)
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"improve.options.{option}: {name} has no such option;"
                f" it has {', '.join(known)}.{meant}"
            )
    try:
        return factory(**options)
    except TypeError as error:
        raise ConfigError(f"improve.options of {name} are invalid: {error}.") from None
