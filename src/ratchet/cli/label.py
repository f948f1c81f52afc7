"""`ratchet label`: people say which outputs are right, with one key press each."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot.run_outcome import PAIRS_TO_LABEL
from ratchet.cli.console import Folder, Json, one_line, out, print_json, short
from ratchet.cli.errors import err
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.cli.label_subjects import LabelSubject, RolloutSubject, trace_subjects
from ratchet.cli.show_trace import print_tree
from ratchet.evaluate.labelling import (
    LabelCase,
    in_random_order,
    label_cases,
    most_instructive,
)
from ratchet.store import Store
from ratchet.types import Drawn, InputError, Label, contradictions
from ratchet.types.wording import counted

KEYS = "y right, n wrong, 0-5 in between, t steps, s skip, u undo, q quit"

MAX_ROLLOUTS_READ = 5_000
"""How many of the newest rollouts are considered."""


def label(
    folder: Folder = Path("."),
    random: Annotated[
        bool,
        typer.Option(
            "--random", help="Draw at random, so that means over the labels are unbiased."
        ),
    ] = False,
    experiment: Annotated[
        str,
        typer.Option(help="Start of the id of an experiment whose decision is waiting for labels."),
    ] = "",
    evaluator: Annotated[
        str, typer.Option(help="The judge that the labels are for; by default all evaluators.")
    ] = "",
    criterion: Annotated[
        str, typer.Option(help="The criterion to judge; by default the output as a whole.")
    ] = "",
    traces: Annotated[
        bool, typer.Option("--traces", help="Label live traces instead of rollouts.")
    ] = False,
    agent: Annotated[
        str | None, typer.Option(help="With --traces: only this agent's traces.")
    ] = None,
    purpose: Annotated[
        str, typer.Option(help="Only rollouts whose purpose begins with this, such as eval.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of labels.")] = 50,
    by: Annotated[str, typer.Option(help="Who labels; by default the current user.")] = "",
    file: Annotated[
        Path | None,
        typer.Option("--import", help="Store the labels in a JSON Lines file instead of asking."),
    ] = None,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Label outputs as right or wrong, most informative first.

    Keys: y right, n wrong, 0 to 5 in between, t the steps behind the answer, s skip, u undo, q
    quit. With --traces the answers are those of live traffic, shown with the conversation before
    them; first those with bad feedback or a failed step. --json lists the cases instead of asking,
    and --import stores the answers.

    Examples:

      ratchet label

      ratchet label --random --limit 100

      ratchet label --traces --agent support

      ratchet label --experiment 1a2b3c4d

      ratchet label --import labels.jsonl
    """
    if agent is not None and not traces:
        raise InputError("--agent selects traces.", hint="ratchet label --traces --agent NAME")
    if traces and (experiment or purpose or evaluator):
        raise InputError("--traces takes none of --experiment, --purpose and --evaluator.")
    labeller = by or _user()
    with open_store(folder, store) as opened:
        if file is not None:
            _import(opened, file, labeller, json)
            return
        sampling: Drawn = "random" if random or experiment else "chosen"
        labelled = {
            label.trace_id if traces else label.rollout_id
            for label in opened.labels.list(criterion=criterion)
            if label.labeller == labeller
        }
        subjects: Sequence[LabelSubject]
        if traces:
            subjects = trace_subjects(opened, agent, random=random)
        else:
            if experiment:
                cases = _of_experiment(opened, experiment)
            elif random:
                cases = in_random_order(_cases(opened, purpose), lambda case: case.rollout.id)
            else:
                cases = most_instructive(_cases(opened, purpose), evaluator)
            subjects = [RolloutSubject(case, opened) for case in cases]
        left = [subject for subject in subjects if subject.id not in labelled][:limit]
        if json:
            print_json(
                {
                    "drawn": sampling,
                    "criterion": criterion,
                    "labelled": len(labelled),
                    "cases": [subject.for_machines() for subject in left],
                }
            )
            return
        if not left:
            what = "live trace is without" if traces else "rollout has an answer without"
            out.print(f"There is nothing to label: no {what} your label.")
            return
        _Session(opened, left, labeller=labeller, criterion=criterion, sampling=sampling).run()


