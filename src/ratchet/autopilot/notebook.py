"""`ratchet.show`: a run in a notebook, as in its report."""

from __future__ import annotations

from html import escape
from pathlib import Path

import msgspec

from ratchet.autopilot.project import Project
from ratchet.autopilot.run_report import run_report
from ratchet.types import InputError, Run


class ShownRun(msgspec.Struct, frozen=True):
    """A run, rendered for a notebook."""

    run: Run
    html: str
    """The report: one page without scripts."""

    def _repr_html_(self) -> str:
        # In a frame of its own: neither its style nor a prompt's text reaches the notebook.
        style = "width:100%;height:640px;border:0"
        return f'<iframe sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'

    def __str__(self) -> str:
        return f"Run {self.run.id[:8]} of {self.run.agent}: {self.run.message or self.run.stage}"


def show(run: Run | str | None = None, *, folder: str | Path = ".") -> ShownRun:
    """Show a run in a notebook: the decision, its evidence, what changed, the candidates.

    Args:
        run: The run, or the start of its id; by default the project's newest.
        folder: The project's folder, or one below it.

    Raises:
        InputError: There is no such run, or there are several.
        ConfigError: There is no project.
    """
    with Project.find(Path(folder)).open_store() as store:
        if isinstance(run, Run):
            runs = [run]
        elif run is None:
            runs = store.runs.list(1)
        else:
            runs = store.runs.find(run)
        if not runs and run is None:
            raise InputError("Nothing has run yet.", hint="Start with: ratchet improve")
        if len(runs) != 1:
            raise InputError(f"{run!r} matches {len(runs)} runs.", hint="See: ratchet status")
        return ShownRun(runs[0], run_report(store, runs[0]))
