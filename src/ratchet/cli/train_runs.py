"""`ratchet train runs`: the curves of training runs on this machine, during and after them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet._plugins import load_plugin
from ratchet.autopilot.trainable import RUNS
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    number,
    out,
    print_json,
    project_in,
    table,
)
from ratchet.types import InputError, NotFound
from ratchet.types.wording import counted
from ratchet.weights.metrics import METRICS, read_metrics
from ratchet.weights.trackers import RunCurves, Tracker

COLUMNS = {
    "step": "step",
    "reward": "reward",
    "loss": "loss",
    "entropy": "entropy",
    "kl": "KL",
    "clip_share": "clipped",
    "gap": "gap",
    "staleness": "stale",
    "skipped_groups": "skipped",
    "tokens_per_s": "tokens/s",
}
"""Column heading by metric; gap is the mean log-probability difference of trainer and sampler."""

TRACKERS = "ratchet.trackers"
"""Entry-point group with which packages add trackers."""

PANELS = ("val", "reward", "loss", "entropy", "kl", "clip_share", "gap", "gradient_norm")


def runs(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Start of a run's name; by default the newest."),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the curves as a PNG.")
    ] = None,
    send: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER=PLACE",
            help="Write the curves for tensorboard into a folder, or send them to a project at "
            "wandb or another package's tracker. Repeat the command to add new steps. Repeatable.",
        ),
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="Steps to show.")] = 20,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show the curves of a training run on this machine, even before it ends.

    Examples:

      ratchet train runs

      ratchet train runs 1f6c09ad --png curves.png

      ratchet train runs --send tensorboard=logs

      WANDB_MODE=offline ratchet train runs --send wandb=my-project

      watch -n 5 ratchet train runs
    """
    state = project_in(folder).state
    run_folder = _find(state / RUNS, run)
    records = read_metrics(run_folder)
    if png is not None:
        if not records:
            raise InputError(f"The training run {run_folder.name} has not finished a step yet.")
        _plot(records, run_folder.name, png)
    sent = _sent(send or [], run_folder, records, state)
    if json:
        print_json({"run": run_folder.name, "records": records, "png": str(png) if png else None})
        return
    steps = [record for record in records if "val" not in record]
    values = {record["step"]: record["val"] for record in records if "val" in record}
    out.print(f"{run_folder.name}: {counted(len(steps), 'step')}", markup=False)
    if steps:
        titles = {key: title for key, title in COLUMNS.items() if any(key in s for s in steps)}
        rows = table(*titles.values(), "val", "95 %", right=(*titles.values(), "val"))
        for step in steps[-last:]:
            val = values.get(step["step"])
            cells = [str(step["step"]), *(number(step.get(k)) for k in list(titles)[1:])]
            rows.add_row(*cells, number(val["value"]) if val else "", _interval(val))
        out.print(rows)
    if values:
        at, best = max(values.items(), key=lambda item: item[1]["value"])
        out.print(f"best on val: {number(best['value'])} after step {at}", markup=False)
    if png is not None:
        out.print(f"curves: {display_path(png)}", markup=False)
    for line in sent:
        out.print(line, markup=False)


def _sent(targets: list[str], run: Path, records: list[dict[str, Any]], state: Path) -> list[str]:
    """Give the curves to trackers; returns what each did with them."""
    places = [text.partition("=")[::2] for text in targets]
    for text, (name, place) in zip(targets, places, strict=True):
        if not (name and place):
            raise InputError(
                f"--send {text!r} does not name a tracker and a place.",
                hint="Such as wandb=my-project.",
            )
    curves = RunCurves(
        name=run.name,
        points=list(_numbers(records)),
        changed_at=(run / METRICS).stat().st_mtime,
        state=state,
    )
    trackers: list[Tracker] = [load_plugin(TRACKERS, name, "--send") for name, _ in places]
    return [tracker(curves, place) for tracker, (_, place) in zip(trackers, places, strict=True)]


def _numbers(records: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Each record's step, and its numbers by name."""
    for record in records:
        val = record.get("val")
        numbers = (
            {key: value for key, value in record.items() if key != "step"}
            if val is None
            else {"val": val["value"], "val/low": val["low"], "val/high": val["high"]}
        )
        metrics = {tag: float(n) for tag, n in numbers.items() if isinstance(n, (int, float))}
        yield record["step"], metrics


def _find(folder: Path, prefix: str | None) -> Path:
    runs = [path for path in folder.glob("*") if (path / METRICS).is_file()]
    if not runs:
        raise NotFound(
            "No model has been trained here yet.",
            hint='Train one: [improve] algorithm = "sft", "dpo", "grpo" or "ppo" in ratchet.toml.',
        )
    if prefix is None:
        return max(runs, key=lambda path: (path / METRICS).stat().st_mtime)
    matches = [path for path in runs if path.name.startswith(prefix)]
    if len(matches) != 1:
        many = f"{len(matches)} training runs begin" if matches else "No training run begins"
        names = ", ".join(sorted(path.name for path in matches or runs)[:10])
        raise NotFound(f"{many} with {prefix!r}.", hint=f"There are: {names}.")
    return matches[0]


def _interval(val: dict[str, Any] | None) -> str:
    if val is None or val["low"] is None:
        return ""
    return f"{number(val['low'])} to {number(val['high'])}"


def _plot(records: list[dict[str, Any]], name: str, path: Path) -> None:
    """Write a panel for each metric that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [key for key in PANELS if any(record.get(key) is not None for record in records)]
    figure, grid = pyplot.subplots(
        len(panels), 1, figsize=(7, 2 * len(panels)), sharex=True, squeeze=False
    )
    for axes, key in zip(grid[:, 0], panels, strict=True):
        points = [
            (record["step"], record[key]) for record in records if record.get(key) is not None
        ]
        steps = [step for step, _ in points]
        if key == "val":
            axes.plot(steps, [val["value"] for _, val in points], marker="o")
            bounded = [(step, val) for step, val in points if val["low"] is not None]
            axes.fill_between(
                [step for step, _ in bounded],
                [val["low"] for _, val in bounded],
                [val["high"] for _, val in bounded],
                alpha=0.2,
            )
        else:
            axes.plot(steps, [value for _, value in points])
        axes.set_ylabel(key)
    grid[-1, 0].set_xlabel("step")
    figure.suptitle(name, fontsize=9)
    figure.tight_layout()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        pyplot.close(figure)