class _Session:
    """Shows the cases in turn, and stores each label at once."""

    def __init__(
        self,
        store: Store,
        subjects: Sequence[LabelSubject],
        *,
        labeller: str,
        criterion: str,
        sampling: Drawn,
    ) -> None:
        self._store = store
        self._subjects = subjects
        self._labeller = labeller
        self._criterion = criterion
        self._drawn = sampling
        self._given: list[tuple[int, Label | None]] = []
        """Position of each answered case, and its label; None if it was skipped."""

    def run(self) -> None:
        keys = _keys()
        place, key = 0, ""
        while place < len(self._subjects):
            if key != "t":
                self._show(place)
            self._ask()
            key = next(keys, "q")
            if key == "q":
                break
            if key == "u":
                place = self._undo(place)
            elif key == "t":
                out.print()
                print_tree(self._subjects[place].spans())
            elif key == "s":
                self._given.append((place, None))
                place += 1
            elif (value := _value(key)) is not None:
                self._give(place, value)
                place += 1
            else:
                out.print(f"There is no key {key!r}: {KEYS}.", markup=False)
        count = sum(label is not None for _, label in self._given)
        out.print(f"\n{counted(count, 'label')} stored.")
        _print_contradictions(self._store)

    def _show(self, place: int) -> None:
        subject = self._subjects[place]
        out.print()
        out.rule(f"{place + 1} of {len(self._subjects)}   {short(subject.id)}", align="left")
        subject.show()

    def _ask(self) -> None:
        if self._criterion:
            out.print(self._criterion, style="bold", markup=False)
        out.print(f"[{KEYS}] ", end="", markup=False)

    def _give(self, place: int, value: float) -> None:
        from ratchet.curate.label_file import label_id

        subject = self._subjects[place]
        label = Label(
            id=label_id(subject.id, self._criterion, self._labeller),
            value=value,
            rollout_id=subject.id if subject.field == "rollout_id" else "",
            trace_id=subject.id if subject.field == "trace_id" else "",
            criterion=self._criterion,
            labeller=self._labeller,
            drawn=self._drawn,
        )
        self._store.labels.add([label], time.time())
        self._given.append((place, label))
        out.print(f"{value:g}")

    def _undo(self, place: int) -> int:
        """Undo the last answer; return the position of its case."""
        if not self._given:
            out.print("There is nothing to undo.")
            return place
        before, label = self._given.pop()
        if label is not None:
            self._store.labels.remove(label.id)
        out.print("undone")
        return before


def _cases(store: Store, purpose: str) -> list[LabelCase]:
    rollouts, _ = store.rollouts.list(
        status="succeeded", purpose=purpose or None, limit=MAX_ROLLOUTS_READ
    )
    return label_cases(rollouts, store.scores.of([r.id for r in rollouts]))


def _of_experiment(store: Store, start: str) -> list[LabelCase]:
    """The answers that an experiment needs labels for, in pairs that hide which is which.

    Raises:
        InputError: There is no such experiment, or its decision needs no labels.
    """
    matches = store.experiments.find(start)
    if len(matches) != 1:
        what = "Several experiments have" if matches else "No experiment has"
        raise InputError(f"{what} an id that begins with {start!r}.", hint="See: ratchet status.")
    experiment = matches[0]
    pairs = store.journal.get(experiment.run_id, PAIRS_TO_LABEL)
    if pairs is None or experiment.decision is not None:
        state = "is decided" if experiment.decision else "needs none yet"
        raise InputError(f"Experiment {short(experiment.id)} takes no labels: it {state}.")
    ids = [id for pair in pairs for id in sorted(pair)]  # ids are hashes: the order says nothing
    rollouts = store.rollouts.get(ids)
    # Without scores: they could reveal the sides, and sway the label.
    return label_cases([rollouts[id] for id in ids if id in rollouts], {})


def _import(store: Store, file: Path, labeller: str, json: bool) -> None:
    from ratchet.curate.label_file import read_labels

    labels = read_labels(file, labeller, lambda note: err.print(note, markup=False))
    wanted = [label.rollout_id for label in labels if label.rollout_id]
    statuses = store.rollouts.statuses(wanted)
    unknown = [id for id in wanted if id not in statuses]
    if unknown:
        raise InputError(
            f"{file}: there is no rollout {unknown[0]!r} in the store"
            f"{', nor ' + counted(len(unknown) - 1, 'other') if len(unknown) > 1 else ''}.",
            hint="Nothing was stored. ratchet label --json lists the ids of rollouts.",
        )
    store.labels.add(labels, time.time())
    if json:
        disputed = contradictions(store.labels.list())
        print_json({"stored": len(labels), "contradictions": disputed})
        return
    out.print(f"{counted(len(labels), 'label')} stored.")
    _print_contradictions(store)


def _print_contradictions(store: Store) -> None:
    for contradiction in contradictions(store.labels.list()):
        about = f" ({one_line(contradiction.criterion, 40)})" if contradiction.criterion else ""
        out.print(
            f"Contradiction on {short(contradiction.subject)}{about}: right by"
            f" {', '.join(contradiction.right)}, wrong by {', '.join(contradiction.wrong)}.",
            style="yellow",
            markup=False,
        )


def _keys() -> Iterator[str]:
    """Keys as they are pressed; from a pipe, the characters of its lines."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            yield from (key for key in line.strip().lower() if not key.isspace())
        return
    while True:
        try:
            yield typer.getchar().lower()
        except (EOFError, KeyboardInterrupt):
            return


def _value(key: str) -> float | None:
    if key in ("y", "n"):
        return float(key == "y")
    return int(key) / 5 if key in "012345" else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "somebody"
