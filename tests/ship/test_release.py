"""Shipping: what a release makes, what it leaves alone, and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ratchet.types import ShipError


def test_a_release_is_one_branch_with_one_commit_that_changes_only_the_span(project: Any) -> None:
    before = project.state()
    release = project.ship()
    assert project.state() == before
    assert release.state == "branched"
    assert project.branches() == [release.branch]
    assert release.branch == f"ratchet/retrieval-{release.candidate_id[:8]}"
    assert project.git("rev-parse", release.branch) == release.commit
    assert project.git("rev-parse", f"{release.branch}^") == release.base == before[0]
    assert project.git("diff", "--name-only", release.base, release.commit) == "agent.py"
    shown = project.git("show", f"{release.branch}:agent.py")
    assert shown == project.source.decode().replace("Int(5,", "Int(7,").strip()
    message = project.git("show", "-s", "--format=%an|%B", release.commit)
    assert message.startswith("Ada|Improve retrieval: exact_match +0.0750")
    assert "e-value 31.25" in message
    assert "173 pairs" in message
    assert msgspec.json.decode(msgspec.json.encode(release), type=type(release)) == release


def test_the_same_call_again_finds_the_same_release(project: Any) -> None:
    first = project.ship()
    assert project.ship(now=1_800_000_000.0) == first
    project.git("switch", "--quiet", first.branch)
    assert project.ship() == first


@pytest.mark.parametrize("verdict", ["harm", "futile", "no_gain", "guardrail"])
def test_nothing_but_a_promotion_is_shipped(project: Any, verdict: str) -> None:
    from ratchet.types import Decision

    decision = Decision(
        verdict=verdict,  # type: ignore[arg-type]
        metric="m",
        alpha=0.05,
        pairs=3,
        baseline=0.1,
        candidate=0.9,
        e_value=99.0,
        interval=(0.1, 0.9),
    )
    with pytest.raises(ShipError, match="not 'promote'"):
        project.ship(decision=decision)
    assert project.branches() == []
