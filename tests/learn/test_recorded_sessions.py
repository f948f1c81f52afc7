"""Answers that a strong model wrote in the coach's seat: all are understood, and used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet.learn.coach_prompts import declines
from ratchet.llm import Message, Reply
from tests.learn.conftest import MakeStore
from tests.learn.sessions.searching import SESSIONS, search

FOLDER = Path(__file__).parent / "sessions"


def read(name: str) -> list[dict[str, str]]:
    """The requests and answers of a session, in order."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def kind(request: str) -> str:
    """What a request asks for."""
    return "critique" if "Write a critique" in request else "text"


class Recorded:
    """Gives the recorded answers, in order for each kind of request; then it declines."""

    def __init__(self, name: str) -> None:
        self.answers: dict[str, list[str]] = {"critique": [], "text": []}
        for entry in read(name):
            self.answers[kind(entry["request"])].append(entry["answer"])
        self.requests: list[str] = []

    def credit(self, model: str, survived: bool) -> None:
        """Nothing to learn."""

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """The next recorded answer."""
        self.requests.append("\n\n".join(message.content for message in messages))
        left = self.answers[kind(self.requests[-1])]
        return Reply(text=left.pop(0) if left else "NO CHANGE", model="m")


@pytest.mark.parametrize("name", SESSIONS)
def test_recorded_answers_are_understood_and_solve_the_tasks(
    make_store: MakeStore, name: str
) -> None:
    coach = Recorded(name)
    found, lab = search(name, make_store(), coach)
    assert not any(coach.answers.values()), "Every recorded answer is asked for."
    unusable = [body for key, body in lab._store.journal.read(name) if key.startswith("unusable")]
    assert unusable == []
    assert found.best_val == 1.0
    assert found.ended == "solved"


@pytest.mark.parametrize("name", SESSIONS)
def test_a_strong_coach_needs_few_requests(name: str) -> None:
    session = read(name)
    assert len(session) <= 8
    declined = sum(declines(entry["answer"]) for entry in session)
    assert 1 <= declined <= len(session) // 2
    assert len({entry["request"] for entry in session}) == len(session)


def test_the_second_round_of_requests_shows_what_the_new_prompt_still_fails() -> None:
    later = [e["request"] for e in read("dates") if "mean score of 0.90" in e["request"]]
    assert later
    for request in later:
        evidence = request.split("# Rollouts")[1].split("# Edits tried before")[0]
        assert "Date: " not in evidence  # how only the prompt before answered
        assert "next Monday" in evidence
