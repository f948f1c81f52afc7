"""Likely wrong labels: tasks whose expected answer the strong candidates contradict."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.curate.refinement.item_response import Alternative, ItemResponse, fit_item_response
from ratchet.curate.refinement.label_parts import LabelPart, PartPath, by_part
from ratchet.curate.refinement.results import Results
from ratchet.types import Task

if TYPE_CHECKING:
    from ratchet.curate.refinement.item_response import Floats

MIN_CANDIDATES = 8
"""Minimum number of candidates for estimating item response and wrong labels: where 5 % of the
labels are wrong, five candidates find only a third of these."""

MIN_CANDIDATES_ON_A_TASK = 5
"""Minimum number of candidates that ran a task."""

MAX_ANSWERS = 4
"""Alternatives considered for a task: the most frequent answers."""

CONCENTRATION = 0.7
"""Of the Dirichlet distribution of wrong answers: below 1, some mistakes are more usual."""

JUDGE_ERROR = (0.05, 0.45)
"""Bounds of the assumed share of another evaluator's wrong verdicts."""

RIGHT_SCORE = 0.5
"""Minimum score of a right answer."""

MIN_GROUP = 10
"""Number of tasks beyond which candidates can be found to be weak on a part, or on a label."""

FEW_WRONG = 0.1
"""Maximum share, among tasks on which candidates agree on one answer, of labels that are wrong in
the same way; a larger share is the candidates' mistake."""


class Suspect(msgspec.Struct, frozen=True):
    """A task and the evidence against its label."""

    row: int
    """Row of the task in the results."""
    wrong: float
    """Probability that the label is wrong."""
    answer: Any = None
    """The most probable other answer for the part; None if there is none."""
    path: PartPath = ()
    """Keys of the part of the label that is wrong; empty for all of it."""
    answer_share: float = 0.0
    """Probability that this answer is right."""
    supporters: int = 0
    """Candidates that gave it."""
    measured: int = 0
    """Candidates that were scored on the task."""
    right: int = 0
    """Candidates that were scored as right."""
    disagreeing: tuple[str, ...] = ()
    """Other evaluators and people who contradict the scores."""


class Suspects(msgspec.Struct, frozen=True):
    """Tasks by the probability of a wrong label, and the model behind it."""

    ranked: tuple[Suspect, ...]
    """Tasks that enough candidates ran, most suspicious first."""
    response: ItemResponse
    """Its rows are `rows`."""
    rows: tuple[int, ...]
    """Row in the results of each task that enough candidates have run."""
    too_hard: tuple[PartPath, ...] = ()
    """Parts with labels on which even the better half of the candidates is mostly wrong: these are
    not suspected."""


def find_suspects(results: Results) -> Suspects | None:
    """Rank tasks by the probability of a wrong label.

    Three things speak against a label: weak candidates succeed where strong ones fail, candidates
    agree on another answer, and other evaluators or people contradict the scores.

    Returns:
        None when fewer than `MIN_CANDIDATES` candidates were scored: then nothing is known.
    """
    import numpy as np

    if len(results.candidates) < MIN_CANDIDATES:
        return None
    scores = results.matrix()
    rows = np.flatnonzero((~np.isnan(scores)).sum(1) >= MIN_CANDIDATES_ON_A_TASK)
    if not len(rows):
        return None
    ranked, response, too_hard = _ranked_parts(results)
    if response is None or len(response.wrong) != len(rows):
        response = fit_item_response(scores[rows])
    return Suspects(ranked, response, tuple(int(row) for row in rows), too_hard)


