"""Cases: real outputs with known verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.evaluate.corruptions import is_identical, is_right
from ratchet.types import Label, Rollout, Task


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A real output, with people's labels and the expected answer."""

    rollout: Rollout
    label: float | None = None
    """Mean of its labels; None without any."""
    labels: int = 0
    made_up: bool = False
    """Whether it represents only a task, whose expected answer may serve as an output."""

    @property
    def labelled_right(self) -> bool | None:
        """People's verdict; None without labels, or if they are evenly divided."""
        if self.label is None or self.label == 0.5:
            return None
        return self.label > 0.5

    @property
    def right(self) -> bool | None:
        """Whether it is right by labels, or by the expected answer; None if unknown."""
        if self.labelled_right is not None:
            return self.labelled_right
        return is_right(self.rollout.output, self.rollout.expected)

    @property
    def surely_right(self) -> bool:
        """Whether people call it right, or it is exactly the expected answer."""
        if self.labelled_right is not None:
            return self.labelled_right and not self.contradicted
        return is_identical(self.rollout.output, self.rollout.expected)

    @property
    def perhaps_right(self) -> bool:
        """Whether it resembles the expected answer, or contains it."""
        if self.surely_right or self.labelled_right is not None or self.rollout.expected is None:
            return False
        return is_right(self.rollout.output, self.rollout.expected) is not False

    @property
    def contradicted(self) -> bool:
        """Whether people call it right although it differs from the expected answer."""
        right = is_right(self.rollout.output, self.rollout.expected)
        return self.labelled_right is True and right is False


def make_cases(
    rollouts: Iterable[Rollout], labels: Sequence[Label] = (), tasks: Iterable[Task] = ()
) -> list[Case]:
    """Cases of succeeded rollouts; only one of equal outputs for equal tasks, labelled if possible.

    Args:
        rollouts: The rollouts; those that did not succeed are left out.
        labels: Labels of outputs as a whole; those of criteria are left out.
        tasks: Tasks whose expected answers may serve as outputs.
    """
    values: dict[str, list[float]] = {}
    for label in labels:
        if not label.criterion and label.rollout_id:
            values.setdefault(label.rollout_id, []).append(label.value)
    cases: dict[bytes, Case] = {}
    ended = [r for r in rollouts if r.status == "succeeded"]
    for rollout in sorted(ended, key=lambda r: (r.id not in values, r.id)):
        label_values = values.get(rollout.id, [])
        case = Case(
            rollout=rollout,
            label=math.fsum(label_values) / len(label_values) if label_values else None,
            labels=len(label_values),
        )
        # Labelled rollouts each count: a person has read them.
        key = rollout.id if label_values else (rollout.input, rollout.expected, rollout.output)
        cases.setdefault(msgspec.json.encode(key), case)
    places = {msgspec.json.encode((c.rollout.input, c.rollout.expected)) for c in cases.values()}
    answered = (task for task in tasks if task.expected is not None)
    for task in sorted(answered, key=lambda task: task.id):
        place = msgspec.json.encode((task.input, task.expected))
        if place not in places:
            places.add(place)
            cases[place] = Case(rollout=_made_up(task), made_up=True)
    return list(cases.values())


def _made_up(task: Task) -> Rollout:
    return Rollout(
        id=f"expected/{task.id}",
        queue="",
        candidate_id="",
        task_id=task.id,
        input=task.input,
        expected=task.expected,
        metadata=task.metadata,
        status="succeeded",
    )
