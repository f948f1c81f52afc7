"""`ratchet align`: align a judge with people's labels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ratchet.autopilot import Project
from ratchet.autopilot.project_evaluators import project_evaluators
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    number,
    out,
    print_json,
    project_in,
    table,
    wait_for,
)
from ratchet.cli.errors import err
from ratchet.evaluate.preference import PreferenceEvaluator, fit, pairs_of
from ratchet.observe.step_text import decoded_json
from ratchet.store import Store
from ratchet.types import Feedback, InputError

if TYPE_CHECKING:
    from ratchet.evaluate.judges import JudgeEvaluator
    from ratchet.evaluate.judges.realign import LabelledRollout, Realigned, Reword
    from ratchet.stats.agreement import IntervalEstimate

FOLDER = "judges"
"""Folder of the project in which alignments are stored."""


def align(
    name: Annotated[str, typer.Argument(help="Name of the judge.")],
    folder: Folder = Path("."),
    seed: Annotated[int, typer.Option(help="Seed of the split of the labels.")] = 0,
    reword: Annotated[
        bool, typer.Option("--reword", help="Have the coach look for a better wording.")
    ] = False,
    coach_calls: Annotated[
        int, typer.Option(min=3, help="With --reword: maximum number of coach calls.")
    ] = 40,
    json: Json = False,
) -> None:
    """Align a judge with people's labels, and show the agreement before and after.

    The agreement is measured on labels that the alignment has not seen. It is written to
    judges/NAME.json, which `alignment` of the evaluator in ratchet.toml names. An evaluator with
    use = "preference" is fitted to preferences and corrections, and written to its file.

    Examples:

      ratchet align helpful

      ratchet align helpful --reword --coach-calls 20

      ratchet align polite --json
    """
    from ratchet.evaluate.judges.realign import realign

    project = project_in(folder)
    judge = _named(project, name)
    with project.open_store() as store:
        if isinstance(judge, PreferenceEvaluator):
            _fit(store, judge, json)
            return
        judge.attach(store)
        cases = _cases(store, [c.question for c in judge.judge.spec.criteria])
        search = _search(project, store, seed, coach_calls) if reword else None
        realigned = wait_for(
            realign(judge, cases, store.spans.of, seed=seed, reword=search), paid_by=project
        )
    path = project.root / FOLDER / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        msgspec.json.format(msgspec.json.encode(realigned.alignment), indent=2) + b"\n"
    )
    if json:
        print_json({"file": str(path), **msgspec.structs.asdict(realigned)})
        return
    _print(realigned, path)


def _search(project: Project, store: Store, seed: int, coach_calls: int) -> Reword:
    """Search for a better wording with the project's coach."""
    from ratchet.autopilot.judge_wording import reworded

    def say(sentence: str) -> None:
        err.print(sentence, style="dim", markup=False)

    return functools.partial(reworded, project, store, seed=seed, coach_calls=coach_calls, say=say)


def _fit(store: Store, evaluator: PreferenceEvaluator, json: bool) -> None:
    """Fit a model of preferences to the store's feedback, and write it."""
    pairs = pairs_of(*_feedback(store))
    model = fit(pairs, evaluator.embed)
    evaluator.path.parent.mkdir(parents=True, exist_ok=True)
    evaluator.path.write_bytes(msgspec.json.encode(model))
    if json:
        figures = {"pairs": model.pairs, "accuracy": model.accuracy, "longer": model.longer}
        print_json({"file": str(evaluator.path), **figures, "doubt": model.doubt})
        return
    rows = table("", "")
    rows.show_header = False
    rows.add_row("pairs", str(model.pairs))
    rows.add_row("held-out pairs ordered correctly", _estimate(model.accuracy))
    rows.add_row("always preferring the longer text", number(model.longer, 2))
    out.print(rows)
    out.print(f"Written to {display_path(evaluator.path)}. {model.doubt}", markup=False)


