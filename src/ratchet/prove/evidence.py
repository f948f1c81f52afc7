"""The evidence file: all data behind a decision, sufficient to recompute it independently."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet._private_files import make_folder
from ratchet.prove.alpha import level
from ratchet.prove.comparison import Comparison
from ratchet.prove.decide import decision
from ratchet.prove.frozen import FrozenProof
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.types import InputError
from ratchet.types.wording import counted

EVIDENCE_SCHEMA = "ratchet.evidence/4"
"""Identifies the layout below; a changed layout gets a new number."""

MARGIN_SCHEMA = "ratchet.evidence/5"
"""The same, for a candidate that must be proved no worse: plan and decision state the margin."""

FROZEN_SCHEMA = "ratchet.evidence/6"
"""The same as the previous layout, for an experiment that frozen sets guard: the plan states the
sets, `draws` holds their results, and the decision says what they show. A margin of 0 is stated,
too."""

OLDER_SCHEMAS = ("ratchet.evidence/1", "ratchet.evidence/2", "ratchet.evidence/3")
"""Layouts from when pairs without a score were skipped: for experiments that ran each task once,
several times, or with people's labels. They leave out what the others state, and hold the
decision's sentence in the wording of their time."""

ROW_LISTS = ("pairs", "draws", "observations")
"""The lists that are written with one item per line."""


def write_evidence(
    path: str | os.PathLike[str],
    comparison: Comparison,
    *,
    baseline: Mapping[str, Any],
    candidate: Mapping[str, Any],
    dataset: Mapping[str, Any],
    budget: float | None = None,
    history: Sequence[bool] = (),
    created_at: float | None = None,
    context: Mapping[str, Any] | None = None,
) -> str:
    """Write the evidence of a finished comparison, atomically, and return its digest.

    The JSON is formatted for reading: one line per pair, with the e-values after it. A crash leaves
    either no file or a complete one. An existing file of that name is replaced.

    Args:
        path: Path of the file; its folder is created if missing.
        comparison: A comparison with a verdict.
        baseline: The baseline: `id` and resource versions, as plain data.
        candidate: The candidate, in the same form.
        dataset: Name, version and split of the tasks, as plain data.
        budget: Alpha of the whole stream of experiments; None for a standalone experiment.
        history: For each experiment that began earlier in the stream, oldest first, whether it had
            promoted its candidate when this one began.
        created_at: Unix seconds; None to omit.
        context: Additional plain data. It is covered by the digest only.

    Returns:
        SHA-256 of the canonical content, 64 hex digits; stored in the file as `digest`.

    Raises:
        InputError: The comparison is not over, the plan's alpha is not the level that the budget
            gives, an argument is not JSON-serialisable, or the file cannot be written.
    """
    if budget is not None and level(budget, history) != comparison.plan.alpha:
        raise InputError(
            f"The plan has alpha {comparison.plan.alpha!r}, but the budget {budget!r} after"
            f" {counted(len(history), 'experiment')} gives {level(budget, history)!r}.",
            hint="Make the plan with alpha=level(budget, history).",
        )
    try:
        content = document(
            comparison,
            stated={
                "baseline": dict(baseline),
                "candidate": dict(candidate),
                "dataset": dict(dataset),
                "created_at": created_at,
                "context": dict(context or {}),
            },
            budget=budget,
            history=history,
            version=running_version(),
        )
        digest = digest_of(content)
        text = render({**content, "digest": digest})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"The evidence for {os.fspath(path)} has no JSON form: {error}.") from None
    write_atomically(path, text)
    return digest


