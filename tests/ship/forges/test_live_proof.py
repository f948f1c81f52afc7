"""Stages on live traffic in the text of a pull request, and their evidence in its branch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ship.forges.conftest import run

from ratchet.ship.forges import preview, propose
from ratchet.ship.live_proof import LiveProof, with_live_proofs
from ratchet.types import StageDecision, SubgroupResult

SHADOW = StageDecision(
    stage="shadow",
    verdict="pass",
    metric="exact_match",
    alpha=0.02,
    baseline_count=213,
    candidate_count=213,
    baseline=0.8125,
    candidate=0.8625,
    e_value=61.5,
    needed=50.0,
    interval=(0.0105, 0.0895),
    sentence="In shadow the candidate is proved to be less than 0.02 worse.",
)
CANARY = StageDecision(
    stage="canary",
    verdict="inconclusive",
    metric="exact_match",
    alpha=0.05,
    baseline_count=41,
    candidate_count=39,
    baseline=0.75,
    candidate=None,
    e_value=1.5,
    needed=20.0,
    subgroups=(
        SubgroupResult(
            group="refunds", count=9, baseline=0.9, candidate=0.1, e_value=40.0, harmed=True
        ),
    ),
)


@pytest.fixture
def live(tmp_path: Path) -> list[LiveProof]:
    made = []
    for decision in (SHADOW, CANARY):
        path = tmp_path / f"{decision.stage}.json"
        path.write_text(f'{{"stage": "{decision.stage}"}}')
        made.append(LiveProof(decision, path))
    return made


def test_each_stage_is_a_row_with_its_own_numbers(at_github: Any, live: list[LiveProof]) -> None:
    release = at_github.released()
    root, settings = at_github.project.root, at_github.settings
    text = preview(release, root, settings, live=live).text
    shown = text.partition("<details>")[0]
    assert (
        "| shadow | `exact_match` | 0.8125 | 0.8625 | [+0.0105, +0.0895] at 0.98 | 213 pairs"
        " | 61.5 | 50 | pass |" in shown
    )
    assert (
        "| canary | `exact_match` | 0.7500 | not measured | not yet valid | 41 and 39 units"
        " | 1.5 | 20 | inconclusive; worse in `refunds` |" in shown
    )
    assert shown.index("## The proof") < shown.index("## On live traffic")
    after = text.partition("## On live traffic")[2]
    assert "- In shadow the candidate is proved to be less than 0.02 worse." in after
    assert "## Tests" in after
    assert f"\nratchet verify {live[0].evidence}\nratchet verify {live[1].evidence}\n" in after
    without = preview(release, root, settings).text
    assert "On live traffic" not in without
    assert with_live_proofs(without, [], []) == without


def test_the_evidence_of_stages_is_in_the_branch(at_github: Any, live: list[LiveProof]) -> None:
    release = at_github.released()
    settings = replace(at_github.settings, evidence=True)
    root = at_github.project.root
    first = propose(release, root, settings, environ=at_github.environ, live=live[:1])
    request = propose(release, root, settings, environ=at_github.environ, live=live)
    assert request.head != first.head
    paths = run(at_github.remote, "diff", "--name-only", release.commit, request.head).split()
    assert paths == [
        ".ratchet-evidence/experiment-1-canary.json",
        ".ratchet-evidence/experiment-1-shadow.json",
        ".ratchet-evidence/experiment-1.json",
    ]
    body = at_github.forge.requests[0].body
    assert "ratchet verify .ratchet-evidence/experiment-1-canary.json" in body
    at_github.push_elsewhere(lambda text: text.replace("threshold=0.3", "threshold=0.4"))
    merged = propose(release, root, settings, environ=at_github.environ, live=live)
    kept = run(at_github.remote, "ls-tree", "--name-only", merged.head, ".ratchet-evidence/")
    assert kept.split() == paths
    assert propose(release, root, settings, environ=at_github.environ, live=live) == merged
