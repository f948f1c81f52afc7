"""Probes: the outputs that an evaluator scores for its report card."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.evaluate.corruptions import (
    ALWAYS_WRONG,
    DAMAGES,
    HARMLESS_EDITS,
    INJECTIONS,
    PADDINGS,
    STEP_DAMAGES,
    UNUSABLE,
    Material,
    expected_output,
    is_right,
    made,
    same_query,
)
from ratchet.evaluate.corruptions.corruption import on_leaf, same
from ratchet.evaluate.report_card.cases import Case
from ratchet.types import Rollout, Span
from ratchet.worker.evaluator import SpansOf

ProbeKind: TypeAlias = Literal[
    "real", "expected", "repeat", "damage", "harmless", "padding", "injection", "unusable"
]

REPEATS_PER_OUTPUT = 2

MIN_RIGHT = 10
"""With fewer right outputs than this, expected answers also serve as outputs."""

INJECTIONS_PER_TEMPLATE = 6
"""With 15 templates 90 attacks; none of 75 succeeding bounds their share by 5 %."""


UNUSABLE_OF_A_KIND = 3
"""Copies of each kind of unusable output."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One output to score."""

    kind: ProbeKind
    name: str = ""
    """Kind of damage, edit, padding or attack."""
    rollout: Rollout
    spans: tuple[Span, ...] | None = None
    """Damaged steps; None for the rollout's own."""
    base: int = -1
    """Index of the probe that it is compared with; -1 for none."""
    right: bool | None = None
    """Whether it is right; None when unknown."""
    sure: bool = False
    """Whether it is surely right: even a strict comparison must pass it."""
    case: int = -1
    """Index of a real output's case."""
    trial: int = 0
    """For a repeat, how often its output was scored before."""


def plan_probes(
    cases: Sequence[Case], *, copies: int, rng: random.Random, spans_of: SpansOf
) -> list[Probe]:
    """Everything to score: real outputs, copies of them, and some outputs again.

    Args:
        cases: Real outputs.
        copies: Maximum number of copies of each kind.
        rng: Selects outputs and places of damage.
        spans_of: Reads the steps of a rollout.
    """
    probes = [
        Probe(
            kind="real",
            rollout=case.rollout,
            right=case.right,
            sure=case.surely_right,
            case=number,
        )
        for number, case in enumerate(cases)
        if not case.made_up
    ]
    outputs = [probe.rollout.output for probe in probes]
    sure = [number for number, probe in enumerate(probes) if probe.sure]
    perhaps = [n for n, probe in enumerate(probes) if cases[probe.case].perhaps_right]
    expected: list[int] = []
    if len(sure) < MIN_RIGHT:
        for case in cases:
            output = expected_output(case.rollout.expected, outputs)
            if output is not None:
                expected.append(len(probes))
                probes.append(
                    Probe(kind="expected", rollout=_with(case.rollout, output), right=True)
                )
    if not (sure or perhaps or expected):  # nothing is known to be right: it is presumed
        perhaps = [n for n, probe in enumerate(probes) if probe.right is None]
    # One group more than is needed: an evaluator may take only some of them for outputs.
    groups = [group for group in (sure, perhaps, expected) if group]
    for group in groups:
        rng.shuffle(group)
        _damage(probes, group, copies, rng)
        _edit(probes, group, copies, rng)
    good = [number for group in groups for number in group]
    _damage_steps(probes, good, copies, rng, spans_of)
    wrong = [n for n, p in enumerate(probes) if p.right is False and _has_text(p.rollout.output)]
    rng.shuffle(wrong)
    _attack(probes, wrong, rng)
    _pad(probes, [*wrong[:copies], *good[:copies]])
    _unusable(probes, groups[0] if groups else [])
    again = [n for n, probe in enumerate(probes) if probe.kind in ("real", "expected")]
    for number in rng.sample(again, min(len(again), 2 * copies)):
        for trial in range(1, REPEATS_PER_OUTPUT + 1):
            copy = _copy(probes, number, "repeat", "", probes[number].rollout.output)
            probes.append(msgspec.structs.replace(copy, trial=trial))
    return probes


