"""`kill -9` of `ratchet improve` while it asks a coach: no answer is paid for twice."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.coached import (
    CHECK,
    KEY,
    SAME,
    asked,
    assert_nothing_was_paid_twice,
    coach,
    finish,
    kill_on_the_way,
    make_project,
    run,
    start,
)
from tests.llm.endpoint import Endpoint, error

pytest.importorskip("gepa", reason="the extra gepa is not installed")

pytestmark = pytest.mark.xdist_group("coach")  # what they share is made once

KILLS = 4 if os.environ.get("RATCHET_LONG_FAULTS") else 2


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(coach) as served:
        yield served


@pytest.fixture(scope="module")
def uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint
) -> tuple[Path, dict[str, Any], Counter[str]]:
    project = make_project(tmp_path_factory.mktemp("whole") / "project", endpoint.url)
    since = len(endpoint.requests)
    found = finish(start(project))
    return project, found, asked(endpoint, since)


Whole = tuple[Path, dict[str, Any], Counter[str]]


@pytest.mark.long
def test_kills_while_a_coach_is_asked_repeat_only_what_was_under_way(
    tmp_path: Path, endpoint: Endpoint, uninterrupted: Whole
) -> None:
    _, whole, whole_asked = uninterrupted
    assert whole["verdict"] == "promote", whole
    assert whole["coach_calls"] >= 8
    assert len({json.loads(body)["model"] for body in whole_asked}) == 2
    project = make_project(tmp_path / "project", endpoint.url)
    since = len(endpoint.requests)
    moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
    under_way = kill_on_the_way(project, endpoint, KILLS, moments)
    found = finish(start(project))
    assert_nothing_was_paid_twice(asked(endpoint, since), whole_asked, under_way, KILLS)
    assert {key: found[key] for key in SAME} == {key: whole[key] for key in SAME}


def test_what_the_coach_took_is_shown(endpoint: Endpoint, uninterrupted: Whole) -> None:
    project, whole, whole_asked = uninterrupted
    check = sum(CHECK in body for body in whole_asked)
    assert check == 2  # models
    assert whole["coach_calls"] == whole_asked.total() - check
    each = (100 * 0.15 + 10 * 0.6) / 1e6
    assert whole["coach_dollars"] == pytest.approx(whole_asked.total() * each)
    told = run(project, "status").stdout
    assert f"{whole['coach_calls']} coach calls for $" in told


def test_each_call_is_a_trace_without_the_key(endpoint: Endpoint, uninterrupted: Whole) -> None:
    project, whole, whole_asked = uninterrupted
    listed = run(project, "traces", "--agent", "coach", "--json", "-n", "1000").stdout
    traces = json.loads(listed)["traces"]
    assert len(traces) == whole_asked.total()
    names = {trace["name"] for trace in traces}
    assert "coach gepa/000000" in names
    newest = next(trace for trace in traces if trace["name"] == "coach gepa/000000")
    assert (newest["input_tokens"], newest["output_tokens"]) == (100, 10)
    assert newest["conversation_id"] == whole["run"]
    shown = run(project, "show", newest["trace_id"]).stdout
    assert "chat gpt-4o-mini" in shown or "chat other-model" in shown
    for path in (project / ".ratchet").rglob("*"):
        if path.is_file():
            assert KEY.encode()[3:] not in path.read_bytes(), path


@pytest.mark.long
def test_a_key_that_is_wrong_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    with Endpoint(lambda _: error(401, f"Incorrect API key provided: {KEY}")) as refusing:
        project = make_project(tmp_path / "project", refusing.url, count=110, rollouts=90)
        process = start(project)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 8
        assert "OPENAI_API_KEY is refused" in err
        assert KEY[3:] not in err
        assert "Traceback" not in err
        # Each model is asked once at most: one refused key may end the check of the other.
        asked = [request.body["model"] for request in refusing.requests]
        assert asked
        assert len(set(asked)) == len(asked)
        assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}
        # Mended, the same command goes on.
        refusing.react = coach
        assert finish(start(project))["stage"] in ("shipped", "no_gain")


def test_a_key_that_is_missing_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", "https://api.openai.com/v1")
    process = start(project, OPENAI_API_KEY="")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 8
    assert "the environment variable OPENAI_API_KEY is not set" in " ".join(err.split())
    assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}
