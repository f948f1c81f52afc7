"""Lines that edits gave a prompt are doubted, one at a time, when edits bring nothing more."""

from __future__ import annotations

from ratchet.learn.apo.ablation import EVERY, LEAST, Ablation
from ratchet.types import Candidate, PromptTemplate

SOURCE = Candidate.of({"system": PromptTemplate("You book rooms for {office}.\nBe kind.")})
TEXT = (
    "You book rooms for {office}.\nBe kind.\n\nPrefer large rooms.\nWork at {office} only.\n"
    "Be brief."
)
LEADER = SOURCE.derive({"system": PromptTemplate(TEXT)}, algorithm="apo", reason="")


def ablation(rollouts: int = LEAST) -> Ablation:
    return Ablation(SOURCE, ("system",), rollouts)


def test_each_added_line_is_left_out_once_and_the_sources_own_stay() -> None:
    doubts = ablation()
    numbers = range(EVERY, 100, EVERY)
    found = [doubts.next(LEADER, number=n, quiet=EVERY) for n in numbers]
    lines = [one[2] for one in found if one]
    assert lines == ["Be brief.", "Work at {office} only.", "Prefer large rooms."]
    for one in found:
        if one:
            name, template, line = one
            assert name == "system"
            assert template.placeholders == {"office"}
            assert [part for part in TEXT.splitlines() if part != line] == (
                template.text.splitlines()
            )


def test_a_line_with_the_only_placeholder_stays() -> None:
    source = Candidate.of({"system": PromptTemplate("You book rooms for {office}.")})
    leader = source.derive(
        {"system": PromptTemplate("Rooms of {office} are what you book.")},
        algorithm="apo",
        reason="",
    )
    assert Ablation(source, ("system",), LEAST).next(leader, number=9, quiet=9) is None


def test_nothing_is_doubted_while_edits_bring_something_or_rollouts_are_few() -> None:
    assert ablation().next(LEADER, number=EVERY, quiet=EVERY - 1) is None
    assert ablation(LEAST - 1).next(LEADER, number=EVERY, quiet=EVERY) is None


def test_edits_go_on_between_two_doubts() -> None:
    doubts = ablation()
    assert doubts.next(LEADER, number=EVERY, quiet=EVERY) is not None
    assert doubts.next(LEADER, number=EVERY + 1, quiet=EVERY) is None
    assert doubts.next(LEADER, number=2 * EVERY, quiet=EVERY) is not None
