"""Word-level changes of prompts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.cli.diff import colored, marked
from ratchet.ship.word_changes import MAX_WORDS, folded, word_changes

TEXTS = st.text(st.sampled_from("ab .,\n{}é[]"), max_size=80)


@given(TEXTS, TEXTS)
def test_what_stays_and_comes_is_the_new_text_and_what_stays_and_goes_the_old(
    before: str, after: str
) -> None:
    changes = word_changes(before, after)
    assert "".join(text for op, text in changes if op != "out") == after
    assert "".join(text for op, text in changes if op != "in") == before


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Answer shortly.", "Answer well.", "Answer [-shortly-]{+well+}."),
        ("You are.", "You are.", "You are."),
        ("", "New.", "{+New.+}"),
        ("Be brief, and kind.", "Be exact, but kind.", "Be [-brief, and-]{+exact, but+} kind."),
    ],
)
def test_changes_next_to_each_other_are_one(before: str, after: str, shown: str) -> None:
    assert marked(word_changes(before, after)) == shown


def test_long_stretches_that_stay_are_cut_in_their_middle() -> None:
    same = "word " * 500
    shown = marked(folded(word_changes(f"old {same}old", f"new {same}new")))
    assert len(shown) < 600
    assert "unchanged characters" in shown
    assert shown.startswith("[-old-]{+new+} word")
    assert shown.endswith("word [-old-]{+new+}")


def test_texts_of_a_hundred_thousand_words_are_compared_by_lines() -> None:
    before = "one two three\n" * MAX_WORDS
    after = f"zero\n{before.replace('two', 'deux')}four\n"
    changes = word_changes(before, after)
    assert "".join(text for op, text in changes if op != "out") == after
    assert word_changes(before, before + "four\n")[-1] == ("in", "four\n")


def test_a_terminal_gets_colour_and_no_marks() -> None:
    text = colored(word_changes("a [b] c", "a [d] c"))
    assert text.plain == "a [bd] c"
