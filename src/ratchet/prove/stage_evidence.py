"""The evidence of a live stage: its plan and all observations, from which anyone can recompute it.

Names of units are replaced by hashes, since they may be those of users. Why a score is missing is
left out, since an evaluator's message may quote an answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ratchet.prove.alpha import level
from ratchet.prove.canary import CanaryPlan, CanaryTest
from ratchet.prove.evidence import digest_of, render, running_version, write_atomically
from ratchet.prove.shadow import ShadowPair, ShadowPlan, ShadowTest
from ratchet.prove.stated import ABSENT_VALUE, budget_of, compare, part, short
from ratchet.prove.watch import WatchPlan, WatchTest
from ratchet.types import (
    InputError,
    LiveOutcome,
    LiveStage,
    RatchetError,
    StageDecision,
    VerificationError,
    content_hash,
)

SCHEMA_STAGE = "ratchet.stage/2"
"""Identifies the layout; a changed layout gets a new number."""

SCHEMA_STAGE_SKIPPING = "ratchet.stage/1"
"""The previous layout: its plans have no rule for missing values, and used `skip`."""

NEW_IN_PLANS = ("missing", "feedback")
"""Fields of plans that the previous layout lacks."""

LEFT_OUT = ("release", "versions")
"""Fields of observations that no test reads: a watch only gets what ran the release."""

STATED_FIELDS = ("baseline", "candidate", "created_at", "context")
"""Fields that are not recomputed, only covered by the digest."""

StagePlan: TypeAlias = ShadowPlan | CanaryPlan | WatchPlan
Observation: TypeAlias = ShadowPair | LiveOutcome


class _Kind(NamedTuple):
    plan: type[StagePlan]
    test: type[ShadowTest] | type[CanaryTest] | type[WatchTest]
    observation: type[Observation]


STAGES: dict[LiveStage, _Kind] = {
    "shadow": _Kind(ShadowPlan, ShadowTest, ShadowPair),
    "canary": _Kind(CanaryPlan, CanaryTest, LiveOutcome),
    "watch": _Kind(WatchPlan, WatchTest, LiveOutcome),
}


class StageVerification(NamedTuple):
    """Result of recomputing a stage's evidence."""

    findings: tuple[str, ...]
    decision: StageDecision
    observations: int
    digest: str


def write_stage_evidence(
    path: str | os.PathLike[str],
    plan: StagePlan,
    observations: Sequence[Observation],
    *,
    baseline: Mapping[str, Any],
    candidate: Mapping[str, Any],
    budget: float | None = None,
    history: Sequence[bool] = (),
    created_at: float | None = None,
    context: Mapping[str, Any] | None = None,
) -> StageDecision:
    """Write the evidence of an ended stage, atomically, and return its decision.

    Everything is recomputed from the observations. A stage without a verdict after the last of them
    is one that was ended early.

    Args:
        path: Path of the file; its folder is created if missing. An existing file is replaced.
        plan: The rules.
        observations: In the order in which they were added, and none after the verdict.
        baseline: The baseline: `id` and resource versions, as plain data.
        candidate: The candidate, in the same form.
        budget: Alpha of the whole stream of candidates; None for a stage on its own, as a watch is.
        history: For each earlier candidate of the stream, oldest first, whether it had been
            shipped when the first stage of this one began.
        created_at: Unix seconds; None to omit.
        context: Additional plain data. It is covered by the digest only.

    Raises:
        InputError: There are observations after the verdict, the plan's alpha is not the level that
            the budget gives, an argument has no JSON form, or the file cannot be written.
    """
    if budget is not None and level(budget, history) != plan.alpha:
        raise InputError(
            f"The plan has alpha {plan.alpha!r}, but the budget {budget!r} after {len(history)}"
            f" candidates gives {level(budget, history)!r}.",
            hint="Make the plan with alpha=level(budget, history).",
        )
    stage = _stage_of(plan)
    try:
        content, decided = _document(
            stage,
            plan,
            [_published(observation) for observation in observations],
            stated={
                "baseline": dict(baseline),
                "candidate": dict(candidate),
                "created_at": created_at,
                "context": dict(context or {}),
            },
            budget=budget,
            history=history,
            version=running_version(),
            schema=SCHEMA_STAGE,
        )
        if len(content["observations"]) < len(observations):
            raise InputError(
                f"The stage had already ended after {len(content['observations'])} of "
                f"{len(observations)} observations.",
                hint="An observation that was not part of the decision is not evidence for it.",
            )
        text = render({**content, "digest": digest_of(content)})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"The evidence for {os.fspath(path)} has no JSON form: {error}.") from None
    write_atomically(path, text)
    return decided