def _ranked_parts(
    label_results: Results,
) -> tuple[tuple[Suspect, ...], ItemResponse | None, tuple[PartPath, ...]]:
    """The most suspicious part of each label, the model behind it, and parts that are too hard."""
    import numpy as np

    results, parts = by_part(label_results)
    mistakes = _Mistakes(results, parts)
    scores = results.matrix()
    enough = (~np.isnan(scores)).sum(1) >= MIN_CANDIDATES_ON_A_TASK
    too_hard = _too_hard(scores, parts)
    paths = tuple(sorted({part.path for part in too_hard.values()}))
    theirs = [
        row in too_hard or mistakes.explain(task, part)
        for row, (task, part) in enumerate(zip(results.tasks, parts, strict=True))
    ]
    rows = np.flatnonzero(enough & ~np.array(theirs))
    if not len(rows):
        return (), None, paths
    some = scores[rows]
    alternatives: list[Alternative] = []
    answers: list[tuple[Any, int]] = []
    for at, row in enumerate(rows):
        for alternative, answer, supporters in _alternatives(results, int(row), at, some[at]):
            alternatives.append(alternative)
            answers.append((answer, supporters))
    response = fit_item_response(some, alternatives)
    best: dict[int, int] = {}
    for number, alternative in enumerate(alternatives):
        leading = best.setdefault(alternative.task, number)
        if response.alternative[number] > response.alternative[leading]:
            best[alternative.task] = number
    votes = _Votes(label_results)
    suspects = {
        part.row: Suspect(part.row, 0.0)
        for at, part in enumerate(parts)
        if enough[at] and theirs[at]
    }
    for at, row in enumerate(rows):
        part = parts[int(row)]
        shift, disagreeing = votes.on(part.row)
        answer, supporters, share = None, 0, 0.0
        if at in best:
            answer, supporters = answers[best[at]]
            share = float(response.alternative[best[at]])
        suspect = Suspect(
            row=part.row,
            path=part.path,
            wrong=_shifted(float(response.wrong[at]), shift),
            answer=answer,
            answer_share=share,
            supporters=supporters,
            measured=int((~np.isnan(some[at])).sum()),
            right=int((some[at] >= RIGHT_SCORE).sum()),
            disagreeing=disagreeing,
        )
        before = suspects.get(part.row)
        if before is None or suspect.wrong > before.wrong:
            suspects[part.row] = suspect
    ranked = sorted(suspects.values(), key=lambda suspect: (-suspect.wrong, suspect.row))
    return tuple(ranked), response, paths


def _too_hard(scores: Floats, parts: Sequence[LabelPart]) -> dict[int, LabelPart]:
    """Rows whose part, or label, the better half of the candidates gets wrong more than right.

    Their disagreement with a label then says more about them than about the label.
    """
    groups: dict[tuple[PartPath, str | None], list[int]] = defaultdict(list)
    for row, part in enumerate(parts):
        if part.expected is not None:
            groups[part.path, None].append(row)
            groups[part.path, part.expected].append(row)
    return {
        row: parts[row]
        for (path, _), rows in groups.items()
        # A smaller group may consist of wrong labels.
        if len(rows) > max(MIN_GROUP, FEW_WRONG * len(groups[path, None]))
        and _better_half(scores[rows]) < RIGHT_SCORE
        for row in rows
    }


