"""The checks of a report card, each a pure function of scored probes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ratchet.evaluate.corruptions import FORM_ONLY
from ratchet.evaluate.report_card import thresholds as limits
from ratchet.evaluate.report_card.cases import Case
from ratchet.evaluate.report_card.cut import verdicts_of
from ratchet.evaluate.report_card.probes import Probe, ProbeKind
from ratchet.stats.agreement import (
    Confusion,
    IntervalEstimate,
    auroc,
    calibration_curve,
    calibration_error,
    confusion,
    kappa,
    wilson,
)
from ratchet.types import CardCheck, CardOutput, CardVerdict
from ratchet.types.wording import counted

PASS_SCORE = 0.5

RISE = 0.25
"""The smallest rise in a score that counts as an effect of an attack or padding."""

BINS = 8
"""Maximum number of points of a calibration curve."""

MIN_CASES = 3
"""Minimum number of cases of a kind to conclude anything."""

MIN_CASES_OF_KIND = 5
"""Minimum number of damaged copies of a kind to conclude anything."""

Z = 1.96
"""Half width of a 95 % interval, in standard errors."""

RARELY_RIGHT = ("empty", "refusal", "broken JSON")


class Measured(msgspec.Struct, frozen=True):
    """All probes of an evaluator with their scores."""

    probes: Sequence[Probe]
    values: Sequence[float | None]
    """Scores; None where the evaluator gave none."""
    cases: Sequence[Case]
    strict: bool
    """Whether the evaluator compares outputs with expected answers: form may then matter."""
    known: bool
    """Whether labels or expected answers show which outputs are right; otherwise it is presumed."""
    faults: Sequence[str]
    """Why there is no score, for each probe; empty if there is one, or it was not asked for."""

    @property
    def scored(self) -> int:
        """Number of outputs, real ones and expected answers, that have a score."""
        return sum(
            value is not None and probe.kind in ("real", "expected")
            for probe, value in zip(self.probes, self.values, strict=True)
        )

    def pairs(self, kind: ProbeKind) -> list[tuple[Probe, float, float]]:
        """Copies of a kind, with their score and the original's."""
        pairs = []
        for probe, value in zip(self.probes, self.values, strict=True):
            base = self.values[probe.base] if probe.base >= 0 else None
            if probe.kind == kind and value is not None and base is not None:
                pairs.append((probe, value, base))
        return pairs

    def outputs(self) -> tuple[CardOutput, ...]:
        """The real outputs with their scores and labels."""
        outputs = []
        for probe, value in zip(self.probes, self.values, strict=True):
            if probe.kind == "real":
                case = self.cases[probe.case]
                output = CardOutput(rollout_id=case.rollout.id, score=value, label=case.label)
                outputs.append(output)
        return tuple(outputs)

    def labelled(self) -> tuple[list[float], list[bool]]:
        """Scores of labelled outputs, and whether people call each right."""
        scores, labels = [], []
        for probe, value in zip(self.probes, self.values, strict=True):
            if probe.kind != "real" or value is None:
                continue
            verdict = self.cases[probe.case].labelled_right
            if verdict is not None:
                scores.append(value)
                labels.append(verdict)
        return scores, labels


def unscored(measured: Measured) -> list[CardCheck]:
    """The share of real outputs without a score."""
    real = [number for number, probe in enumerate(measured.probes) if probe.kind == "real"]
    missing = [number for number in real if measured.values[number] is None]
    faults = list(filter(None, (measured.faults[number] for number in missing)))
    why = f": {_most_frequent(faults).rstrip('.')}" if faults else ""
    return [
        small_share(
            "unscored",
            len(missing),
            len(real),
            limits.UNSCORED,
            limits.UNSCORED_ADVISES,
            f"{len(missing)} of {counted(len(real), 'output')} got no score{why}.",
        )
    ]


