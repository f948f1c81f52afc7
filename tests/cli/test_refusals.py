"""What a run turned away, as `ratchet candidates` shows it."""

from __future__ import annotations

import pytest

from ratchet.autopilot.run_outcome import Refusal, refusals_in
from ratchet.cli.refusals import SHOWN, print_refusals

ENTRIES = [
    ("check/aaaa", "It lost a placeholder."),
    ("check/bbbb", ""),
    ("test/cccc", "test_zero fails."),
    ("unusable/evolve/000001/0", "There is no fenced text."),
    ("unusable/part/evolve/000002/0", "There is no fenced text."),
    ("note/000000", "A note."),
    ("proposal/000000", {"number": 0}),
]


def test_verdicts_and_unusable_answers_are_refusals_and_nothing_else_is() -> None:
    assert refusals_in(ENTRIES) == [
        Refusal("It lost a placeholder.", "aaaa"),
        Refusal("test_zero fails.", "cccc"),
        Refusal("There is no fenced text."),
        Refusal("There is no fenced text."),
    ]


def test_reasons_are_counted_and_the_most_frequent_comes_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_refusals(refusals_in(ENTRIES))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == (
        "Rejected: 2 candidates refused by the checks, 2 answers of the coach could not be used"
    )
    assert lines[2].split() == ["2", "There", "is", "no", "fenced", "text."]
    assert lines[3].endswith("aaaa")


def test_many_reasons_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_refusals([Refusal(f"Reason {n}.") for n in range(SHOWN + 3)])
    assert "and 3 more for 3 other reasons: --json" in capsys.readouterr().out


def test_where_nothing_was_turned_away_nothing_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_refusals([])
    assert capsys.readouterr().out == ""
