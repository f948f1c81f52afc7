"""`ratchet show`: show any object by its id."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from ratchet.autopilot.run_outcome import outcome_of
from ratchet.cli.backend import Backend, ServerUrl, StoreBackend, open_backend
from ratchet.cli.console import (
    Folder,
    Json,
    number,
    one_line,
    out,
    print_json,
    short,
    table,
)
from ratchet.cli.errors import TELLER
from ratchet.cli.keys import StoreUrl
from ratchet.cli.refusals import print_judgement
from ratchet.cli.run_outcome import print_decision, print_outcome
from ratchet.cli.show_trace import print_conversation, print_trace, print_tree
from ratchet.client import URL_VARIABLE, is_server
from ratchet.observe.project_paths import STATE_NAME, folder_with_config
from ratchet.store import Store
from ratchet.types import Candidate, Cost, Experiment, InputError, Params, Release, Rollout, Run
from ratchet.types.trace import ConversationLog, TraceDetail

Shown = Run | Candidate | Rollout | Experiment | Release | TraceDetail | ConversationLog

MAX_STEPS_IN_FULL = 60
"""A rollout of at most this many steps is shown with their inputs and outputs."""


def show(
    identity: Annotated[
        str,
        typer.Argument(metavar="ID", help="Start of the id of a trace, rollout, candidate, run, …"),
    ],
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Include messages, inputs, outputs and ids; show whole conversations.",
        ),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show each step on its own line, without folding.")
    ] = False,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    server: ServerUrl = None,
    json: Json = False,
) -> None:
    """Show a trace, conversation, rollout, run, candidate, experiment or release by id.

    The start of the id is enough. A trace is shown as a tree with times, tokens and costs, a
    conversation as its messages, a rollout with its trace and scores, an experiment with its
    decision.

    Examples:

      ratchet show 4bf92f35

      ratchet show 4bf92f35 --full

      ratchet show chat-4711 --server http://127.0.0.1:8765
    """
    labels = []
    for address in _addresses(folder, store, server):
        with open_backend(folder, store, address, by_environment=False) as backend:
            labels.append(backend.label)
            subject = _find(backend, identity)
            if subject is None:
                continue
            if json:
                print_json({"kind": _kind(subject), **_details(backend, subject)})
            else:
                _print(backend, subject, full=full, everything=everything)
            return
    if len(identity) < 4:
        raise InputError(f"{identity!r} is too short for an id.", hint="Give at least 4 digits.")
    raise InputError(
        f"Nothing in {' or '.join(labels)} has an id that begins with {identity!r}.",
        hint="See: ratchet status, ratchet traces."
        + ("" if TELLER else " -C, --store and --server look elsewhere."),
    )


def _addresses(folder: Path, store: str | None, server: str | None) -> list[str | None]:
    """Addresses of the servers to query, local first; None stands for a store."""
    if store is not None or server is not None:
        return [server]
    url = os.environ.get(URL_VARIABLE, "").strip()
    elsewhere: list[str | None] = [url] if is_server(url) else []
    if (folder / STATE_NAME).is_dir() or os.environ.get("RATCHET_STORE"):
        return [None, *elsewhere]
    if elsewhere and folder_with_config(folder) is None:
        return elsewhere
    return [None, *elsewhere]


def _find(backend: Backend, identity: str) -> Shown | None:
    subjects: list[Shown] = []
    if len(identity) >= 4:
        subjects = _nouns(backend, identity) if isinstance(backend, StoreBackend) else []
        trace = backend.trace(identity)
        # A rollout is shown with its trace; an imported one has the trace's id.
        if trace is not None and trace.trace.rollout_id not in map(_id, subjects):
            subjects.append(trace)
    if not subjects:
        # Users choose conversation ids, so any prefix may match one: they come last.
        return backend.conversation(identity)
    if len(subjects) == 1:
        return subjects[0]
    kinds = ", ".join(f"{_kind(subject)} {_id(subject)[:16]}" for subject in subjects[:6])
    raise InputError(
        f"{identity!r} is the start of several ids: {kinds}.", hint="Give more digits."
    )


def _kind(subject: Shown) -> str:
    if isinstance(subject, TraceDetail):
        return "trace"
    return (
        "conversation" if isinstance(subject, ConversationLog) else type(subject).__name__.lower()
    )


def _id(subject: Shown) -> str:
    if isinstance(subject, TraceDetail):
        return subject.trace.trace_id
    return subject.conversation.id if isinstance(subject, ConversationLog) else subject.id


def _nouns(backend: StoreBackend, identity: str) -> list[Shown]:
    store = backend.store
    shelves: Sequence[Callable[[str], Sequence[Shown]]] = (
        store.runs.find,
        store.candidates.find,
        store.experiments.find,
        store.releases.find,
        store.rollouts.find,
    )
    return [noun for find in shelves for noun in find(identity)]


def _details(backend: Backend, subject: Shown) -> dict[str, Any]:
    details: dict[str, Any] = msgspec.to_builtins(subject)
    if isinstance(subject, Rollout) and isinstance(backend, StoreBackend):
        store = backend.store
        details["scores"] = msgspec.to_builtins(store.scores.of([subject.id]).get(subject.id, []))
        details["spans"] = msgspec.to_builtins(store.spans.of(subject.id))
        details["attempts_made"] = msgspec.to_builtins(store.rollouts.attempts(subject.id))
    return details


def _print(backend: Backend, subject: Shown, *, full: bool, everything: bool) -> None:
    if isinstance(subject, TraceDetail):
        print_trace(subject, full=full, everything=everything)
    elif isinstance(subject, ConversationLog):
        print_conversation(subject, full=full)
    elif isinstance(backend, StoreBackend):
        _print_noun(backend.store, subject, full=full, everything=everything)


def _print_noun(
    store: Store,
    subject: Run | Candidate | Rollout | Experiment | Release,
    *,
    full: bool,
    everything: bool,
) -> None:
    match subject:
        case Rollout():
            print_rollout(store, subject, full=full, everything=everything)
        case Candidate():
            _print_candidate(store, subject)
        case Run():
            out.print(f"[bold]Run {short(subject.id)}[/], seed {subject.seed}: {subject.stage}")
            print_outcome(outcome_of(store, subject))
        case Experiment():
            out.print(f"[bold]Experiment {short(subject.id)}[/] of run {short(subject.run_id)}")
            if subject.decision is None:
                out.print("There is no decision yet.")
            else:
                print_decision(subject.decision)
                out.print(subject.decision.sentence, markup=False)
                out.print(f"Evidence: {subject.evidence_path}", markup=False)
        case Release():
            _print_fields(msgspec.to_builtins(subject))


def print_rollout(
    store: Store, rollout: Rollout, *, full: bool = False, everything: bool = False
) -> None:
    """Print a rollout with its answer, scores and trace."""
    out.print(
        f"[bold]Rollout {short(rollout.id)}[/] of task {escape(rollout.task_id)}: {rollout.status}"
    )
    fields = {
        "input": rollout.input,
        "output": rollout.output,
        "expected": rollout.expected,
        "error": rollout.error,
        "candidate": short(rollout.candidate_id),
        "took": "" if rollout.duration_s is None else f"{number(rollout.duration_s, 4)} s",
        "cost": "" if rollout.cost == Cost() else str(rollout.cost),
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
        out.print("trace")
        print_tree(spans, full=full or len(spans) <= MAX_STEPS_IN_FULL, everything=everything)


def _print_candidate(store: Store, candidate: Candidate) -> None:
    out.print(f"[bold]Candidate {short(candidate.id)}[/] by {candidate.algorithm}")
    if candidate.reason:
        out.print(candidate.reason, markup=False)
    print_judgement(store, candidate.id)
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