def _better_half(scores: Floats) -> float:
    """Mean score of the better half of the candidates that ran."""
    import numpy as np

    means = np.sort(np.nanmean(scores[:, ~np.isnan(scores).all(0)], axis=0))
    return float(means[len(means) // 2 :].mean()) if len(means) else 1.0


class _Mistakes:
    """Answers that candidates agree on instead of a label: repeated on many tasks, a mistake.

    A house rule that no candidate knows makes them agree on the same wrong answer, wherever it
    applies. Labels that are wrong in the same way are few.
    """

    def __init__(self, results: Results, parts: Sequence[LabelPart]) -> None:
        self._agreed: dict[str, str] = {}
        self._said: Counter[tuple[PartPath, str]] = Counter()
        self._instead: Counter[tuple[PartPath, str, str]] = Counter()
        for task, part in zip(results.tasks, parts, strict=True):
            cells = [results.cells.get((task.id, candidate)) for candidate in results.candidates]
            keys = Counter(key for cell in cells if cell for key, _ in cell.answers[:1])
            if part.expected is None or not keys:
                continue
            key, count = keys.most_common(1)[0]
            if 2 * count > keys.total():
                self._agreed[task.id] = key
                self._said[part.path, key] += 1
                self._instead[part.path, part.expected, key] += 1

    def explain(self, task: Task, part: LabelPart) -> bool:
        """Whether a label is contradicted by such a mistake, and so is not suspected."""
        answer = self._agreed.get(task.id)
        if part.expected is None or answer is None or answer == part.expected:
            return False
        likely = 1.0 + max(1.0, FEW_WRONG * self._said[part.path, answer])
        return self._instead[part.path, part.expected, answer] > likely


def _alternatives(
    results: Results, row: int, at: int, scores: Floats
) -> list[tuple[Alternative, Any, int]]:
    """The scores under each other answer that several candidates gave.

    Without any, the opposite of the scores: strong candidates fail only where the label is wrong.
    """
    import numpy as np

    answers: dict[int, str] = {}
    outputs: dict[str, Any] = {}
    for column, candidate in enumerate(results.candidates):
        cell = results.cells.get((results.tasks[row].id, candidate))
        if cell is None or not cell.answers or np.isnan(scores[column]):
            continue
        key = Counter(key for key, _ in cell.answers).most_common(1)[0][0]
        outputs.setdefault(key, next(output for same, output in cell.answers if same == key))
        answers[column] = "" if scores[column] >= RIGHT_SCORE else key  # "": what the label says
    supporters = Counter(key for key in answers.values() if key)
    usual = [key for key, count in supporters.most_common(MAX_ANSWERS) if count > 1]
    if not usual and np.nanmin(scores) >= RIGHT_SCORE:
        return []  # all candidates are right, as far as anyone can tell
    if not usual:
        return [(Alternative(at, 1.0 - scores), None, 0)]
    kinds = len({*answers.values(), ""})
    counts = Counter(answers.values())
    base = _log_chance([count for key, count in counts.items() if key], kinds)
    alternatives = []
    for key in usual:
        supposed = np.full(len(scores), np.nan)
        for column, answer in answers.items():
            supposed[column] = float(answer == key)
        other_counts = [count for rival, count in counts.items() if rival != key]
        weight = _log_chance(other_counts, kinds) - base
        alternatives.append((Alternative(at, supposed, weight), outputs[key], supporters[key]))
    return alternatives


def _log_chance(counts: Sequence[int], kinds: int) -> float:
    """Log probability of these counts of wrong answers, by a Dirichlet-multinomial."""
    total, prior = sum(counts), CONCENTRATION * kinds
    log = math.lgamma(prior) - math.lgamma(prior + total)
    single = math.lgamma(CONCENTRATION)
    return log + sum(math.lgamma(CONCENTRATION + count) - single for count in counts)


class _Votes:
    """Other evaluators' and people's verdicts on the rollouts of a task."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._by_task: dict[str, list[tuple[float, Mapping[str, Sequence[float]]]]] = {}
        conflicts: Counter[str] = Counter()
        verdicts: Counter[str] = Counter()
        for (task, _), cell in results.cells.items():
            if not cell.scores:
                continue
            value = sum(cell.scores) / len(cell.scores)
            opinions = {**cell.others, **({"people": cell.labels} if cell.labels else {})}
            self._by_task.setdefault(task, []).append((value, opinions))
            for name, values in opinions.items():
                verdicts[name] += 1
                conflicts[name] += (_mean(values) >= RIGHT_SCORE) != (value >= RIGHT_SCORE)
        low, high = JUDGE_ERROR
        self._error = {n: min(high, max(low, conflicts[n] / verdicts[n])) for n in verdicts}

    def on(self, row: int) -> tuple[float, tuple[str, ...]]:
        """Change of the log odds that a label is wrong, and who contradicts it.

        The verdicts of one evaluator on one task are not independent: they count as one.
        """
        shift, disagreeing = 0.0, []
        cells = self._by_task.get(self._results.tasks[row].id, [])
        for name, error in self._error.items():
            conflicts = [
                (_mean(opinions[name]) >= RIGHT_SCORE) != (value >= RIGHT_SCORE)
                for value, opinions in cells
                if name in opinions
            ]
            if not conflicts or 2 * sum(conflicts) == len(conflicts):
                continue
            against = 2 * sum(conflicts) > len(conflicts)
            shift += math.log((1.0 - error) / error) * (1.0 if against else -1.0)
            if against:
                disagreeing.append(name)
        return shift, tuple(disagreeing)


def _shifted(chance: float, shift: float) -> float:
    chance = min(1.0 - 1e-9, max(1e-9, chance))
    return 1.0 / (1.0 + math.exp(-math.log(chance / (1.0 - chance)) - shift))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
