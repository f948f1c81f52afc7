"""The section of a pull request on its candidate's stages on live traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.ship.pull_request import code, fence, folded, plain
from ratchet.types import StageDecision
from ratchet.types.interval_text import interval_ends
from ratchet.types.wording import counted

_AFTER_IT = "\n## Tests\n"
"""The part of the text before which the section is inserted."""


@dataclass(frozen=True)
class LiveProof:
    """A stage's decision and its evidence."""

    decision: StageDecision
    evidence: Path
    """Path of its evidence file."""


def with_live_proofs(text: str, proofs: Sequence[LiveProof], commands: Sequence[str]) -> str:
    """The text of a pull request with a section on live traffic.

    Args:
        text: The text.
        proofs: The stages, oldest first; without any the text stays as it is.
        commands: Commands that recompute their evidence.
    """
    if not proofs:
        return text
    rows = "\n".join(_row(proof.decision) for proof in proofs)
    head = (
        "| stage | metric | baseline | candidate | interval of the difference | compared | e-value"
        " | needed | |\n|---|---|---|---|---|---|---|---|---|"
    )
    sentences = [plain(proof.decision.sentence) for proof in proofs if proof.decision.sentence]
    findings = "\n".join(f"- {sentence}" for sentence in sentences)
    parts = ["", "## On live traffic", f"{head}\n{rows}"]
    details = [findings] if findings else []
    details += ["This recomputes their numbers:", fence("\n".join(commands), "sh")]
    parts.append(folded("Results of the stages", *details))
    section = "\n\n".join(parts).removeprefix("\n") + "\n"
    before, separator, after = text.partition(_AFTER_IT)
    return before + section + separator + after


def _row(decision: StageDecision) -> str:
    interval = "not yet valid"
    if decision.interval is not None:
        low, high = interval_ends(*decision.interval, 4)
        interval = f"[{low}, {high}] at {1 - decision.alpha:.4g}"
    if decision.stage == "shadow":
        compared = counted(decision.baseline_count, "pair")
    else:
        compared = f"{decision.baseline_count} and {decision.candidate_count} units"
    verdict: str = decision.verdict or "undecided"
    if decision.harmed_groups:
        verdict += f"; worse in {', '.join(code(group) for group in decision.harmed_groups)}"
    cells = [
        decision.stage,
        code(decision.metric),
        _mean(decision.baseline),
        _mean(decision.candidate),
        interval,
        compared,
        f"{decision.e_value:.4g}",
        f"{decision.needed:.4g}",
        verdict,
    ]
    return f"| {' | '.join(cells)} |"


def _mean(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4f}"
