"""Verification: recomputes an evidence file from its pairs and plan, and compares bit for bit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from ratchet.prove.alpha import level
from ratchet.prove.comparison import replay
from ratchet.prove.decide import decision
from ratchet.prove.evidence import (
    EVIDENCE_SCHEMA,
    FROZEN_SCHEMA,
    MARGIN_SCHEMA,
    OLDER_SCHEMAS,
    digest_of,
    document,
)
from ratchet.prove.plan import ExperimentPlan, PairedScore
from ratchet.prove.stage_evidence import SCHEMA_STAGE, SCHEMA_STAGE_SKIPPING, recompute_stage
from ratchet.prove.stated import ABSENT_VALUE, budget_of, compare, part, short
from ratchet.types import Decision, InputError, RatchetError, StageDecision, VerificationError
from ratchet.types.wording import counted

ROW_OF_LIST = {"pairs": "pair", "draws": "draw"}
"""The lists whose rows are compared one by one, with the key of a row's number."""

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum size of a file, in bytes; larger ones are not read."""

MAX_EXPERIMENT = 1_000_000
"""Maximum number of pairs."""

STAGE_SCHEMAS = (SCHEMA_STAGE_SKIPPING, SCHEMA_STAGE)
"""Layouts of the evidence of stages."""

SCHEMAS = (*OLDER_SCHEMAS, EVIDENCE_SCHEMA, MARGIN_SCHEMA, FROZEN_SCHEMA, *STAGE_SCHEMAS)
"""Layouts that can be verified."""

STATED_FIELDS = ("baseline", "candidate", "dataset", "created_at", "context")
"""Fields that are not recomputed, only covered by the digest."""

COMPUTED = ("schema", "plan", "alpha", "pairs", "draws", "means", "counts", "decision")
"""Recomputed fields, in the order in which their differences are reported, after those of pairs and
draws."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Result of recomputing an evidence file."""

    path: str
    findings: tuple[str, ...]
    """Every difference as a message, in order; empty if there are none."""
    decision: Decision | StageDecision
    """The decision as recomputed from the pairs, or from the observations of a stage."""
    pairs: int
    """Pairs or observations in the file, missing ones included."""
    digest: str
    """SHA-256 of the content as read."""

    @property
    def ok(self) -> bool:
        """Whether the file's content equals the recomputed content."""
        return not self.findings

    def require(self) -> Verification:
        """Return this verification if it is ok.

        Raises:
            VerificationError: Names the first difference.
        """
        if self.ok:
            return self
        more = len(self.findings) - 1
        raise VerificationError(
            f"{self.path}: {self.findings[0]}" + (f" ({more} more)" if more else ""),
            hint="Do not trust this file; make the decision again from the rollouts.",
        )


def verify(path: str | os.PathLike[str]) -> Verification:
    """Recompute every number of an evidence file from its pairs and its plan.

    Returns:
        The findings; empty if every number and the digest match. Detects changed scores, plans,
        e-values, means, interval ends, verdicts, sentences and names.

    Raises:
        InputError: The file does not exist, or it cannot be read.
        VerificationError: It is not an evidence file: malformed, truncated, too large, of another
            schema, or with an impossible plan or pairs.
    """
    name = os.fspath(path)
    content = _load(name)
    if content.get("schema") not in SCHEMAS:
        raise VerificationError(
            f"{name} has the schema {short(content.get('schema'))}, not one of"
            f" {', '.join(map(repr, SCHEMAS))}.",
            hint="Verify it with the version of Ratchet that it names.",
        )
    if content["schema"] in STAGE_SCHEMAS:
        stage = recompute_stage(name, content)
        return Verification(
            path=name,
            findings=stage.findings,
            decision=stage.decision,
            pairs=stage.observations,
            digest=stage.digest,
        )
    plan = _plan(name, content)
    pairs = _pairs(name, content, plan.repetitions)
    alpha = part(name, content, "alpha", dict)
    budget, history = budget_of(name, alpha)
    draws = _draws(name, content) if plan.frozen is not None else []
    try:
        comparison = replay(plan, pairs, draws)
        digest = digest_of(content)
        expected = document(
            comparison,
            stated={key: content.get(key) for key in STATED_FIELDS},
            budget=budget,
            history=history,
            version=str(content.get("ratchet")),
        )
    except RatchetError as error:
        raise VerificationError(f"{name}: {error.message}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise VerificationError(f"{name} cannot be recomputed: {error}.") from None
    if content["schema"] in OLDER_SCHEMAS:
        # Its wording was another; what it says follows from the numbers.
        expected["decision"]["sentence"] = part(name, content, "decision", dict).get("sentence")
    findings = _differences(content, expected)
    if budget is not None and level(budget, history) != plan.alpha:
        findings.append(
            f"plan.alpha: {plan.alpha!r} stated, the budget {budget!r} after {len(history)}"
            f" experiments gives {level(budget, history)!r}"
        )
    if content.get("digest") != digest:
        findings.append(f"digest: {short(content.get('digest'))} stated, {digest!r} recomputed")
    return Verification(
        path=name,
        findings=tuple(findings),
        decision=decision(comparison),
        pairs=len(pairs),
        digest=digest,
    )


def _load(name: str) -> dict[str, Any]:
    try:
        size = Path(name).stat().st_size
        if size > MAX_FILE_BYTES:
            raise VerificationError(
                f"{name} has {size} bytes; evidence has at most {MAX_FILE_BYTES}."
            )
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"The evidence {name!r} cannot be read: {reason}.") from None
    try:
        content = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse
        )
    except RecursionError:
        raise VerificationError(f"{name} is nested too deeply to be evidence.") from None
    except ValueError as error:
        raise VerificationError(
            f"{name} is not evidence: {error}.", hint="It may have been cut short; get it again."
        ) from None
    if not isinstance(content, dict):
        raise VerificationError(f"{name} is not evidence: it contains no JSON object.")
    return content


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    # With a duplicate key, a reader could see one value and a program use another.
    result = dict(items)
    if len(result) != len(items):
        names = [key for key, _ in items]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {short(twice)} is given twice")
    return result


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _plan(name: str, content: dict[str, Any]) -> ExperimentPlan:
    planned = part(name, content, "plan", dict)
    rule = "skip" if content["schema"] in OLDER_SCHEMAS else "worst"
    try:
        return msgspec.convert({**planned, "missing": rule}, ExperimentPlan)
    except msgspec.ValidationError as error:
        raise VerificationError(f"{name}: the plan is malformed: {error}.") from None
    except RatchetError as error:
        raise VerificationError(f"{name}: {error.message}") from None


