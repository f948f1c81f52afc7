"""`ratchet train runs`: the curves of trainings on this machine, while they run and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.autopilot.trainable import RUNS
from ratchet.cli.console import (
    Folder,
    Json,
    display_path,
    number,
    out,
    print_json,
    print_table,
    project_in,
    table,
)
from ratchet.types import InputError, NotFound, RatchetError
from ratchet.weights.event_file import event_file
from ratchet.weights.metrics import METRICS, read_metrics

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
"""Column by metric; gap is the mean difference of log-probabilities between trainer and sampler."""

SEND_S = 60.0
"""Maximum time until Weights & Biases answers, in seconds."""

PANELS = ("val", "reward", "loss", "entropy", "kl", "clip_share", "gap", "gradient_norm")


def runs(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="The start of a run's name; else the newest."),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the curves as a PNG.")
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curves for TensorBoard, in a folder of DIR."),
    ] = None,
    wandb: Annotated[
        str | None,
        typer.Option(
            metavar="PROJECT",
            help="Send the curves to this project of Weights & Biases; again, to add new steps.",
        ),
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="Steps to show.")] = 20,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show the curves of a training on this machine, also while it runs.

    Examples:

      ratchet train runs

      ratchet train runs 1f6c09ad --png curves.png

      ratchet train runs --tensorboard logs

      WANDB_MODE=offline ratchet train runs --wandb my-project

      watch -n 5 ratchet train runs
    """
    state = project_in(folder).state
    found = _find(state / RUNS, run)
    records = read_metrics(found)
    if png is not None:
        if not records:
            raise InputError(f"The training {found.name} has no step yet.")
        _plot(records, found.name, png)
    if tensorboard is not None:
        _write_events(records, found, tensorboard / found.name)
    if wandb is not None:
        sent = _send(records, found.name, wandb, state)
    if json:
        print_json({"run": found.name, "records": records, "png": str(png) if png else None})
        return
    steps = [record for record in records if "val" not in record]
    values = {record["step"]: record["val"] for record in records if "val" in record}
    out.print(f"{found.name}: {len(steps)} steps", markup=False)
    if steps:
        shown = {key: title for key, title in COLUMNS.items() if any(key in s for s in steps)}
        rows = table(*shown.values(), "val", "95 %", right=(*shown.values(), "val"))
        for step in steps[-last:]:
            val = values.get(step["step"])
            cells = [str(step["step"]), *(number(step.get(k)) for k in list(shown)[1:])]
            rows.add_row(*cells, number(val["value"]) if val else "", _interval(val))
        print_table(rows)
    if values:
        at, best = max(values.items(), key=lambda item: item[1]["value"])
        out.print(f"best on val: {number(best['value'])} after step {at}", markup=False)
    if png is not None:
        out.print(f"curves: {display_path(png)}", markup=False)
    if tensorboard is not None:
        out.print(f"for TensorBoard: {display_path(tensorboard / found.name)}", markup=False)
    if wandb is not None:
        out.print(f"{sent} Weights & Biases, as {found.name} of {wandb}", markup=False)


def _write_events(records: list[dict[str, Any]], run: Path, folder: Path) -> None:
    """Write TensorBoard's event file of a training; an earlier one is replaced."""
    events = list(_numbers(records))
    content = event_file(events, (run / METRICS).stat().st_mtime if records else 0.0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.out.tfevents.0.ratchet").write_bytes(content)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.") from None


def _numbers(records: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Each record's step, and its numbers by name."""
    for record in records:
        val = record.get("val")
        numbers = (
            {key: value for key, value in record.items() if key != "step"}
            if val is None
            else {"val": val["value"], "val/low": val["low"], "val/high": val["high"]}
        )
        known = {tag: float(n) for tag, n in numbers.items() if isinstance(n, (int, float))}
        yield record["step"], known


def _send(records: list[dict[str, Any]], name: str, project: str, folder: Path) -> str:
    """Send the curves to Weights & Biases, and nothing else; it ignores steps that it has.

    Returns:
        What was done: sent, or in offline mode written to the folder `wandb` below `folder`.
    """
    try:
        import wandb
    except ImportError:
        raise InputError(
            "Weights & Biases needs the package wandb, which is missing.",
            hint="Install it: pip install 'agent-ratchet[wandb]'.",
        ) from None
    by_step: dict[int, dict[str, float]] = {}
    for step, numbers in _numbers(records):
        by_step.setdefault(step, {}).update(numbers)
    try:
        run = wandb.init(
            project=project,
            id=name,
            name=name,
            resume="allow",
            dir=str(folder),
            # By itself it also sends the repository, the command line and what the machine does.
            settings=wandb.Settings(
                silent=True,
                init_timeout=SEND_S,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
            ),
        )
        for step, numbers in sorted(by_step.items()):
            run.log(numbers, step=step)
        run.finish()
        return "written for" if run.settings.mode == "offline" else "sent to"
    except (wandb.Error, OSError) as error:
        raise RatchetError(
            f"Weights & Biases did not take the curves: {error}.",
            hint="Log in (wandb login), or write them to a folder: WANDB_MODE=offline.",
        ) from None


def _find(folder: Path, prefix: str | None) -> Path:
    found = [path for path in folder.glob("*") if (path / METRICS).is_file()]
    if not found:
        raise NotFound(
            "No model was trained here yet.",
            hint='Train one: [improve] algorithm = "sft", "dpo", "grpo" or "ppo" in ratchet.toml.',
        )
    if prefix is None:
        return max(found, key=lambda path: (path / METRICS).stat().st_mtime)
    named = [path for path in found if path.name.startswith(prefix)]
    if len(named) != 1:
        many = f"{len(named)} trainings begin" if named else "No training begins"
        names = ", ".join(sorted(path.name for path in named or found)[:10])
        raise NotFound(f"{many} with {prefix!r}.", hint=f"There are: {names}.")
    return named[0]


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