def _damage(probes: list[Probe], good: Sequence[int], copies: int, rng: random.Random) -> None:
    for name, change in DAMAGES.items():
        count = 0
        for number in good:
            probe = probes[number]
            outputs = [
                neighbour.rollout.output
                for neighbour in probes
                if neighbour.kind in ("real", "expected")
                and neighbour.rollout.input != probe.rollout.input
                and neighbour.right is not False
            ]
            material = Material(probe.rollout.output, outputs, probe.rollout.input)
            damaged = made(change, material, rng)
            if damaged is None:
                continue
            right = is_right(damaged.output, probe.rollout.expected)
            if right is False:
                right = same_query(damaged.output, probe.rollout.expected)
            if right is True or (right is None and probe.rollout.expected is not None):
                continue  # the oracle does not confirm the damage
            wrong = right is False or name in ALWAYS_WRONG
            probes.append(
                _copy(probes, number, "damage", name, damaged.output, False if wrong else None)
            )
            count += 1
            if count == copies:
                break


def _damage_steps(
    probes: list[Probe],
    good: Sequence[int],
    copies: int,
    rng: random.Random,
    spans_of: SpansOf,
) -> None:
    own = {number: tuple(spans_of(probes[number].rollout.id)) for number in good[:copies]}
    for name, change in STEP_DAMAGES.items():
        for number, spans in own.items():
            damaged = tuple(change(spans, rng))
            if damaged != spans and probes[number].kind == "real":
                probe = _copy(probes, number, "damage", name, probes[number].rollout.output)
                probes.append(msgspec.structs.replace(probe, spans=damaged))


def _edit(probes: list[Probe], good: Sequence[int], copies: int, rng: random.Random) -> None:
    for name, change in HARMLESS_EDITS.items():
        count = 0
        for number in good:
            edited = made(change, Material(probes[number].rollout.output), rng)
            if edited is not None and count < copies:
                probes.append(_copy(probes, number, "harmless", name, edited.output))
                count += 1


def _attack(probes: list[Probe], wrong: Sequence[int], rng: random.Random) -> None:
    if not wrong:
        return
    turn = 0
    for name, text in INJECTIONS.items():
        for _ in range(INJECTIONS_PER_TEMPLATE):
            number = wrong[turn % len(wrong)]
            turn += 1
            output = _appended(probes[number].rollout.output, f"\n{text}", rng)
            if not _by_chance_right(output, probes[number].rollout.expected):
                probes.append(_copy(probes, number, "injection", name, output))


def _pad(probes: list[Probe], numbers: Sequence[int]) -> None:
    fixed = random.Random(0)  # noqa: S311 - which field is padded does not matter
    for turn, number in enumerate(numbers):
        output = probes[number].rollout.output
        name = list(PADDINGS)[turn % len(PADDINGS)]
        padded = _appended(output, PADDINGS[name], fixed)
        by_chance = not probes[number].right and _by_chance_right(
            padded, probes[number].rollout.expected
        )
        if not same(padded, output) and not by_chance:
            probes.append(_copy(probes, number, "padding", name, padded))


def _unusable(probes: list[Probe], good: Sequence[int]) -> None:
    """Useless outputs, from which an agent must not gain."""
    for name, make in UNUSABLE.items():
        for number in good[:UNUSABLE_OF_A_KIND]:
            output = make(probes[number].rollout.output)
            if is_right(output, probes[number].rollout.expected) is not True:
                probes.append(_copy(probes, number, "unusable", name, output, False))


def _by_chance_right(output: Any, expected: Any) -> bool:
    """Whether an added text may hold the expected answer."""
    return expected is not None and is_right(output, expected) is not False


def _appended(output: Any, text: str, rng: random.Random) -> Any:
    """The output with a text appended; in JSON, appended to one of its texts."""
    if isinstance(output, str):
        return output + text
    return on_leaf(output, lambda leaf: leaf + text, rng, wants=str)


def _has_text(output: Any) -> bool:
    return not same(_appended(output, "x", random.Random(0)), output)  # noqa: S311 - no secret


def _copy(
    probes: Sequence[Probe],
    number: int,
    kind: ProbeKind,
    name: str,
    output: Any,
    right: bool | None = None,
) -> Probe:
    rollout = _with(probes[number].rollout, output)
    return Probe(kind=kind, name=name, rollout=rollout, base=number, right=right)


def _with(rollout: Rollout, output: Any) -> Rollout:
    return msgspec.structs.replace(rollout, output=output)
