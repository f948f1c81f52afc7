"""`ratchet show`: one thing by its id, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape
from rich.tree import Tree

from ratchet.cli.console import (
    Folder,
    Json,
    number,
    one_line,
    out,
    print_json,
    project_in,
    short,
    table,
)
from ratchet.cli.outcome import outcome_of, print_decision, print_outcome
from ratchet.store import Store
from ratchet.types import Candidate, Experiment, InputError, Params, Release, Rollout, Run, Span

Shown = Run | Candidate | Rollout | Experiment | Release


def show(
    identity: Annotated[
        str, typer.Argument(metavar="ID", help="Start of the id of a run, candidate, rollout, …")
    ],
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show a run, candidate, rollout, experiment or release by the start of its id.

    A rollout is shown with its trace and scores, an experiment with its decision.

    Examples:

      ratchet show 1a2b3c4d

      ratchet show 1a2b3c4d --json
    """
    with project_in(folder).open_store() as store:
        found = _find(store, identity)
        if json:
            print_json({"kind": type(found).__name__.lower(), **_details(store, found)})
            return
        _print(store, found)


def _find(store: Store, identity: str) -> Shown:
    if len(identity) < 4:
        raise InputError(f"{identity!r} is too short for an id.", hint="Give at least 4 digits.")
    shelves: Sequence[Callable[[str], Sequence[Shown]]] = (
        store.runs.find,
        store.candidates.find,
        store.experiments.find,
        store.releases.find,
        store.rollouts.find,
    )
    found = [noun for find in shelves for noun in find(identity)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            f"Nothing here has an id that begins with {identity!r}.", hint="See: ratchet status."
        )
    kinds = ", ".join(f"{type(noun).__name__.lower()} {noun.id[:16]}" for noun in found[:6])
    raise InputError(f"{identity!r} begins several ids: {kinds}.", hint="Give more digits.")


def _details(store: Store, found: Shown) -> dict[str, Any]:
    details: dict[str, Any] = msgspec.to_builtins(found)
    if isinstance(found, Rollout):
        details["scores"] = msgspec.to_builtins(store.scores.of([found.id]).get(found.id, []))
        details["spans"] = msgspec.to_builtins(store.spans.of(found.id))
        details["attempts_made"] = msgspec.to_builtins(store.rollouts.attempts(found.id))
    return details


def _print(store: Store, found: Shown) -> None:
    match found:
        case Rollout():
            print_rollout(store, found)
        case Candidate():
            _print_candidate(found)
        case Run():
            out.print(f"[bold]Run {short(found.id)}[/], seed {found.seed}: {found.stage}")
            print_outcome(outcome_of(store, found))
        case Experiment():
            out.print(f"[bold]Experiment {short(found.id)}[/] of run {short(found.run_id)}")
            if found.decision is None:
                out.print("It has not been decided yet.")
            else:
                print_decision(found.decision)
                out.print(found.decision.sentence, markup=False)
                out.print(f"Evidence: {found.evidence_path}", markup=False)
        case Release():
            _print_fields(msgspec.to_builtins(found))


def print_rollout(store: Store, rollout: Rollout) -> None:
    """A rollout with its answer, scores and trace."""
    out.print(
        f"[bold]Rollout {short(rollout.id)}[/] of task {escape(rollout.task_id)}: {rollout.status}"
    )
    fields = {
        "input": rollout.input,
        "output": rollout.output,
        "expected": rollout.expected,
        "error": rollout.error,
        "candidate": short(rollout.candidate_id),
        "took": f"{number(rollout.duration_s, 4)} s",
    }
    _print_fields({key: value for key, value in fields.items() if value not in (None, "")})
    scores = store.scores.of([rollout.id]).get(rollout.id, [])
    if scores:
        rows = table("evaluator", "score", "why")
        for score in scores:
            value = "error" if score.value is None else f"{score.value:.4g} {score.unit}".strip()
            rows.add_row(score.evaluator, value, escape(score.error or score.rationale))
        out.print(rows)
    spans = store.spans.of(rollout.id)
    if spans:
        out.print(_tree(spans))


def _tree(spans: Sequence[Span]) -> Tree:
    root = Tree("trace")
    known = {span.span_id for span in spans}
    branches: dict[str | None, Tree] = {}
    for span in spans:
        parent = branches.get(span.parent_id if span.parent_id in known else None, root)
        took = (span.end_ns - span.start_ns) / 1e6
        mark = " [red]error[/]" if span.status == "error" else ""
        branch = parent.add(f"[bold]{escape(span.name)}[/] {took:.2f} ms{mark}")
        branches[span.span_id] = branch
        for key, value in span.attributes.items():
            if not key.endswith((".operation.name", "agent.name", "tool.name")):
                branch.add(f"[dim]{key}[/] {escape(one_line(value))}")
        if span.message:
            branch.add(escape(span.message))
    return root


def _print_candidate(candidate: Candidate) -> None:
    out.print(f"[bold]Candidate {short(candidate.id)}[/] by {candidate.algorithm}")
    if candidate.reason:
        out.print(candidate.reason, markup=False)
    for name, resource in candidate.resources.items():
        out.print(f"\n[bold]{name}[/]")
        if isinstance(resource, Params):
            rows = table("knob", "value", "may be")
            for knob, value in resource.values.items():
                rows.add_row(knob, escape(repr(value)), escape(_domain(resource, knob)))
            out.print(rows)
        else:
            _print_fields(msgspec.to_builtins(resource))


def _domain(params: Params, knob: str) -> str:
    spec = msgspec.to_builtins(params.space[knob])
    if "options" in spec:
        return ", ".join(repr(option) for option in spec["options"])
    if "low" in spec:
        return f"{spec['low']:g} to {spec['high']:g}" + (", log scale" if spec["log"] else "")
    return "True or False"


def _print_fields(fields: dict[str, Any]) -> None:
    rows = table("", "")
    rows.show_header = False
    for key, value in fields.items():
        text = value if isinstance(value, str) and len(value) < 400 else one_line(value, 400)
        rows.add_row(f"[dim]{key}[/]", escape(text))
    out.print(rows)
