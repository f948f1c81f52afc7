"""Item response: a task's difficulty and discrimination, and whether its label is wrong.

A task has a difficulty b, a discrimination a and a chance c of success by luck; a candidate of
ability t succeeds with probability c + (1 - c) / (1 + exp(-a (t - b))) (Birnbaum 1968). A wrong
label changes what success means: under the right label other rollouts would have succeeded. So the
parameters, the abilities and the probability that a label is wrong are estimated together, by
expectation maximisation over a grid of tasks whose weights are learned from the data (Bock and
Aitkin 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DISCRIMINATIONS = (0.2, 0.5, 1.0, 1.7, 2.8)
LUCK = (0.0, 0.2)
DIFFICULTIES = 13
"""Grid points from -3 to 3 standard deviations of the candidates' ability."""

WRONG_LABELS = (0.05, 0.3)
"""Share of wrong labels: initial value of the estimate, and its maximum."""

PRIOR_NODE = 0.005
"""Prior weight of each point of the grid, as a number of tasks. If it were larger, tasks that
nobody can solve would be as likely as wrong labels from the start."""

PRIOR_TASKS = 100
"""Weight of the initial share of wrong labels, as a number of tasks: without it, the estimate for a
few wrong labels among many right ones falls to zero, and none is found."""

NEWTON_STEPS = 30


class Alternative(msgspec.Struct, frozen=True, eq=False):
    """The scores of a task if another answer were right."""

    task: int
    """Row of the task."""
    scores: Floats
    """One score for each candidate, in [0, 1]; unknown where the task's own are."""
    log_weight: float = 0.0
    """Log probability of the wrong answers under this answer, relative to the label."""


class ItemResponse(msgspec.Struct, frozen=True, eq=False):
    """Estimates for each task and candidate."""

    difficulty: Floats
    """By task: ability at which half of the attempts succeed, apart from luck; 0 is the mean
    candidate, 1 a standard deviation above."""
    discrimination: Floats
    """By task: how steeply success rises with ability; near 0, the task says nothing about
    candidates."""
    luck: Floats
    """By task: probability of success without ability."""
    wrong: Floats
    """By task: probability that its label is wrong."""
    alternative: Floats
    """By alternative: probability that it is the right one."""
    ability: Floats
    """By candidate, with mean 0 and standard deviation 1."""
    wrong_share: float
    """Estimated share of wrong labels."""

    def success(self, ability: Floats) -> Floats:
        """Probability of success, tasks × abilities."""
        return _success(self.difficulty, self.discrimination, self.luck, ability)


def fit_item_response(
    scores: Floats, alternatives: Sequence[Alternative] | None = None
) -> ItemResponse:
    """Estimate tasks and candidates from scores.

    Args:
        scores: Tasks × candidates, in [0, 1]; NaN where unknown. Each task has a known score.
        alternatives: Other answers that might be the right ones. By default one for each task: the
            opposite of its scores.
    """
    import numpy as np

    rows = len(scores)
    if alternatives is None:
        alternatives = [Alternative(row, 1.0 - scores[row]) for row in range(rows)]
    task = np.concatenate([np.arange(rows), [a.task for a in alternatives]]).astype(int)
    supposed = np.vstack([scores, *(a.scores[None] for a in alternatives)])
    weight = np.concatenate([np.zeros(rows), [a.log_weight for a in alternatives]])
    is_known = ~np.isnan(supposed)
    won = np.where(is_known, supposed, 0.0)
    lost = is_known - won
    among = np.bincount(task, minlength=rows) - 1  # alternatives of each task

    b, a, c = (axis.ravel() for axis in _grid())
    abilities = np.linspace(-4.0, 4.0, 81)
    success = _success(b, a, c, abilities)
    log_won, log_lost = np.log(success), np.log1p(-success)
    ability = _standard((won[:rows].sum(0) + 0.5) / (is_known[:rows].sum(0) + 1.0))
    nodes = np.full(len(b), 1.0 / len(b))
    share = WRONG_LABELS[0]
    posterior = np.zeros((len(task), len(b)))
    for _ in range(NEWTON_STEPS):
        at = np.clip(np.rint((ability + 4.0) * 10.0), 0, 80).astype(int)
        log_prior = np.concatenate(
            [np.log1p(-share * (among > 0)), np.log(share / np.maximum(among, 1))[task[rows:]]]
        )
        log = won @ log_won[:, at].T + lost @ log_lost[:, at].T
        log += np.log(nodes) + (log_prior + weight)[:, None]
        highest = np.full(rows, -np.inf)
        np.maximum.at(highest, task, log.max(1))
        posterior = np.exp(log - highest[task][:, None])
        posterior /= np.bincount(task, posterior.sum(1), rows)[task][:, None]
        nodes = posterior.sum(0) + PRIOR_NODE
        nodes /= nodes.sum()
        wrong = 1.0 - posterior[:rows].sum(1)
        if len(alternatives):
            expected = wrong.sum() + WRONG_LABELS[0] * PRIOR_TASKS
            share = min(WRONG_LABELS[1], float(expected) / (rows + PRIOR_TASKS))
        log_chance = (won.T @ posterior) @ log_won + (lost.T @ posterior) @ log_lost
        log_chance -= abilities**2 / 2.0
        chance = np.exp(log_chance - log_chance.max(1, keepdims=True))
        ability = _standardised((chance / chance.sum(1, keepdims=True)) @ abilities)
    by_task = np.zeros((rows, len(b)))
    np.add.at(by_task, task, posterior)
    return ItemResponse(
        difficulty=by_task @ b,
        discrimination=by_task @ a,
        luck=by_task @ c,
        wrong=1.0 - posterior[:rows].sum(1),
        alternative=posterior[rows:].sum(1),
        ability=ability,
        wrong_share=share,
    )


def _grid() -> tuple[Floats, Floats, Floats]:
    import numpy as np

    difficulties = np.linspace(-3.0, 3.0, DIFFICULTIES)
    b, a, c = np.meshgrid(difficulties, DISCRIMINATIONS, LUCK, indexing="ij")
    return b, a, c


def _success(difficulty: Floats, discrimination: Floats, luck: Floats, ability: Floats) -> Floats:
    """Probability of success, tasks × abilities."""
    import numpy as np

    steep = discrimination[:, None] * (ability[None] - difficulty[:, None])
    chance: Floats = luck[:, None] + (1.0 - luck[:, None]) / (1.0 + np.exp(-steep))
    return np.clip(chance, 1e-4, 1.0 - 1e-4)


def _standard(accuracy: Floats) -> Floats:
    import numpy as np

    return _standardised(np.log(accuracy / (1.0 - accuracy)))


def _standardised(values: Floats) -> Floats:
    centred: Floats = values - values.mean()
    spread = float(centred.std())
    return centred / spread if spread > 1e-9 else centred
