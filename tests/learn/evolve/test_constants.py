"""A wrong constant that one value alone mends: exact answers say nothing of how near a guess is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ratchet.learn.evolve import Evolve
from ratchet.types import Candidate, Code
from tests.learn.conftest import MakeStore
from tests.learn.evolve.conftest import learn

PRICE = """def price(total, member):
    rate = 0.9 if member else 1.0
    if total >= 100:
        rate = rate - 0.1
    return round(total * rate, 2)
"""
GRADE = """def grade(points, bonus):
    points = points + 3 if bonus else points
    if points >= 90:
        return "A"
    if points >= 70:
        return "B"
    return "C"
"""
DUE = """def due(day, express):
    if express:
        return day + 7
    return day + 28
"""
FREEZE = """def freezes(degrees, salted):
    limit = -3 if salted else 0
    return degrees < limit
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("source", "wrong", "right", "cases"),
    [
        (PRICE, "0.9", "0.85", lambda n: (20 + 7 * n, n % 2 == 0)),
        (GRADE, "70", "75", lambda n: (50 + 5 * n % 50, False)),
        (DUE, "28", "30", lambda n: (3 * n, n % 3 == 0)),
        (FREEZE, "-3", "-6", lambda n: (-n % 8 + 0.5 - 8, n % 2 == 0)),
    ],
    ids=["rate", "threshold", "integer", "negative"],
)
def test_a_wrong_constant_is_mended(
    make_store: MakeStore,
    source: str,
    wrong: str,
    right: str,
    cases: Callable[[int], tuple[float, bool]],
    seed: int,
) -> None:
    name = source.split("(")[0].removeprefix("def ")
    wanted = _function(source.replace(wrong, right), name)

    def answer(resources: Any, given: Any) -> float:
        arguments = cases(given["nr"])
        return float(_function(resources[name].source, name)(*arguments) == wanted(*arguments))

    learned = learn(
        make_store(),
        Evolve(proposers=["ast"], max_candidates=60),
        baseline=Candidate.of({name: Code(source, name)}),
        answer=answer,
        rollouts=600,
        seed=seed,
    )
    assert learned.finding.best_val == 1.0
    assert learned.finding.baseline_val < 1.0


def _function(source: str, name: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names[name]  # type: ignore[no-any-return]
