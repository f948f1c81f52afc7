"""Rejected work of a run: candidates that its checks refused, and unusable coach answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.markup import escape

from ratchet.autopilot.run_outcome import Refusal, refusals_in
from ratchet.cli.console import number, one_line, out, short, table
from ratchet.learn import Proposal
from ratchet.store import Store
from ratchet.types.wording import counted

MAX_REASONS_SHOWN = 8

WIDTH = 240
"""Maximum length of a reason, in characters."""


def print_refusals(refusals: Sequence[Refusal]) -> None:
    """Print the reasons with their counts, most frequent first."""
    if not refusals:
        return
    answers = sum(not refusal.candidate_id for refusal in refusals)
    candidates = len(refusals) - answers
    parts = []
    if candidates:
        parts.append(f"{counted(candidates, 'candidate')} refused by the checks")
    if answers:
        parts.append(f"{counted(answers, 'answer')} from the coach could not be used")
    out.print()
    out.print(f"Rejected: {', '.join(parts)}")
    ranked = Counter(refusal.why for refusal in refusals).most_common()
    rows = table("times", "why", *(["such as"] if candidates else []), right=("times",))
    for why, times in ranked[:MAX_REASONS_SHOWN]:
        ids = (refusal.candidate_id for refusal in refusals if refusal.why == why)
        candidate = [short(next(ids))] if candidates else []
        rows.add_row(str(times), escape(one_line(why, WIDTH)), *candidate)
    out.print(rows)
    if len(ranked) > MAX_REASONS_SHOWN:
        left = sum(times for _, times in ranked[MAX_REASONS_SHOWN:])
        out.print(
            f"  and {left} more for"
            f" {counted(len(ranked) - MAX_REASONS_SHOWN, 'other reason')}: --json"
        )


def print_judgement(store: Store, candidate_id: str) -> None:
    """Print a candidate's score in the newest run that judged it, or why it was refused.

    Prints nothing for a candidate that no run has judged.
    """
    for run in store.runs.list():
        entries = store.journal.read(run.id)
        judged = [
            proposal
            for key, body in entries
            if key.startswith("proposal/")
            and (proposal := msgspec.convert(body, Proposal)).candidate_id == candidate_id
        ]
        refused = [r.why for r in refusals_in(entries) if r.candidate_id == candidate_id]
        if not judged and not refused:
            continue
        for why in refused:
            out.print(f"Refused: {why}", markup=False)
        if judged:
            _print_proposal(max(judged, key=lambda p: (p.tasks, p.number)))
        return


def _print_proposal(proposal: Proposal) -> None:
    verdict = proposal.accepted or ("Given up early." if proposal.pruned else "")
    mean = f"It scored {number(proposal.value)} on {counted(proposal.tasks, 'train task')}."
    out.print(f"{mean} {verdict}".rstrip(), markup=False)
    if proposal.failed:
        out.print(failing(proposal), markup=False)


def failing(proposal: Proposal) -> str:
    """Number of a candidate's failed rollouts, and their most frequent error."""
    return f"{counted(proposal.failed, 'rollout')} failed: {one_line(proposal.error, WIDTH)}"
