"""The comparison at the end: the finalists and the source on val tasks that no search has used."""

from __future__ import annotations

import asyncio

from ratchet.learn.algorithm import Finding, SearchEnd
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.lab import Lab
from ratchet.learn.search.plan import rollouts_left
from ratchet.learn.search.search import Search
from ratchet.learn.work import require_scores, scores_of
from ratchet.types.wording import counted


async def compared(lab: Lab, search: Search, end: SearchEnd) -> Finding:
    """Compare the finalists with the source and select one; returns the result of the search."""
    finalists = search.finalists()
    most, ran = len(search.val), search.plan.val - search.own_val
    left = rollouts_left(lab)
    if not finalists:
        count = search.plan.val
    elif left == float("inf"):
        count = most
    else:
        count = max(1, min(most, int(left + ran) // (len(finalists) + 1)))
    tasks = search.val[:count]
    judged = await asyncio.gather(
        *(lab.evaluate(member.candidate, tasks) for member in (search.source, *finalists)),
        return_exceptions=True,
    )
    measured = {}
    for member, result in zip((search.source, *finalists), judged, strict=True):
        if isinstance(result, BudgetExhausted):
            continue  # more expensive than the earlier ones
        if isinstance(result, BaseException):
            raise result
        measured[member.id] = result
    if lab.baseline.id not in measured:  # what it ran at the start is paid for
        measured[lab.baseline.id] = await lab.evaluate(lab.baseline, search.val[: min(ran, count)])
    require_scores(measured[lab.baseline.id], "val")
    scores = {id: scores_of(evaluations) for id, evaluations in measured.items()}
    choice = search.race.choose(search.source, finalists, scores, is_last=lab.is_last)
    return Finding(
        best=choice.entry.candidate,
        baseline_val=choice.first_val,
        best_val=choice.best_val,
        proposals=search.judged,
        sentence=_sentence(search, end),
        ended=end.cause,
    )


def _sentence(search: Search, end: SearchEnd) -> str:
    tried, kept_count = search.judged, len(search.kept) - 1
    parts = [f"{counted(tried, 'candidate')} tried, {kept_count} kept"]
    if search.coaching is not None:
        coaching = search.coaching
        parts.append(f"{counted(coaching.calls, 'request')} to the coach")
        if coaching.unusable:
            last = coaching.last_problem.rstrip(".")
            parts.append(f"{counted(coaching.unusable, 'answer')} not usable (the last: {last})")
        if coaching.declined:
            parts.append(f"{counted(coaching.declined, 'answer')} that no change would help")
        lost = coaching.end
        if lost is not None and lost.cause == "coach" and end.cause != "coach":
            parts.append(lost.why)
    if search.refused_by_checks:
        last = search.last_refusal.rstrip(".")[:200]
        parts.append(f"{search.refused_by_checks} refused by checks (the last: {last})")
    return f"{', '.join(parts)}; {end.why}."