def recompute_stage(name: str, content: dict[str, Any]) -> StageVerification:
    """Recompute the evidence of a stage.

    Args:
        name: Of the file, for messages.
        content: What it holds.

    Raises:
        VerificationError: It is malformed, or has an impossible plan or observation.
    """
    stage = content.get("stage")
    if not isinstance(stage, str) or stage not in STAGES:
        raise VerificationError(
            f"{name}: the stage is {short(stage)}, not one of {', '.join(STAGES)}."
        )
    rows = part(name, content, "observations", list)
    budget, history = budget_of(name, part(name, content, "alpha", dict))
    kind = STAGES[stage]
    try:
        plan = _plan(part(name, content, "plan", dict), kind.plan, content["schema"])
        observations = [_read(row, kind.observation) for row in rows]
        expected, decided = _document(
            stage,
            plan,
            observations,
            stated={key: content.get(key) for key in STATED_FIELDS},
            budget=budget,
            history=history,
            version=str(content.get("ratchet")),
            schema=content["schema"],
        )
        digest = digest_of(content)
    except msgspec.ValidationError as error:
        raise VerificationError(f"{name} is malformed: {error}.") from None
    except RatchetError as error:
        raise VerificationError(f"{name}: {error.message}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise VerificationError(f"{name} cannot be recomputed: {error}.") from None
    if content["schema"] == SCHEMA_STAGE_SKIPPING:
        # Its wording was another; what it says follows from the numbers.
        expected["decision"]["sentence"] = part(name, content, "decision", dict).get("sentence")
    findings = _differences(rows, expected["observations"])
    for key in dict.fromkeys([*expected, *content]):
        if key not in ("observations", "digest"):
            findings += compare(
                content.get(key, ABSENT_VALUE), expected.get(key, ABSENT_VALUE), key
            )
    if budget is not None and level(budget, history) != plan.alpha:
        findings.append(
            f"plan.alpha: {plan.alpha!r} stated, the budget {budget!r} after {len(history)}"
            f" candidates gives {level(budget, history)!r}"
        )
    if content.get("digest") != digest:
        findings.append(f"digest: {short(content.get('digest'))} stated, {digest!r} recomputed")
    return StageVerification(tuple(findings), decided, len(rows), digest)


def _document(
    stage: LiveStage,
    plan: StagePlan,
    observations: Sequence[Observation],
    *,
    stated: Mapping[str, Any],
    budget: float | None,
    history: Sequence[bool],
    version: str,
    schema: str,
) -> tuple[dict[str, Any], StageDecision]:
    """The content of the file without its digest: `stated` verbatim, the rest computed.

    The decision's sentence is left out: the numbers say it, whatever the wording of the day.
    """
    test: Any = STAGES[stage].test.begin(plan)  # type: ignore[arg-type]
    rows = []
    for number, observation in enumerate(observations, start=1):
        if test.verdict is not None:
            break
        test.add(observation)
        fields = msgspec.to_builtins(observation)
        published = {key: value for key, value in fields.items() if key not in LEFT_OUT}
        rows.append({"observation": number, **published, "e_values": test.e_values})
    test.finish()
    decision = test.decision()
    decided = msgspec.to_builtins(decision)
    del decided["sentence"]
    if schema == SCHEMA_STAGE_SKIPPING:
        for guardrail in decided["guardrails"]:
            del guardrail["relative"]
    content = {
        "schema": schema,
        "ratchet": version,
        "stage": stage,
        **stated,
        "plan": _stated_plan(plan, schema),
        "alpha": {"budget": budget, "history": [bool(p) for p in history], "level": plan.alpha},
        "decision": decided,
        "observations": rows,
    }
    return content, decision


def _plan(stated: dict[str, Any], kind: type[StagePlan], schema: str) -> StagePlan:
    """The plan of a file, with the rule for missing values that its layout implies."""
    if schema == SCHEMA_STAGE_SKIPPING:
        stated = {**stated, "missing": "skip"}
    elif "missing" not in stated:
        raise VerificationError("the plan does not say what a missing value counts as.")
    return msgspec.convert(stated, kind)


def _stated_plan(plan: StagePlan, schema: str) -> dict[str, Any]:
    """The plan as a file of this layout states it."""
    stated: dict[str, Any] = msgspec.to_builtins(plan)
    if schema == SCHEMA_STAGE_SKIPPING:
        return {key: value for key, value in stated.items() if key not in NEW_IN_PLANS}
    return stated


def _stage_of(plan: StagePlan) -> LiveStage:
    for stage, kind in STAGES.items():
        if isinstance(plan, kind.plan):
            return stage
    raise InputError(f"A {type(plan).__name__} is not the plan of a stage.")


def _published(observation: Observation) -> Observation:
    """The observation without fields that may be private."""
    if not isinstance(observation, LiveOutcome):
        return observation
    unit = content_hash([observation.experiment_id, observation.unit]) if observation.unit else ""
    return msgspec.structs.replace(observation, unit=unit, reason="")


def _read(row: Any, kind: type[Observation]) -> Observation:
    if not isinstance(row, dict):
        raise VerificationError(f"an observation is {short(row)}, not an object.")
    return msgspec.convert(row, kind)


def _differences(stated: Sequence[dict[str, Any]], recomputed: Sequence[Any]) -> list[str]:
    findings: list[str] = []
    for mine, theirs in zip(stated, recomputed, strict=False):
        label = f"observation {theirs['observation']} (trace {theirs['trace_id']})"
        for key in theirs | mine:
            differences = compare(mine.get(key, ABSENT_VALUE), theirs.get(key, ABSENT_VALUE), key)
            findings += [f"{label}: {text}" for text in differences]
    if len(recomputed) < len(stated):
        findings.append(
            f"observations: {len(stated)} stated, yet the verdict is reached after"
            f" observation {len(recomputed)}"
        )
    return findings
