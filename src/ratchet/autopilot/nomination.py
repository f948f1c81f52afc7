"""Nomination: which candidates of a search go to the proof, and in which order.

The algorithm's own choice comes first, then what else may be better than the source, the strongest
first. All train and val tasks count that a candidate and the source both ran. What learning saw
proves nothing, so a doubt speaks for the proof: it ends soon where nothing is gained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.learn import Finding, Lab
from ratchet.stats.gain import GainEstimate, may_gain

PROOF_SHARE = 0.5
"""Rollouts of proofs that failed, relative to those before them, up to which another candidate goes
to the proof."""

NOMINEES = 3
"""Maximum number of a search's candidates that go to the proof. With these two, a gain of 0.1
among the luck of
eight candidates is let through in 0.9 of the runs, and proofs without a gain cost at most a fifth
of all rollouts (`gate_*` in benchmarks/decisions.py)."""


class Nominee(msgspec.Struct, frozen=True):
    """A candidate that may be better than the source."""

    candidate_id: str
    gain: float
    """Its gain in learning."""


async def nominees(lab: Lab, finding: Finding, margin: float = 0.0) -> tuple[Nominee, ...]:
    """The candidates that go to the proof, in order; none if none may be better than the source.

    Args:
        lab: The lab of the search, which has ended.
        finding: What the algorithm found.
        margin: How much lower they may score; above 0, only the algorithm's own choice is looked
            for, since what it saves is not in the scores.
    """
    tasks, source = [*lab.train, *lab.val], lab.baseline
    candidates = {
        candidate.id: candidate
        for candidate in (*(() if margin else lab.tried), finding.best)
        if candidate.id != source.id
    }
    differences = {}
    for candidate in candidates.values():
        pairs = lab.compared(f"nominee/{candidate.id}", source, candidate, tasks=tasks)
        differences[candidate.id] = [after - before for before, after in pairs]
    passed: list[Nominee] = []
    for nominee in ranked(differences, finding.best.id, margin):
        candidate = candidates[nominee.candidate_id]
        if not (await lab.check(candidate) or await lab.test(candidate)):
            passed.append(nominee)
        if len(passed) == NOMINEES:
            break
    return tuple(passed)


def ranked(
    differences: Mapping[str, Sequence[float]], chosen: str, margin: float = 0.0
) -> list[Nominee]:
    """The candidates that may be better than the source: the selected one, then the strongest.

    Args:
        differences: For each candidate, its score minus the source's on each task that both ran.
        chosen: The algorithm's own choice. Without any such task its word is enough.
        margin: How much lower they may score.
    """
    able = [
        Nominee(id, GainEstimate().seeing(gains).gain)
        for id, gains in differences.items()
        if may_gain([gain + margin for gain in gains]) or (id == chosen and not gains)
    ]
    return sorted(
        able,
        key=lambda nominee: (nominee.candidate_id != chosen, -nominee.gain, nominee.candidate_id),
    )


def next_nominee(
    finding: Mapping[str, Any], failed_id: str, *, spent: int, shortest_proof: int
) -> Nominee | None:
    """The next candidate for the proof after one failed there; None to end.

    Args:
        finding: What learning left in the journal.
        failed_id: The candidate whose proof failed.
        spent: Rollouts of all proofs of the run.
        shortest_proof: Rollouts of the shortest proof.
    """
    order = msgspec.convert(finding.get("nominees", []), list[Nominee])
    ids = [nominee.candidate_id for nominee in order]
    remaining = order[ids.index(failed_id) + 1 :] if failed_id in ids else []
    if spent + shortest_proof > PROOF_SHARE * finding.get("all_rollouts", 0):
        return None
    return next(iter(remaining), None)
