"""`ratchet candidates` and the tree that it shows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from ratchet.cli.candidate_tree import CandidateTree
from ratchet.learn import Proposal

if TYPE_CHECKING:
    from tests.cli.conftest import MakeProject, Project


def judged(number: int, id: str, value: float, *parents: str, **more: Any) -> Proposal:
    more.setdefault("tasks", 10)
    return Proposal(
        number=number,
        candidate_id=id,
        value=value,
        best=value,
        rollouts=10 * number,
        parents=parents,
        **more,
    )


def drawn(lineage: CandidateTree, most: int = 20, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(lineage.tree(most, **options))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


FAMILY = [
    judged(0, "base", 0.5),
    judged(1, "good", 0.7, "base", reason="It names the rule.", accepted="It won 8 of 10."),
    judged(2, "poor", 0.3, "base", pruned=True, tasks=4),
    judged(3, "best", 0.9, "good", low=0.8, high=0.95),
    judged(4, "last", 0.6, "best"),
]


def test_children_hang_below_their_parents_with_worth_and_reasons() -> None:
    lines = drawn(CandidateTree(FAMILY, "base")).splitlines()
    assert lines[0] == "source  0.500 on 10 tasks"
    assert [line.count("│") + line.count("├") + line.count("└") > 0 for line in lines[1:]]
    text = "\n".join(lines)
    assert "best  0.900 [0.800, 0.950] on 10 tasks  best" in text
    assert "It names the rule." in text
    assert "It won 8 of 10." in text
    assert text.index("good") < text.index("0.900") < text.index("0.600") < text.index("poor")
    assert "stopped early" in text
    assert "It names" not in drawn(CandidateTree(FAMILY, "base"), reasons=False)


def test_a_candidate_that_the_repositorys_tests_refuse_is_never_the_best() -> None:
    refused = judged(1, "a", 1.0, "base", refused="test_it fails.", pruned=True)
    lineage = CandidateTree([refused, judged(2, "b", 0.1, "base")], "base")
    assert lineage.best is not None
    assert lineage.best.candidate_id == "b"
    assert "refused by the repository's tests" in drawn(lineage)
    assert CandidateTree([refused], "base").best is None


def test_once_learning_has_chosen_on_val_that_candidate_is_marked_not_the_best_on_train() -> None:
    before = CandidateTree(FAMILY, "base").best
    assert before is not None
    other = next(p for p in FAMILY if p.candidate_id not in ("base", before.candidate_id))
    lineage = CandidateTree(FAMILY, "base", other.candidate_id)
    assert lineage.best == other
    marked = [line for line in drawn(lineage).splitlines() if "selected on val" in line]
    assert len(marked) == 1
    assert other.candidate_id in marked[0]


def test_unknown_parents_and_circles_do_no_harm() -> None:
    proposals = [judged(0, "a", 0.5, "b"), judged(1, "b", 0.6, "a"), judged(2, "c", 0.4, "gone")]
    assert "0.400" in drawn(CandidateTree(proposals, "base"))
    assert CandidateTree(proposals, "base").shown(5) >= {"c"}


def test_a_run_is_shown_as_a_tree_a_plot_and_json(improved: Project, tmp_path: Path) -> None:
    png = tmp_path / "score.png"
    done = improved.ratchet("candidates", "--limit", "3", "--plot", "--png", str(png))
    assert done.returncode == 0, done.stderr
    best = str(improved.json("status")["newest_run"]["candidate_id"])  # type: ignore[index]
    assert best[:8] in done.stdout
    assert "more, not kept" in done.stdout
    assert "(rollouts)" in done.stdout
    assert png.read_bytes().startswith(b"\x89PNG")
    told = improved.json("candidates")
    assert told["best_id"] == best
    rows: Any = told["candidates"]
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert rows[0]["algorithm"] == "source"
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows if row["low"] is not None)
    assert [row["rollouts"] for row in rows] == sorted(row["rollouts"] for row in rows)
    assert json.dumps(told)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Nothing has run yet"),
        (("--run", "abcd"), "matches no run"),
    ],
)
def test_what_is_not_there_is_said(
    make_project: MakeProject, arguments: tuple[str, ...], said: str
) -> None:
    done = make_project().ratchet("candidates", *arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
