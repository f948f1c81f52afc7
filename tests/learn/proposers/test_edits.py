"""A coach's answers are read whatever form they have."""

from __future__ import annotations

import pytest

from ratchet.learn.proposers.edits import Edit, apply_edits, edits_in, whole_text

BLOCK = """I change the bound.

<<<<<<< SEARCH
    if a < b:
        return a
=======
    if a <= b:
        return a
>>>>>>> REPLACE

And the end.

<<<<<<< SEARCH
    return b
=======
    return b + 1
>>>>>>> REPLACE
"""
TEXT = "def f(a, b):\n    if a < b:\n        return a\n    return b\n"


def test_blocks_are_found_in_their_order_and_applied() -> None:
    edits = edits_in(BLOCK)
    assert [edit.search.split()[0] for edit in edits] == ["if", "return"]
    made = apply_edits(TEXT, edits)
    assert made == "def f(a, b):\n    if a <= b:\n        return a\n    return b + 1\n"


@pytest.mark.parametrize(
    "search",
    [
        "if a < b:\n    return a",  # less indented
        "        if a < b:\n            return a",  # more
        "    if a  <  b:\n        return  a",  # other blanks
        "    if a < b:   \n        return a   ",  # blanks at the ends
        "    if a < b :\n        return a",
    ],
)
def test_blanks_do_not_matter(search: str) -> None:
    indent = search[: len(search) - len(search.lstrip())]
    edit = Edit(search, f"{indent}if b > a:\n{indent}    return a")
    assert apply_edits(TEXT, [edit]) == TEXT.replace("a < b", "b > a")


def test_lines_that_are_almost_the_same_are_meant() -> None:
    text = "You are an assistant.\nAnswer the question with the room id only, please.\nBe kind.\n"
    edit = Edit("Answer the question with the room id only please.", "Answer with the id.")
    assert apply_edits(text, [edit]) == ("You are an assistant.\nAnswer with the id.\nBe kind.\n")


def test_a_block_that_is_nowhere_refuses_all_of_them() -> None:
    assert apply_edits(TEXT, [Edit("return c", "return d")]) is None
    assert apply_edits(TEXT, [Edit("    return b", "    return b")]) is None  # nothing changes


def test_an_empty_search_adds_at_the_end() -> None:
    assert apply_edits("One.\n", [Edit("", "Two.")]) == "One.\nTwo.\n"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Here:\n```\nnew prompt\n```\nDone.", "new prompt"),
        ("```python\nx = 1\n```\nand\n```\nlonger text than the code\n```", "x = 1"),
        ("````\nwith\n```\ninside\n```\n````", "with\n```\ninside\n```"),
        ("```\nnever closed", "never closed"),
        ("~~~\nwaves\n~~~", "waves"),
        ("<prompt>\ntagged\n</prompt>", "tagged"),
        ("```\n\n```\nNothing.", None),
        ("Just words, and no text.", None),
        ("", None),
    ],
)
def test_whole_texts_are_found(answer: str, text: str | None) -> None:
    assert whole_text(answer, ("python",)) == text
