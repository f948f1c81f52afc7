"""No planted secret is left, and ordinary text stays as it is."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest

from ratchet.observe.redaction import Redactor
from tests.observe.redaction import corpus, ordinary

PLANTED = list(corpus.planted(seed=3, rounds=1))
KINDS = sorted({one.kind for one in PLANTED})
MARK = re.compile(r"\[redacted:([a-z]+)\]")


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_planted_secret(redactor: Redactor, kind: str) -> None:
    left = [
        one
        for one in PLANTED
        if one.kind == kind and any(needle in redactor.text(one.text) for needle in one.needles)
    ]
    assert left == []


def test_what_was_redacted_once_is_not_changed_again(redactor: Redactor) -> None:
    for one in PLANTED:
        once = redactor.text(one.text)
        assert redactor.text(once) == once


def test_the_words_around_a_secret_stay(redactor: Redactor) -> None:
    said = redactor.text("Ask ann@example.com before you delete row 17 of the table.")
    assert said == "Ask [redacted:email] before you delete row 17 of the table."


def test_ordinary_sentences_stay_as_they_are(redactor: Redactor) -> None:
    changed = [text for text in ordinary.sentences(count=2_000) if redactor.text(text) != text]
    assert changed == []


def test_docstrings_lose_addresses_and_next_to_nothing_else(redactor: Redactor) -> None:
    taken: Counter[str] = Counter()
    words = 0
    for text in islice(ordinary.docstrings(), 600):
        words += len(text.split())
        taken.update(MARK.findall(redactor.text(text)))
    others = taken.total() - taken["email"] - taken["ip"]
    assert words > 8_000
    assert others / words < 2 / 10_000
