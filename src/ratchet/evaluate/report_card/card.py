"""The report card of an evaluator: its measurement, and the verdict on it."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ratchet.evaluate.failures import FAILURE_PREFIX, AnswerFailures, Failure, attempted
from ratchet.evaluate.report_card import thresholds as limits
from ratchet.evaluate.report_card.affordable import (
    PlannedScore,
    check_affordable,
    telling_calls_left,
)
from ratchet.evaluate.report_card.cases import Case
from ratchet.evaluate.report_card.checks import CHECKS, Measured
from ratchet.evaluate.report_card.probes import Probe, plan_probes
from ratchet.evaluate.report_card.self_preference import self_preference
from ratchet.evaluate.report_card.variants import PER_COPY, compare_variants
from ratchet.evaluate.scoring import MAX_CONCURRENT_VERDICTS
from ratchet.store import Store
from ratchet.types import (
    CardCheck,
    CardVerdict,
    Cost,
    ReportCard,
    Score,
    Span,
    content_hash,
    dollars_text,
)
from ratchet.types.wording import counted
from ratchet.worker.evaluator import Evaluator, SpansOf, basis_of, missing

COPIES = 20
"""Maximum number of copies made of each kind."""

TRIED = 5
"""Number of outputs scored first: an evaluator that scores none of them is not run further."""

MAX_CASES = 400
"""Maximum number of real outputs without labels."""


def may_decide(evaluator: Evaluator, labels: int, *, vouched: bool) -> CardVerdict:
    """The best verdict that an evaluator can get, before anything is measured.

    Without labels only a comparison with the expected answer, an execution or a measurement
    decides, and what the project vouches for.

    Args:
        evaluator: The evaluator.
        labels: Number of labelled outputs.
        vouched: Whether the project vouches for it.
    """
    if vouched or basis_of(evaluator) != "opinion" or labels >= limits.LABELS:
        return "decides"
    return "insufficient" if labels else "advises"


def cached_card(
    store: Store,
    evaluator: Evaluator,
    cases: Sequence[Case],
    *,
    copies: int = COPIES,
    seed: int = 0,
    vouched: bool = False,
) -> ReportCard | None:
    """The stored card of this version of the evaluator on the same data; None if there is none."""
    wanted = _identity(evaluator, _data(evaluator, cases, seed), copies, vouched)
    stored = store.report_cards.list(evaluator=evaluator.name, version=evaluator.version)
    return next((card for card in stored if card.id == wanted), None)


async def make_card(
    evaluator: Evaluator,
    cases: Sequence[Case],
    *,
    spans_of: SpansOf,
    copies: int = COPIES,
    seed: int = 0,
    vouched: bool = False,
    now: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
    limit_s: float = math.inf,
    on_probe: Callable[[int, int], None] | None = None,
) -> ReportCard:
    """Measure an evaluator on real outputs, copies of them and labels, and give a verdict.

    Args:
        evaluator: The evaluator; its scores have no unit.
        cases: Real outputs.
        spans_of: Reads the steps of a rollout.
        copies: Maximum number of copies made of each kind.
        seed: Selects outputs and places of damage.
        vouched: Whether the project vouches for the evaluator.
        now: Unix seconds, the time of the card.
        clock: Seconds, for the speed.
        limit_s: Seconds after which no copy is scored any more; real outputs are.
        on_probe: Called with the number of scores that were made, and of all; first with 0.
    """
    used = _usable(evaluator, cases)
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    probes = plan_probes(used, copies=copies, rng=rng, spans_of=spans_of)
    probes = _applicable(evaluator, probes)
    began, paid = clock(), _used(evaluator)
    planned = _planned(evaluator, probes, spans_of, copies)
    async with telling_calls_left(evaluator, planned):
        scores = await _scores(evaluator, probes, spans_of, rng, clock, limit_s, on_probe, planned)
    values = [None if score is None else score.value for score in scores]
    scored = max(1, sum(value is not None for value in values))
    seconds, dollars = (clock() - began) / scored, _dollars(paid, _used(evaluator), scored)
    basis = basis_of(evaluator)
    measured = Measured(
        probes=probes,
        values=values,
        cases=used,
        strict=basis == "comparison",
        known=any(probe.right for probe in probes) or any(case.perhaps_right for case in used),
        faults=[
            "" if score is None else score.error.removeprefix(FAILURE_PREFIX) for score in scores
        ],
    )
    checks = [check for make in CHECKS for check in make(measured)]
    async with telling_calls_left(evaluator, planned):
        checks += await compare_variants(evaluator, measured, spans_of, copies)
    checks += self_preference(evaluator, measured, spans_of)
    checks += _prices(seconds, dollars, len(probes))
    labels = len(measured.labelled()[1])
    verdict, reasons, needed = verdict_of(
        checks,
        basis=basis,
        reads_expected=bool(getattr(evaluator, "reads_expected", False)),
        scored=measured.scored,
        benchmarked=bool(getattr(evaluator, "benchmarked", False)),
        labels=labels,
        vouched=vouched,
    )
    remedy: str = getattr(evaluator, "remedy", "")
    if verdict != "decides" and measured.scored and remedy:
        reasons.append(remedy)
    data = _data(evaluator, cases, seed)
    return ReportCard(
        id=_identity(evaluator, data, copies, vouched),
        evaluator=evaluator.name,
        version=evaluator.version,
        verdict=verdict,
        reasons=tuple(reasons),
        checks=tuple(checks),
        labels=labels,
        labels_needed=needed,
        rollouts=sum(not case.made_up for case in used),
        cost_usd=dollars,
        seconds=seconds,
        outputs=measured.outputs(),
        data=data,
        created_at=now,
    )


def verdict_of(
    checks: Sequence[CardCheck],
    *,
    basis: str,
    reads_expected: bool,
    scored: int,
    benchmarked: bool,
    labels: int,
    vouched: bool,
) -> tuple[CardVerdict, list[str], int | None]:
    """The verdict on an evaluator, from its checks.

    Args:
        checks: The checks.
        basis: What its scores rest on; see `EvaluatorBasis`.
        reads_expected: Whether it is shown the expected answer.
        scored: Number of outputs that it has scored.
        benchmarked: Whether it has a measured benchmark of its own.
        labels: Number of labelled outputs.
        vouched: Whether the project vouches for it.

    Returns:
        The verdict, the reasons with the decisive one first, and the number of labels missing.
    """
    rejecting = [check.detail for check in checks if check.verdict == "rejected"]
    advising = [check.detail for check in checks if check.verdict == "advises"]
    open_ = [check for check in checks if check.verdict == "insufficient" and check.detail]
    missing = max(0, limits.LABELS - labels)
    if rejecting:
        return "rejected", [*rejecting, *advising], None
    if vouched:
        reason = "The project vouches for it (vouched = true in ratchet.toml)."
        return "decides", [reason, *advising], None
    if basis == "opinion" and labels == 0:
        return "advises", [unlabelled(reads_expected), *advising], missing
    if advising:
        return "advises", advising, missing if basis == "opinion" and missing else None
    if not scored:
        reason = "No output can be scored: there is none, or its task has no expected answer."
        return "insufficient", [reason], None
    if basis != "opinion":
        how = {
            "comparison": "It compares with the expected answer.",
            "execution": "It executes what it checks.",
            "measurement": "It measures a quantity.",
        }[basis]
        doubtful = [check.detail for check in open_ if _is_doubtful(check, labels)]
        if doubtful and not benchmarked:
            return "insufficient", [f"{doubtful[0]} More outputs are needed.", *doubtful[1:]], None
        return "decides", [how, *(check.detail for check in open_ if check.name == "damage")], None
    if missing:
        reason = (
            f"{counted(labels, 'output')} labelled; agreement with people needs {missing} more."
        )
        return "insufficient", [reason], missing
    kappa = next((check for check in open_ if check.name == "kappa"), None)
    if kappa is not None:
        assert kappa.value is not None
        assert kappa.low is not None
        wide = kappa.value - kappa.low
        room = max(kappa.value - limits.KAPPA_LOW, 0.05)
        missing = max(10, round(labels * (wide / room) ** 2) - labels)
        return (
            "insufficient",
            [f"{kappa.detail} About {counted(missing, 'more label')} would decide."],
            missing,
        )
    rates = [check for check in open_ if check.name.startswith("true ")]
    if rates:
        needed = 10
        return "insufficient", [f"{rates[0].detail} Label more of these."], needed
    wide_checks = [check for check in open_ if not check.name.startswith("damage: ")]
    if wide_checks:
        return (
            "insufficient",
            [f"{check.detail} More outputs are needed." for check in wide_checks],
            None,
        )
    return "decides", [f"It agrees with people on {labels} labelled outputs."], None


def _is_doubtful(check: CardCheck, labels: int) -> bool:
    """Whether a share is below its limit, on too few cases to be sure: of damage that is seen, and
    of agreement with people once there are enough labels.
    """
    if check.value is None:
        return False
    if check.name.startswith("damage"):
        return check.value < (limits.DAMAGE if check.name == "damage" else limits.DAMAGE_KIND)
    agreed = {
        "kappa": limits.KAPPA,
        "true positive rate": limits.RATES,
        "true negative rate": limits.RATES,
    }
    return labels >= limits.LABELS and check.value < agreed.get(check.name, 0.0)


def unlabelled(reads_expected: bool) -> str:
    """Why an opinion only advises as long as no output is labelled."""
    if reads_expected:
        return (
            "It is an opinion on how well the output agrees with the expected answer. No output "
            "is labelled, so it is unknown how often it is right."
        )
    return (
        "It neither compares with the expected answer nor executes anything, and no output is"
        " labelled."
    )


def _used(evaluator: Evaluator) -> Cost:
    """The price of the model answers that an evaluator has used so far."""
    used: Cost = getattr(evaluator, "used", Cost())
    return used


def _dollars(before: Cost, after: Cost, scores: int) -> float | None:
    """Dollars per score; None if the price of an answer is unknown."""
    if after.unpriced_calls > before.unpriced_calls:
        return None
    return (after.known_usd - before.known_usd) / scores


def _prices(seconds: float, dollars: float | None, n: int) -> list[CardCheck]:
    """Speed and cost, which are shown but decide nothing."""
    cost = "The price of a model is unknown."
    if dollars is not None:
        cost = f"1,000 scores take {dollars_text(1_000 * dollars)} of model answers."
    return [
        CardCheck(
            name="seconds per score",
            value=seconds,
            n=n,
            verdict="decides",
            detail=f"A score took {seconds:.2g} s on average.",
        ),
        CardCheck(name="dollars per score", value=dollars, n=n, verdict="decides", detail=cost),
    ]


def _usable(evaluator: Evaluator, cases: Sequence[Case]) -> list[Case]:
    """The cases that an evaluator can score: all labelled ones, and some others."""
    needs = getattr(evaluator, "needs_expected", False)
    fitting = [case for case in cases if not needs or case.rollout.expected is not None]
    labelled = [case for case in fitting if case.labels]
    return labelled + [case for case in fitting if not case.labels][:MAX_CASES]


def _applicable(evaluator: Evaluator, probes: Sequence[Probe]) -> list[Probe]:
    """Probes of what an evaluator reads: the output, the steps, or both."""
    asks = set(getattr(evaluator, "asks_for", ("rollout",)))
    reads_output, reads_steps = asks & {"output", "rollout"}, asks & {"spans", "rollout"}
    applicable: dict[int, Probe] = {}
    places: dict[int, int] = {}
    for number, probe in enumerate(probes):
        of_steps = probe.spans is not None
        plain = probe.kind in ("real", "repeat")
        if not (reads_steps if of_steps else reads_output or plain):
            continue
        if probe.base >= 0 and probe.base not in places:
            continue
        places[number] = len(applicable)
        applicable[number] = probe
    return [
        msgspec.structs.replace(
            probe,
            base=places.get(probe.base, -1),
            # The expected answer says nothing about the steps.
            right=probe.right if reads_output else None,
        )
        for probe in applicable.values()
    ]


def _planned(
    evaluator: Evaluator, probes: Sequence[Probe], spans_of: SpansOf, copies: int
) -> list[PlannedScore]:
    """The scores that a card needs: of the probes, and of real outputs by variants."""
    again = getattr(evaluator, "again", lambda trial: evaluator)
    planned = [
        PlannedScore(
            again(probe.trial) if probe.trial else evaluator,
            probe.rollout,
            spans_of if probe.spans is None else _reader(probe.spans),
        )
        for probe in probes
    ]
    real = [probe.rollout for probe in probes if probe.kind == "real"]
    for pair in getattr(evaluator, "variants", dict)().values():
        for rollout in real[: PER_COPY * copies]:
            planned += [PlannedScore(variant, rollout, spans_of) for variant in pair]
    return planned


async def _scores(
    evaluator: Evaluator,
    probes: Sequence[Probe],
    spans_of: SpansOf,
    rng: random.Random,
    clock: Callable[[], float],
    limit_s: float,
    on_probe: Callable[[int, int], None] | None,
    planned: Sequence[PlannedScore],
) -> list[Score | None]:
    """The scores of probes, as experiments get them; None if time ran out."""
    verdicts: list[Score | Failure | None] = [None] * len(probes)
    began, scored = clock(), 0
    again = getattr(evaluator, "again", lambda trial: evaluator)
    if on_probe is not None:
        on_probe(0, len(probes))

    async def take(numbers: Iterator[int]) -> None:
        nonlocal scored
        for number in numbers:
            probe = probes[number]
            if probe.base >= 0 and clock() - began > limit_s:
                return
            read = spans_of if probe.spans is None else _reader(probe.spans)
            judged = again(probe.trial) if probe.trial else evaluator
            verdicts[number] = await attempted(judged, probe.rollout, read)
            scored += 1
            if on_probe is not None:
                on_probe(scored, len(probes))

    first = range(min(TRIED, len(probes)))
    await check_affordable(evaluator, planned)
    await take(iter(first))
    await check_affordable(evaluator, planned)
    if len(first) < TRIED or any(_value(verdicts[number]) is not None for number in first):
        # Copies in any order: what a limit leaves out is spread over all kinds.
        copies = [n for n in range(len(first), len(probes)) if probes[n].base >= 0]
        rng.shuffle(copies)
        real = [n for n in range(len(first), len(probes)) if probes[n].base < 0]
        left = iter([*real, *copies])
        await asyncio.gather(*(take(left) for _ in range(MAX_CONCURRENT_VERDICTS)))
    return await _settled(evaluator, probes, verdicts)


async def _settled(
    evaluator: Evaluator, probes: Sequence[Probe], verdicts: Sequence[Score | Failure | None]
) -> list[Score | None]:
    """Turn failures on an answer into 0, if the evaluator can score another answer."""
    failures = AnswerFailures()
    for probe, verdict in zip(probes, verdicts, strict=True):
        if probe.kind in ("real", "expected") and _value(verdict) is not None:
            failures.scored(evaluator, probe.rollout)
    works = failures.has_outputs(evaluator)
    scores: list[Score | None] = []
    for verdict in verdicts:
        if isinstance(verdict, Failure):
            if not works:  # it is broken, and asked nothing more
                scores.append(missing(verdict.evaluator, verdict.error))
                continue
            verdict = await failures.settled(verdict)
        scores.append(verdict)
    return scores


def _value(verdict: Score | Failure | None) -> float | None:
    return verdict.value if isinstance(verdict, Score) else None


def _reader(spans: Sequence[Span]) -> SpansOf:
    return lambda _: list(spans)


def _data(evaluator: Evaluator, cases: Sequence[Case], seed: int) -> str:
    used = _usable(evaluator, cases)
    rows = [[c.rollout.id, c.rollout.output, c.rollout.expected, c.label, c.labels] for c in used]
    return content_hash([rows, seed])


def _identity(evaluator: Evaluator, data: str, copies: int, vouched: bool) -> str:
    return content_hash([evaluator.name, evaluator.version, data, copies, vouched])
