"""Learning algorithms by configuration name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ratchet._plugins import load_plugin
from ratchet.autopilot.fine_tuning import FineTuning
from ratchet.autopilot.policy_learning import PolicyLearning
from ratchet.autopilot.trainable import TrainableModel
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm
from ratchet.learn import Algorithm, Lab, Tune
from ratchet.learn.apo import APO
from ratchet.learn.arms import Arm, Subset
from ratchet.learn.auto import Auto
from ratchet.learn.cheaper import Cheaper
from ratchet.learn.evolve import Evolve
from ratchet.learn.few_shot import FewShot
from ratchet.learn.migrate import LearnsPrompts, Migrate
from ratchet.learn.shorten import Shorten
from ratchet.types import ConfigError, Model, Resource, Task

SFT = functools.partial(FineTuning, "sft")
"""Learns to imitate answers; see `FineTuning`."""
DPO = functools.partial(FineTuning, "dpo")
"""Learns the better of two answers; see `FineTuning`."""
GRPO = functools.partial(PolicyLearning, "grpo")
"""Learns from rollouts compared within a task; see `PolicyLearning`."""
PPO = functools.partial(PolicyLearning, "ppo")
"""Learns from rollouts compared with a critic's estimate; see `PolicyLearning`."""

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "auto": Auto,
    "tune": Tune,
    "apo": APO,
    "evolve": Evolve,
    "few_shot": FewShot,
    "migrate": Migrate,
    "cheaper": Cheaper,
    "shorten": Shorten,
    "sft": SFT,
    "dpo": DPO,
    "grpo": GRPO,
    "ppo": PPO,
}
"""Algorithm by name; each is called with its options."""

PLUGINS = "ratchet.algorithms"
"""Entry-point group with which packages add algorithms."""


def make_algorithm(name: str, options: Mapping[str, Any]) -> Algorithm:
    """Create the algorithm that a configuration names.

    Raises:
        ConfigError: There is no such algorithm, it cannot be loaded, or an option does not exist.
    """
    factory = ALGORITHMS.get(name)
    if factory is None:
        factory = load_plugin(PLUGINS, name, "improve.algorithm", ALGORITHMS)
    parameters = inspect.signature(factory).parameters
    takes_any = any(part.kind is part.VAR_KEYWORD for part in parameters.values())
    option_names = list(parameters)
    for option in options:
        if option not in option_names and not takes_any:
            near = difflib.get_close_matches(option, option_names, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"improve.options.{option}: {name} has no such option;"
                f" it has {', '.join(option_names)}.{meant}"
            )
    try:
        algorithm = factory(**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"improve.options of {name} are invalid: {error}.") from None
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(
            f"improve.algorithm = {name!r} is not an algorithm: it lacks name or learn."
        )
    if isinstance(algorithm, LearnsPrompts) and algorithm.learn_by:
        algorithm.inner = functools.partial(
            make_algorithm, algorithm.learn_by, algorithm.learn_options
        )
        algorithm.inner()  # refused now rather than once something is spent
    return algorithm


SMALL_RATE = 5e-4
"""Learning rate of models below a billion parameters."""


def weights_arms(model: TrainableModel) -> tuple[Arm, ...]:
    """The arms of `Auto` that train the agent's model."""

    def arm(name: str, prior: float, subset: Subset) -> Arm:
        def make() -> Algorithm:
            options = {"learning_rate": SMALL_RATE} if model.is_small else {}
            algorithm = make_algorithm(name, options)
            assert isinstance(algorithm, WeightsAlgorithm)
            algorithm.model = model
            return algorithm

        return Arm(
            name,
            make,
            _is_model,
            asks=False,
            prior=prior,
            what="weights",
            subset=subset,
            once=True,
        )

    return (arm("sft", 0.8, _one_rollout_each), arm("grpo", 0.4, _many_batches))


def _is_model(resource: Resource) -> bool:
    return isinstance(resource, Model)


def _one_rollout_each(lab: Lab, rollouts: int) -> tuple[Sequence[Task], Sequence[Task]]:
    """Rollouts needed: one of each train task, and two comparisons on val."""
    val = lab.val[: max(4, rollouts // 8)]
    return lab.train[: max(1, rollouts - 2 * len(val))], val


def _many_batches(lab: Lab, rollouts: int) -> tuple[Sequence[Task], Sequence[Task]]:
    """All train tasks, but few val tasks, since every tenth batch is followed by a comparison."""
    return lab.train, lab.val[: max(4, rollouts // 32)]