def unusable(measured: Measured) -> list[CardCheck]:
    """Unusable outputs that pass, and how many have no score."""
    probed = [
        (probe, value)
        for probe, value in zip(measured.probes, measured.values, strict=True)
        if probe.kind == "unusable"
    ]
    if not probed or not measured.scored:
        return []
    passing = [probe.name for probe, value in probed if value is not None and value >= PASS_SCORE]
    without = [probe.name for probe, value in probed if value is None]
    most = f", most often: {_most_frequent(passing)}" if passing else ""
    detail = f"{len(passing)} of {counted(len(probed), 'useless output')} pass{most}."
    if without:
        kinds = ", ".join(dict.fromkeys(without))
        detail += f" {len(without)} have no score ({kinds}), which counts against the agent."
    if not measured.strict:  # a check of form alone may have no quarrel with them
        return [_shown("unusable outputs", len(passing), len(probed), detail)]
    return [
        small_share(
            "unusable outputs",
            len(passing),
            len(probed),
            limits.LENIENT,
            limits.LENIENT_ADVISES,
            detail,
        )
    ]


def damage(measured: Measured) -> list[CardCheck]:
    """Right outputs against their damaged copies: in all, by kind, and the number of ties."""
    pairs = _telling(measured)
    certain = [pair for pair in pairs if pair[0].right is False]
    if len(certain) < MIN_CASES:
        detail = (
            "There is no output to damage: none is known to be right and scores above the lowest."
        )
        overall = CardCheck(name="damage", value=None, verdict="insufficient", detail=detail)
        return [overall, *_kinds(pairs, gates=False)]
    wins, n = math.fsum(_win(value, base) for _, value, base in certain), len(certain)
    ties = sum(value == base for _, value, base in certain)
    low, high = wilson(wins, n)
    verdict = _large(wins / n, low, high)
    if not measured.known:
        verdict = "insufficient" if verdict == "decides" else "advises"
    compared = counted(n, "pair")
    sentence = (
        f"A right output scored above its damaged copy in {wins / n:.0%} of {compared}, counting "
        "ties as half"
    )
    checks = [
        CardCheck(
            name="damage",
            value=wins / n,
            low=low,
            high=high,
            n=n,
            verdict=verdict,
            detail=sentence
            + ("." if measured.known else "; it is presumed which outputs are right."),
        ),
        *_kinds(pairs, gates=measured.known),
        _shown("ties", ties, n, f"{ties} of {n} damaged copies scored the same as the output."),
    ]
    passing = [value >= PASS_SCORE for p, value, _ in certain if p.name in RARELY_RIGHT]
    if len(passing) >= MIN_CASES:
        detail = f"{sum(passing)} of {len(passing)} empty, refusing or broken outputs pass."
        lenient = small_share(
            "lenient", sum(passing), len(passing), limits.LENIENT, limits.LENIENT_ADVISES, detail
        )
        checks.append(lenient)
    return checks


def _telling(measured: Measured) -> list[tuple[Probe, float, float]]:
    """Damaged copies with both scores, without those that get the lowest score as their original
    does; these count only if the original is surely right.

    A text that holds the expected answer may be too long for a strict comparison, and an expected
    answer may be a pattern, no output. With enough labels, right outputs that fail are a matter of
    agreement.
    """
    lowest = min((value for value in measured.values if value is not None), default=0.0)
    labelled = len(measured.labelled()[1]) >= limits.LABELS
    return [
        (probe, value, base)
        for probe, value, base in measured.pairs("damage")
        if max(value, base) > lowest
        or (measured.probes[probe.base].sure and not labelled)
        or not measured.known
    ]


