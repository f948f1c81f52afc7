"""Earlier runs of the same agent: whose baseline is paid for, and whose comparison goes on."""

from __future__ import annotations

from ratchet.autopilot.planned_tasks import tasks_to_continue
from ratchet.store import Store
from ratchet.types import Dataset, Run

MAX_EARLIER_RUNS = 20
"""Maximum number of earlier runs that are searched for a baseline."""

_NEWEST = 1000
_CONTINUES = "continues"


def earlier_runs(run: Run, store: Store) -> list[Run]:
    """Earlier runs in which the baseline ran under the same conditions, oldest first."""
    alike = [
        earlier
        for earlier in store.runs.list(_NEWEST)
        if earlier.project == run.project
        and earlier.conditions == run.conditions
        and earlier.created_at < run.created_at
        and earlier.id != run.id
    ]
    return sorted(alike, key=lambda earlier: (earlier.created_at, earlier.id))[-MAX_EARLIER_RUNS:]


def continued_run(run: Run, dataset: Dataset, store: Store, *, answered: bool) -> Run | None:
    """The run that goes on in place of a new one, since tasks were added to its comparison.

    It is the newest one with the same rules, if that was not proved and there are test tasks that
    it has not compared.

    Args:
        run: The new run, which is not stored.
        dataset: Its dataset.
        store: The store.
        answered: Whether only tasks with an expected answer take part.
    """
    noted = store.journal.get(run.id, _CONTINUES)
    if noted is not None:
        return store.runs.get(noted)
    for earlier in store.runs.list(_NEWEST):
        if (earlier.project, earlier.rules) == (run.project, run.rules):
            ended_open = earlier.stage == "not_proved"
            goes_on = ended_open and tasks_to_continue(earlier, dataset, store, answered=answered)
            return earlier if goes_on else None
    return None


def note_continuation(run: Run, instead_of: Run, store: Store) -> None:
    """Remember which run goes on in place of another, so that the same command finds it again."""
    store.journal.append(instead_of.id, _CONTINUES, run.id, run.updated_at)
