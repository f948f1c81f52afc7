"""The report of a run, and how nouns look in a notebook: whole, self-contained, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ratchet.autopilot.run_report import run_report
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Run

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A store of this test's own."""
    with Store.open(f"sqlite:///{tmp_path}/ratchet.db") as opened:
        yield opened


class Tags(HTMLParser):
    """The tags of a page, and whether each was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "line", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(store: Store, *, stage: str = "no_gain") -> Run:
    """A run whose best candidate changed a prompt."""
    source = Candidate.of({"system": PromptTemplate(text="Be brief. Answer in English.")})
    best = source.derive(
        {"system": PromptTemplate(text=f"Be brief. Answer in French. {HOSTILE}")},
        algorithm="apo",
        reason=HOSTILE,
    )
    for candidate in (source, best):
        store.candidates.put(candidate, 1.0)
    run = Run(
        id="ab" * 16,
        agent="module:answer",
        seed=0,
        stage="baseline",
        created_at=1.0,
        updated_at=1.0,
        baseline_id=source.id,
        best_id=best.id,
        message=f"Nothing better was found. {HOSTILE}",
    )
    store.runs.put(run)
    for number, candidate in enumerate((source, best)):
        store.journal.append(
            run.id,
            f"proposal/{number}",
            {
                "number": number,
                "candidate_id": candidate.id,
                "value": 0.4 + number / 10,
                "tasks": 10,
                "best": 0.5,
                "rollouts": 10 * number,
                "algorithm": candidate.algorithm,
                "reason": candidate.reason,
            },
            1.0,
        )
    return run


def test_a_report_is_whole_by_itself_and_shows_text_as_text(sqlite_store: Store) -> None:
    html = run_report(sqlite_store, made(sqlite_store))
    page = Tags()
    page.feed(html)
    assert page.open == []
    assert not {"script", "img", "link", "iframe"} & set(page.seen)
    assert not re.search(r'(src|href)="', html)
    assert "&lt;script&gt;" in html
    assert "<ins>French.</ins>" in html or re.search(r"<ins>[^<]*French", html)
    assert html.count("<circle") == 2
    assert "Nothing better was found." in html


@pytest.mark.parametrize("path", ["", "/nothing/here.json"])
def test_evidence_that_is_not_here_leaves_its_plot_out(path: str) -> None:
    from ratchet.autopilot.run_report import _rows

    assert _rows(path) == []