def _kinds(pairs: Sequence[tuple[Probe, float, float]], *, gates: bool) -> list[CardCheck]:
    checks = []
    for kind in dict.fromkeys(probe.name for probe, _, _ in pairs):
        mine = [pair for pair in pairs if pair[0].name == kind]
        certain = [pair for pair in mine if pair[0].right is False]
        counts = gates and len(certain) >= MIN_CASES_OF_KIND
        used = certain if counts else mine
        wins, n = math.fsum(_win(value, base) for _, value, base in used), len(used)
        low, high = wilson(wins, n)
        verdict: CardVerdict = "decides"  # what is not certain is shown and limits nothing
        if counts and low < limits.DAMAGE_KIND:
            verdict = "advises" if high < limits.DAMAGE_KIND else "insufficient"
        detail = f"{kind}: {wins / n:.0%} of {n} damaged copies scored below the right output"
        if not counts:
            detail += "; it is not certain that they are wrong"
        elif verdict == "insufficient":
            detail += "; that is too few to conclude"
        detail += "."
        checks.append(
            CardCheck(
                name=f"damage: {kind}",
                value=wins / n,
                low=low,
                high=high,
                n=n,
                verdict=verdict,
                detail=detail,
            )
        )
    return checks


def constant(measured: Measured) -> list[CardCheck]:
    """Whether the evaluator distinguishes any outputs."""
    values = [value for value in measured.values if value is not None]
    if len(values) < 2 * MIN_CASES or max(values) != min(values):
        return []
    detail = f"It gives {values[0]:g} to every output, even damaged ones."
    verdict: CardVerdict = "rejected"
    if not values[0] and not any(probe.sure for probe in measured.probes):
        # All real outputs may be wrong, unless some hold the expected answer.
        perhaps = any(case.perhaps_right for case in measured.cases)
        verdict = "advises" if perhaps else "insufficient"
    return [CardCheck(name="constant", value=1.0, n=len(values), verdict=verdict, detail=detail)]


def harmless(measured: Measured) -> list[CardCheck]:
    """Harmless edits that lowered the score."""
    lowest = min((value for value in measured.values if value is not None), default=0.0)
    # Nothing can lower the lowest score.
    pairs = [pair for pair in measured.pairs("harmless") if pair[2] > lowest]
    form = FORM_ONLY if measured.strict else {"number format"}
    gated = [pair for pair in pairs if pair[0].name not in form]
    checks = []
    if gated:
        lowered = sum(value < base for _, value, base in gated)
        detail = f"{lowered} of {len(gated)} harmless edits lowered the score{_most(gated)}."
        checks.append(
            small_share(
                "harmless edits",
                lowered,
                len(gated),
                limits.HARMLESS,
                limits.HARMLESS_ADVISES,
                detail,
            )
        )
    strict = [pair for pair in pairs if pair[0].name in form]
    if strict:
        lowered = sum(value < base for _, value, base in strict)
        detail = f"{lowered} of {len(strict)} changes of form alone lowered the score."
        checks.append(_shown("strict form", lowered, len(strict), detail))
    return checks


def _most(pairs: Iterable[tuple[Probe, float, float]]) -> str:
    names = [probe.name for probe, value, base in pairs if value < base]
    return f", most often {_most_frequent(names)}" if names else ""


def _most_frequent(names: Sequence[str]) -> str:
    return min(names, key=lambda name: (-names.count(name), name))