def _pairs(name: str, content: dict[str, Any], repetitions: int) -> list[PairedScore]:
    rows = part(name, content, "pairs", list)
    if len(rows) > MAX_EXPERIMENT:
        raise VerificationError(
            f"{name} has {counted(len(rows), 'pair')}; at most {MAX_EXPERIMENT} are allowed."
        )
    pairs = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise VerificationError(f"{name}: pair {number} is {short(row)}, not an object.")
        runs = [row] if repetitions == 1 else row.get("repetitions")
        if not isinstance(runs, list) or len(runs) != repetitions:
            raise VerificationError(
                f"{name}: pair {number} does not have the {repetitions} repetitions of the plan."
            )
        try:
            pair = PairedScore.of_repetitions([_run(row.get("task"), run) for run in runs])
            if row.get("labels") is not None:
                labels = msgspec.convert(row["labels"], tuple[float | None, float | None])
                pair = msgspec.structs.replace(pair, labels=labels)
            pairs.append(pair)
        except msgspec.ValidationError as error:
            raise VerificationError(f"{name}: pair {number} is malformed: {error}.") from None
        except RatchetError as error:
            raise VerificationError(f"{name}: pair {number}: {error.message}") from None
    return pairs


def _draws(name: str, content: dict[str, Any]) -> list[tuple[str, PairedScore]]:
    """The draws of frozen sets, each with its set."""
    rows = part(name, content, "draws", list)
    if len(rows) > MAX_EXPERIMENT:
        raise VerificationError(
            f"{name} has {counted(len(rows), 'draw')}; at most {MAX_EXPERIMENT} are allowed."
        )
    draws = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise VerificationError(f"{name}: draw {number} is {short(row)}, not an object.")
        try:
            draws.append((str(row.get("set")), _run(row.get("task"), row)))
        except msgspec.ValidationError as error:
            raise VerificationError(f"{name}: draw {number} is malformed: {error}.") from None
        except RatchetError as error:
            raise VerificationError(f"{name}: draw {number}: {error.message}") from None
    return draws


def _run(task: Any, row: Any) -> PairedScore:
    if not isinstance(row, dict):
        raise VerificationError(f"the repetition {short(row)} is not an object.")
    rollouts = row.get("rollouts")
    if not isinstance(rollouts, list) or len(rollouts) != 2:
        raise VerificationError("its two rollouts are not named.")
    return msgspec.convert(
        {
            "task_id": task,
            "baseline": row.get("baseline"),
            "candidate": row.get("candidate"),
            "metrics": row.get("metrics"),
            "failed": row.get("failed"),
            "reasons": row.get("reasons", {}),
            "baseline_rollout": rollouts[0],
            "candidate_rollout": rollouts[1],
        },
        PairedScore,
    )


def _differences(content: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """All differences between the stated and the recomputed content, pairs first."""
    findings: list[str] = []
    # A changed pair can move the verdict forward; there is nothing to compare the later pairs with.
    for rows, row in ROW_OF_LIST.items():
        stated_rows, expected_rows = content.get(rows, []), expected.get(rows, [])
        if not isinstance(stated_rows, list):
            findings += compare(stated_rows, expected_rows, rows)
            continue
        for stated, recomputed in zip(stated_rows, expected_rows, strict=False):
            label = f"{row} {recomputed[row]} (task {recomputed['task']})"
            for key in recomputed | stated:
                differences = compare(
                    stated.get(key, ABSENT_VALUE), recomputed.get(key, ABSENT_VALUE), key
                )
                findings += [f"{label}: {text}" for text in differences]
        ended = len(expected_rows)
        if ended < len(stated_rows):
            verdict = expected["decision"]["verdict"]
            findings.append(
                f"{rows}: {len(stated_rows)} stated, yet the verdict {verdict!r} is reached after"
                f" {row} {ended}"
            )
    order = [key for key in COMPUTED if key not in ROW_OF_LIST]
    other_keys = [
        key for key in [*expected, *content] if key not in (*COMPUTED, *STATED_FIELDS, "digest")
    ]
    for key in dict.fromkeys([*order, *STATED_FIELDS, *other_keys]):
        findings += compare(content.get(key, ABSENT_VALUE), expected.get(key, ABSENT_VALUE), key)
    return findings