def document(
    comparison: Comparison,
    *,
    stated: Mapping[str, Any],
    budget: float | None,
    history: Sequence[bool],
    version: str,
) -> dict[str, Any]:
    """The content of the file without its digest: `stated` verbatim, the rest computed."""
    plan = comparison.plan
    before, after = comparison.means
    names = [guardrail.metric for guardrail in plan.guardrails]
    planned, decided = msgspec.to_builtins(plan), msgspec.to_builtins(decision(comparison))
    del decided["sentence"]  # the numbers say it, whatever the wording of the day
    older = plan.missing == "skip"
    if not plan.margin and plan.frozen is None:
        del planned["margin"], decided["margin"]
    if plan.frozen is None:
        del planned["frozen"], decided["frozen"]
    if older:
        del planned["missing"], planned["stages"], decided["missing"], decided["more_pairs"]
        for guardrail in decided["guardrails"]:
            del guardrail["relative"]
    if older and plan.repetitions == 1:
        del planned["repetitions"], decided["repetitions"]
    if older and not plan.labels:
        del planned["labels"], decided["labelled"]
    rows = [
        {
            "pair": number,
            "task": pair.task_id,
            "baseline": pair.baseline,
            "candidate": pair.candidate,
            "missing": pair.missing,
            **({"labels": pair.labels and list(pair.labels)} if plan.labels else {}),
            **_runs(pair),
            "e_values": {
                "superiority": step.superiority,
                "harm": step.harm,
                "futility": step.futility,
                "guardrails": dict(zip(names, step.guardrails, strict=True)),
                **({"labels": step.labels} if plan.labels else {}),
            },
        }
        for number, (pair, step) in enumerate(
            zip(comparison.pairs, comparison.path, strict=True), start=1
        )
    ]
    return {
        "schema": _schema(plan),
        "ratchet": version,
        "created_at": stated["created_at"],
        "baseline": stated["baseline"],
        "candidate": stated["candidate"],
        "dataset": stated["dataset"],
        "context": stated["context"],
        "plan": planned,
        "alpha": {"budget": budget, "history": [bool(p) for p in history], "level": plan.alpha},
        "decision": decided,
        "counts": {
            "pairs": len(rows),
            "scored": comparison.scored,
            "missing": comparison.missing,
            "missing_metrics": {s.guardrail.metric: s.missing for s in comparison.guardrails},
        },
        "means": {"baseline": before, "candidate": after, "gain": after - before},
        "pairs": rows,
        **({"draws": _draws(comparison.frozen)} if comparison.frozen is not None else {}),
    }


def _draws(sets: FrozenProof) -> list[dict[str, Any]]:
    """One row for each draw of a frozen set, as it came."""
    return [
        {
            "draw": number,
            "set": set_id,
            "task": pair.task_id,
            "baseline": pair.baseline,
            "candidate": pair.candidate,
            "missing": pair.missing,
            **_runs(pair),
            "e_value": e_value,
        }
        for number, (set_id, pair, e_value) in enumerate(sets.order, start=1)
    ]


def _schema(plan: ExperimentPlan) -> str:
    if plan.frozen is not None:
        return FROZEN_SCHEMA
    if plan.missing != "skip":
        return MARGIN_SCHEMA if plan.margin else EVIDENCE_SCHEMA
    once, repeated, labelled = OLDER_SCHEMAS
    if plan.labels:
        return labelled
    return once if plan.repetitions == 1 else repeated


def _runs(pair: PairedScore) -> dict[str, Any]:
    """The source of a pair's scores: two rollouts, or each repetition with its own."""
    metrics = {name: list(sides) for name, sides in pair.metrics.items()}
    if not pair.repetitions:
        rollouts = [pair.baseline_rollout, pair.candidate_rollout]
        return {
            "failed": list(pair.failed),
            **({"reasons": dict(pair.reasons)} if pair.reasons else {}),
            "metrics": metrics,
            "rollouts": rollouts,
        }
    repetitions = [
        {"baseline": repetition.baseline, "candidate": repetition.candidate, **_runs(repetition)}
        for repetition in pair.repetitions
    ]
    return {"metrics": metrics, "repetitions": repetitions}


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content without `digest`, as JSON with sorted keys and no spaces."""
    canonical = json.dumps(
        {key: value for key, value in content.items() if key != "digest"},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=True,
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def render(content: Mapping[str, Any]) -> str:
    """JSON indented by two spaces, with one line per pair or observation."""
    parts = []
    for key, value in content.items():
        if key in ROW_LISTS and value:
            lines = ",\n".join("    " + _dumps(row) for row in value)
            body = f"[\n{lines}\n  ]"
        else:
            body = _dumps(value, indent=2).replace("\n", "\n  ")
        parts.append(f"  {_dumps(key)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dumps(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=True, indent=indent)


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write an evidence file: after a crash there is either no file or a complete one.

    Raises:
        InputError: It cannot be written.
    """
    try:
        _write(Path(path), text.encode())
    except OSError as error:
        raise InputError(
            f"The evidence could not be written to {os.fspath(path)}: {error.strerror or error}.",
            hint="Free some space, or choose a folder that can be written to.",
        ) from error


def _write(path: Path, data: bytes) -> None:
    make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def running_version() -> str:
    """Version of Ratchet that writes the file."""
    from ratchet._version import __version__

    return __version__