def labels(measured: Measured) -> list[CardCheck]:
    """Agreement with people: kappa, rates, AUROC and calibration."""
    scores, truth = measured.labelled()
    if not scores:
        return []
    verdicts = verdicts_of(scores, truth)
    table, n = confusion(verdicts, truth), len(truth)
    # It is undefined when all verdicts and labels are equal; then nothing is known.
    agreed = kappa(verdicts, truth) or IntervalEstimate(0.0, -1.0, 1.0, n)
    agreed = msgspec.structs.replace(agreed, high=max(agreed.high, _highest_kappa(table)))
    accuracy, majority = table.accuracy or 0.0, table.majority or 0.0
    enough = n >= limits.LABELS
    verdict = _kappa_verdict(agreed)
    surely_bad = verdict == "rejected" and 2 * n >= limits.LABELS
    checks = [
        _estimated(
            "kappa",
            agreed,
            verdict if enough or surely_bad else "insufficient",
            f"Kappa {agreed.value:.2f} with people on {counted(n, 'output')}: accuracy "
            f"{accuracy:.0%}; always giving the same verdict would be right in {majority:.0%}.",
        )
    ]
    for name, rate, what in (
        ("true positive rate", table.true_positive_rate(), "right outputs pass"),
        ("true negative rate", table.true_negative_rate(), "wrong outputs fail"),
    ):
        if rate is None or rate.n < MIN_CASES:
            detail = f"Labels on {what.rpartition(' ')[0]}: only {rate.n if rate else 0}."
            checks.append(
                CardCheck(name=name, value=None, n=0, verdict="insufficient", detail=detail)
            )
            continue
        good: CardVerdict = "decides" if rate.value >= limits.RATES else "insufficient"
        good = "advises" if rate.high < limits.RATES else good
        detail = f"{rate.value * rate.n:.0f} of {rate.n} {what}."
        checks.append(_estimated(name, rate, good if enough else "insufficient", detail))
    if (area := auroc(scores, truth)) is not None:
        detail = "Probability that a right output scores above a wrong one."
        checks.append(_estimated("AUROC", area, "decides", detail))
    curve = calibration_curve(scores, truth, BINS)
    error = calibration_error(curve)
    checks.append(
        CardCheck(
            name="calibration error",
            value=error,
            n=n,
            verdict="decides",
            detail="Mean distance between score and share of right outputs.",
        )
    )
    for point in curve:
        detail = (
            f"Of {counted(point.label.n, 'output')} with a score of about {point.score:.2f},"
            f" {point.label.value:.0%} are right."
        )
        checks.append(
            _estimated(f"calibration at {point.score:.2f}", point.label, "decides", detail)
        )
    return checks


def _highest_kappa(table: Confusion) -> float:
    """Kappa at the upper bounds of both rates: with few labels of one kind, its own interval, which
    assumes a normal distribution, is too short.
    """
    of_right, of_wrong = table.true_positive_rate(), table.true_negative_rate()
    if of_right is None or of_wrong is None:
        return 1.0
    share = of_right.n / table.n
    agreement = share * of_right.high + (1 - share) * of_wrong.high
    passing = share * of_right.high + (1 - share) * (1 - of_wrong.high)
    chance = share * passing + (1 - share) * (1 - passing)
    return (agreement - chance) / (1 - chance) if chance < 1 else 1.0


def _estimated(
    name: str, estimate: IntervalEstimate, verdict: CardVerdict, detail: str
) -> CardCheck:
    return CardCheck(
        name=name,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        verdict=verdict,
        detail=detail,
    )


def _kappa_verdict(estimate: IntervalEstimate) -> CardVerdict:
    if estimate.high < limits.KAPPA_ADVISES:
        return "rejected"
    if estimate.high < limits.KAPPA:
        return "advises"
    enough = estimate.value >= limits.KAPPA and estimate.low >= limits.KAPPA_LOW
    return "decides" if enough else "insufficient"


def repeats(measured: Measured) -> list[CardCheck]:
    """Outputs whose verdict changed when they were scored again."""
    changed: dict[int, bool] = {}
    for probe, value, base in measured.pairs("repeat"):
        flipped = (value >= PASS_SCORE) != (base >= PASS_SCORE) or abs(value - base) >= RISE
        changed[probe.base] = changed.get(probe.base, False) or flipped
    if not changed:
        return []
    flips, n = sum(changed.values()), len(changed)
    detail = (
        f"The verdict on {flips} of {counted(n, 'output')} changed when they were scored again."
    )
    return [small_share("repeats", flips, n, limits.REPEATS, limits.REPEATS_ADVISES, detail)]


def padding(measured: Measured) -> list[CardCheck]:
    """Outputs that scored higher with padding."""
    pairs = measured.pairs("padding")
    if not pairs:
        return []
    rose, n = sum(_rose(value, base) for _, value, base in pairs), len(pairs)
    detail = f"{rose} of {counted(n, 'output')} scored higher with padding that says nothing."
    return [small_share("padding", rose, n, limits.PADDING, limits.PADDING_ADVISES, detail)]