def _feedback(store: Store) -> tuple[list[Feedback], dict[str, tuple[Any, Any]]]:
    """Preferences and corrections, with the input and output they refer to, by id."""
    items: list[Feedback] = []
    cursor: str | None = None
    while True:
        page, cursor = store.feedback.list(limit=1_000, cursor=cursor)
        items += [item for item in page if item.kind in ("preference", "correction")]
        if cursor is None:
            break
    ids = list(dict.fromkeys(item.rollout_id for item in items if item.rollout_id))
    about = {r.id: (r.input, r.output) for r in store.rollouts.get(ids).values()}
    for trace_id in dict.fromkeys(i.trace_id for i in items if i.trace_id and not i.rollout_id):
        detail = store.traces.get(trace_id)
        root = next((s for s in detail.spans if s.parent_id is None), None) if detail else None
        if root is not None and "ratchet.output" in root.attributes:
            about[trace_id] = tuple(
                _captured(root.attributes.get(f"ratchet.{side}")) for side in ("input", "output")
            )
    return items[::-1], about


def _captured(value: Any) -> Any:
    """A captured value, decoded if it is JSON."""
    if isinstance(value, str) and (decoded := decoded_json(value)) is not None:
        return decoded
    return value


def _named(project: Project, name: str) -> JudgeEvaluator | PreferenceEvaluator:
    from ratchet.evaluate.judges import JudgeEvaluator

    by_name = {e.name: e for e in project_evaluators(project)}
    judges = {
        key: e for key, e in by_name.items() if isinstance(e, (JudgeEvaluator, PreferenceEvaluator))
    }
    if name not in judges:
        choice = f"the judges are {', '.join(judges)}" if judges else "there are none"
        raise InputError(f"There is no judge {name!r} under [[evaluators]]; {choice}.")
    return judges[name]


def _cases(store: Store, questions: Sequence[str]) -> list[LabelledRollout]:
    """Labelled rollouts: by labels of whole outputs, or of the judge's only question."""
    from ratchet.evaluate.judges.realign import LabelledRollout

    criteria = {"", questions[0]} if len(questions) == 1 else {""}
    labels = [
        label for label in store.labels.list() if label.rollout_id and label.criterion in criteria
    ]
    rollouts = store.rollouts.get(list(dict.fromkeys(label.rollout_id for label in labels)))
    cases = []
    for id, rollout in rollouts.items():
        mine = [label for label in labels if label.rollout_id == id]
        comment = next((label.comment for label in mine if label.comment), "")
        value = sum(label.value for label in mine) / len(mine)
        if rollout.status == "succeeded":
            cases.append(LabelledRollout(rollout, value, comment))
    return cases


def _print(realigned: Realigned, path: Path) -> None:
    rows = table("on held-out labels", "before", "after", right=("before", "after"))
    before, after = realigned.before, realigned.after
    rows.add_row("kappa", _estimate(before.kappa), _estimate(after.kappa))
    rows.add_row("AUROC", _estimate(before.auroc), _estimate(after.auroc))
    rows.add_row("accuracy", number(before.accuracy), number(after.accuracy))
    rows.add_row("of the majority", number(before.majority), number(after.majority))
    errors = number(before.calibration_error), number(after.calibration_error)
    rows.add_row("calibration error", *errors)
    rows.add_row("cases", str(before.cases), str(after.cases))
    rows.add_row("unscored", str(before.unscored), str(after.unscored))
    out.print(rows)
    for old, new in realigned.alignment.wording.items():
        out.print(f"\n{old}\n  → {new}", markup=False)
    out.print(
        f"\n{realigned.examples} labelled cases are shown to the judge, chosen on"
        f" {realigned.chosen_by} others. Written to {display_path(path)}; use it with"
        f' alignment = "{FOLDER}/{path.name}" under [[evaluators]].',
        markup=False,
    )


def _estimate(estimate: IntervalEstimate | None) -> str:
    return (
        "-"
        if estimate is None
        else f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
    )
