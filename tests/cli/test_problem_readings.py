"""A coach reads failing traces; what it says decides which are one problem."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import Feedback
from tests.autopilot.live_traces import record
from tests.cli.conftest import CONFIG, INLINE, MakeProject, Project
from tests.llm.endpoint import Endpoint, Reaction, Request, answer

from .test_problems import COACH, KEY

MONEY, DATES = "Quotes a price without tax", "Answers with a date that is past"
"""Mistakes; the questions below have no words in common."""

QUESTIONS = [
    "may zebras board", "who paints barns", "is jam heavy", "where does fog sleep",
    "how tall grows hope", "can lakes sing", "why are bells round", "what do moths owe",
]  # fmt: skip


def with_dislikes(project: Project) -> None:
    """Store live traces that are disliked without a comment, and some that are not."""
    now = time.time()
    with Store.open(f"sqlite:///{project.root}/.ratchet/ratchet.db") as store:
        for number in range(200):
            question = QUESTIONS[number] if number < len(QUESTIONS) else f"item {number}"
            record(store, number, question, "no", agent="agent", at=now - 600 + number)
        store.feedback.add(
            [
                Feedback(id=f"f{n}", kind="thumbs", value=0.0, trace_id=f"{n:032x}")
                for n in range(len(QUESTIONS))
            ],
            now,
        )


class Reader:
    """A coach that knows two mistakes, and sees none in the last trace."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Reaction:
        traces = re.findall(r"## Trace (\d+) .*?\nasked: (.*?)\n", request.said, re.DOTALL)
        if not traces:
            return answer("Yes.")  # the check of the coach
        self.asked.append(request.said)
        readings = [
            {
                "trace": int(number),
                "wrong": "" if place == 7 else f"It failed at {QUESTIONS[place]}.",
                "mistake": "" if place == 7 else MONEY if place % 2 else DATES,
            }
            for number, asked in traces
            for place in [next(at for at, text in enumerate(QUESTIONS) if text in asked)]
        ]
        return answer(json.dumps({"readings": readings}))


def titles_of(project: Project) -> dict[str, int]:
    listed: Any = project.json("problems")
    return {each["problem"]["title"]: each["traces"] for each in listed["problems"]}


def test_what_the_coach_says_groups_traces_that_have_no_words_in_common(
    make_project: MakeProject,
) -> None:
    reader = Reader()
    with Endpoint(reader) as endpoint:
        project = make_project(config=CONFIG + INLINE + COACH.format(url=endpoint.url))
        with_dislikes(project)
        assert titles_of(project) == {}
        listed = project.ratchet("problems").stdout
        assert "8 failing traces are not part of a problem yet." in listed
        assert "ratchet problems read" in listed
        read = project.ratchet("problems", "read", env=KEY)
        assert read.returncode == 0, read.stderr
        assert "The coach is reading 8 failing traces, 1 call." in read.stderr
        assert "Read 8 failing traces in 1 call, $" in read.stdout
        assert titles_of(project) == {DATES: 4, MONEY: 3}
        # Each trace is read once, also the one of which the coach says nothing.
        again: Any = json.loads(project.ratchet("problems", "read", "--json", env=KEY).stdout)
        assert (again["traces"], again["calls"]) == (0, 0)
        assert len(reader.asked) == 1
    listed_problems: Any = project.json("problems")
    assert listed_problems["in_no_problem"] == 1
    id = listed_problems["problems"][0]["problem"]["id"]
    shown: Any = project.json("problems", "show", id)
    reading = shown["occurrences"][0]["reading"]
    assert reading["mistake"] == DATES
    assert reading["cost_usd"] == pytest.approx(110e-6 / 8)
    assert "It failed at" in project.ratchet("problems", "show", id).stdout


def test_an_unusable_answer_leaves_the_traces_to_be_read(make_project: MakeProject) -> None:
    def confused(request: Request) -> Reaction:
        return answer("I cannot say." if "## Trace" in request.said else "Yes.")

    with Endpoint(confused) as endpoint:
        project = make_project(config=CONFIG + INLINE + COACH.format(url=endpoint.url))
        with_dislikes(project)
        read = project.ratchet("problems", "read", env=KEY)
        assert "cannot be used" in read.stderr
        assert titles_of(project) == {}
        listed: Any = project.json("problems")
        assert listed["unread"] == 8