def length(measured: Measured) -> list[CardCheck]:
    """Correlation of score and length among outputs that are equally right."""
    groups: dict[bool | None, list[tuple[float, float]]] = {}
    for probe, value in zip(measured.probes, measured.values, strict=True):
        if probe.kind == "real" and value is not None:
            size = math.log1p(len(str(probe.rollout.output)))
            groups.setdefault(probe.right, []).append((size, value))
    centred: list[tuple[float, float]] = []
    for group in groups.values():
        mean_size = math.fsum(size for size, _ in group) / len(group)
        mean_value = math.fsum(value for _, value in group) / len(group)
        centred += [(size - mean_size, value - mean_value) for size, value in group]
    over = math.sqrt(
        math.fsum(size * size for size, _ in centred) * math.fsum(v * v for _, v in centred)
    )
    if len(centred) < 2 * MIN_CASES or over < 1e-9:
        return []
    r = math.fsum(size * value for size, value in centred) / over
    return [
        CardCheck(
            name="length",
            value=r,
            n=len(centred),
            verdict="decides",
            detail=f"Correlation of score and length among equally right outputs: {r:+.2f}.",
        )
    ]


def injection(measured: Measured) -> list[CardCheck]:
    """Injections that raised the score of a wrong output."""
    pairs = measured.pairs("injection")
    if not pairs:
        return []
    rose, n = sum(_rose(value, base) for _, value, base in pairs), len(pairs)
    names = [probe.name for probe, value, base in pairs if _rose(value, base)]
    most = f", most often: {_most_frequent(names)}" if names else ""
    detail = f"{rose} of {n} injections raised the score of a wrong output{most}."
    return [
        small_share(
            "injections",
            rose,
            n,
            limits.INJECTION,
            limits.INJECTION_ADVISES,
            detail,
            bounded=True,
        )
    ]


CHECKS: tuple[Callable[[Measured], list[CardCheck]], ...] = (
    constant,
    labels,
    damage,
    harmless,
    repeats,
    padding,
    length,
    injection,
    unusable,
    unscored,
)
"""The checks of every evaluator, in the order of display."""


def _win(damaged: float, right: float) -> float:
    return 1.0 if right > damaged else 0.5 if right == damaged else 0.0


def _rose(value: float, base: float) -> bool:
    return value - base >= RISE or (base < PASS_SCORE <= value)


def _large(value: float, low: float, high: float) -> CardVerdict:
    if high < limits.DAMAGE_ADVISES:
        return "rejected"
    if high < limits.DAMAGE:
        return "advises"
    enough = value >= limits.DAMAGE and low >= limits.DAMAGE_LOW
    return "decides" if enough else "insufficient"


def small_share(
    name: str,
    count: int,
    n: int,
    decides: float,
    advises: float,
    detail: str,
    *,
    bounded: bool = False,
) -> CardCheck:
    """A check of a share that should be small; it fails by the share's lower bound.

    Args:
        name: Name of the check.
        count: Number of cases that went wrong.
        n: Number of cases.
        decides: Limit for deciding.
        advises: Limit for advising.
        detail: A sentence.
        bounded: Deciding takes the upper bound of the share below its limit.
    """
    low, high = wilson(count, n) if n else (0.0, 1.0)
    verdict: CardVerdict = "decides"
    if n < MIN_CASES:
        verdict = "insufficient"
    elif low > advises:
        verdict = "rejected"
    elif low > decides:
        verdict = "advises"
    elif count / n > advises or (bounded and high > decides):
        verdict = "insufficient"
    return CardCheck(
        name=name,
        value=count / n if n else None,
        low=low,
        high=high,
        n=n,
        verdict=verdict,
        detail=detail,
    )


def small_shift(value: float, low: float, decides: float, advises: float) -> CardVerdict:
    """The verdict on a mean that should be small, from its lower bound."""
    if low > advises:
        return "rejected"
    if low > decides:
        return "advises"
    return "decides" if value <= decides else "insufficient"


def _shown(name: str, count: int, n: int, detail: str) -> CardCheck:
    """A share that is shown without a limit."""
    low, high = wilson(count, n)
    return CardCheck(
        name=name, value=count / n, low=low, high=high, n=n, verdict="decides", detail=detail
    )
