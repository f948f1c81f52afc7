"""A coach that answers nothing of use: the run ends by itself, says why, and ships nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.faults.bad_coach import (
    CHECK,
    HEAD,
    KEY,
    React,
    Says,
    bodies,
    code,
    make_project,
    run,
    texts,
)
from tests.llm.endpoint import CUT, ENDLESS, HANG, Endpoint, Reaction, Request, answer, error

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

HARMLESS = code("    return -{n}\n")
"""Runs, and is never right: as long as such come, a coach is not hopeless."""

SAID = {
    "does not parse": "does not parse",
    "changes the signature": "changes the signature of 'digits'",
    "renames the function": "does not define 'digits'",
    "another format": "in another format",
    "another language": "does not parse",
    "prose in French": "in another format",
    "refuses": "The model refused",
    "a block that is not there": "SEARCH blocks are not found",
    "the same again": "changed nothing",
    "null bytes": "null bytes",
    "a tower of brackets": "at most 4000 are allowed",
    "loops forever": "No answer within 1 s",
    "eats memory": "emory",
    "prints megabytes": "printed more than",
    "reads the task file": "Permission denied",
    "calls os._exit": "ended without an answer",
    "returns what is no JSON": "generator is not an instance of int",
    "returns a set": "set is not an instance of int",
    "raises SystemExit": "SystemExit",
    "recurses deeply": "recursion",
    "imports what is absent": "which is not installed",
    "writes a file": "OSError: [Errno 30] Read-only",
    "forks": "The sandboxed process",
}
"""What is said of each bad answer, or a part of it."""

ALONE = sorted(SAID) if LONG else ["imports what is absent"]


def improved(project: Path) -> dict[str, Any]:
    """What `ratchet improve` came to, in a process of its own."""
    done = run(project, "improve", "--json", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def shown(project: Path) -> dict[str, Any]:
    """What `ratchet candidates` says."""
    found: dict[str, Any] = json.loads(run(project, "candidates", "--json").stdout)
    return found


def reasons(found: dict[str, Any]) -> list[str]:
    """Why answers and candidates were refused, and what failing rollouts said."""
    return [
        *(refusal["why"] for refusal in found["refused"]),
        *(judged["error"] for judged in found["candidates"] if judged["error"]),
    ]


def assert_nothing_was_shipped(project: Path, found: dict[str, Any]) -> None:
    assert (found["stage"], found["branch"], found["verdict"]) == ("no_gain", None, None)
    told = subprocess.run(
        ["git", "branch", "--format=%(refname:short)"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(told.stdout.split()) == 1
    assert not (project / "written").exists()


@pytest.mark.long
def test_each_bad_answer_is_turned_away_with_its_reason_and_none_is_promoted(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    bad = texts()
    mixed = [one for text in bad.values() for one in (text, HARMLESS)]
    with Endpoint(Says(*mixed, code("    import no_such_module\n    return {n}\n"))) as endpoint:
        make_project(project, endpoint.url, budget="rollouts = 600\ncoach_calls = 100")
        found = improved(project)
    assert_nothing_was_shipped(project, found)
    assert found["coach_calls"] <= 100
    listed = shown(project)
    told = reasons(listed)
    for name in bad:
        # After another step has changed the code, the source's own is no longer the same again.
        if name != "the same again":
            assert any(SAID[name] in why for why in told), (name, told)
    refused = [one for one in listed["refused"] if one["candidate_id"]]
    for one in refused[:1]:
        assert f"Refused: {one['why']}" in run(project, "show", one["candidate_id"][:12]).stdout
    people = run(project, "candidates").stdout
    assert "answers from the coach could not be used" in people
    assert "changes the signature of 'digits'" in people


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.long
def test_a_hopeless_coach_is_not_asked_until_the_budget_is_spent(tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    text = {**texts(), **{key: code(body) for key, body in bodies(project).items()}}[name]
    with Endpoint(Says(text)) as endpoint:
        # Neither coach calls nor dollars are limited: what is refused costs no rollout, so that
        # only good sense ends it.
        make_project(project, endpoint.url, budget="rollouts = 2000")
        found = improved(project)
        requests = len(endpoint.requests)
    assert_nothing_was_shipped(project, found)
    assert requests <= 300
    assert found["rollouts"] <= 120
    assert "in a row" in found["message"]
    listed = shown(project)
    told = reasons(listed)
    assert told
    assert any(SAID[name] in why for why in told), told
    for one in (*listed["refused"], *listed["candidates"])[:1]:
        if one["candidate_id"]:
            page = run(project, "show", one["candidate_id"][:12]).stdout
            assert "Refused:" in page or "failed:" in page


class Doubles:
    """Solves it, and doubles the length of the function each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: Request) -> Reaction:
        """What is answered."""
        if CHECK in request.said:
            return answer("ready")
        self.asked += 1
        filler = "    # It adds them up.\n" * 2 ** min(self.asked, 12)
        body = f"{filler}    return sum(int(digit) for digit in str(number)) - {self.asked}\n"
        return answer(f"```python\n{HEAD}{body}```")


@pytest.mark.long
def test_an_answer_that_doubles_its_length_each_round_is_refused_at_a_limit(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    doubles = Doubles()
    with Endpoint(doubles) as endpoint:
        make_project(project, endpoint.url)
        done = run(project, "improve", "--json", "--seed", "7", "--no-ship")
    assert done.returncode == 0, done.stderr
    assert doubles.asked <= 40
    listed = shown(project)
    assert any("at most 4000 are allowed" in why for why in reasons(listed))
    for judged in listed["candidates"]:
        told = json.loads(run(project, "show", judged["candidate_id"], "--json").stdout)
        assert len(told["resources"]["digits"]["source"]) <= 1500
        break


def once_checked(reaction: Reaction) -> React:
    """A server that is well when it is checked, and then answers only this."""
    return lambda request: answer("ready") if CHECK in request.said else reaction


CUT_SHORT = f"```python\n{HEAD}    return 7\n"
"""The beginning of a function which would run."""

WIRE: dict[str, tuple[Reaction, int, str]] = {
    "a key that is revoked": (error(401, f"Incorrect API key: {KEY}"), 8, "OPENAI_API_KEY is ref"),
    "no answer": (Reaction(how=HANG), 8, "did not answer within 1 s"),
    "half an answer": (
        msgspec.structs.replace(answer("x" * 999), how=CUT),
        8,
        "closed the connection",
    ),
    "garbage": (Reaction(body=b"\x00\xff{]" * 999), 8, "no chat completion"),
    "a stream": (Reaction(body=b'data: {"choices":[]}\n\n'), 8, "no chat completion"),
    "no end": (Reaction(body=b"{", how=ENDLESS), 8, "sent more than"),
    "a page": (Reaction(body=b"<html>Log in</html>"), 8, "a page of HTML"),
    "a failing server": (error(500, "boom"), 8, "fails (500)"),
    "too many requests": (error(429, "slow down"), 8, "limits the rate of requests"),
    "nothing": (answer(""), 0, "The model's answer was empty"),
    "null": (answer(None), 0, "The model's answer was empty"),
    "an answer cut by its limit": (
        answer(CUT_SHORT, finish="length"),
        0,
        "was cut off at the limit",
    ),
}

TRIED = sorted(WIRE) if LONG else ["an answer cut by its limit"]


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.long
def test_a_server_that_goes_bad_ends_the_run_with_a_sentence(tmp_path: Path, name: str) -> None:
    reaction, code, sentence = WIRE[name]
    with Endpoint(once_checked(reaction)) as endpoint:
        project = make_project(tmp_path / "project", endpoint.url, timeout_s=1.0)
        done = run(project, "improve", "--json", "--seed", "7")
        assert done.returncode == code, done.stderr
        assert sentence in " ".join([*done.stderr.split(), *reasons(shown(project))])
        assert len(endpoint.requests) <= 60
    assert "Traceback" not in done.stderr
    assert KEY[3:] not in done.stdout + done.stderr
    assert shown(project)["stage"] == ("failed" if code else "no_gain")


SMALL = [
    ("evolve", 'options = { proposers = ["llm"] }', "rollouts = 3"),
    ("auto", "", "rollouts = 3"),
    ("gepa", "", "rollouts = 3"),
]


@pytest.mark.parametrize(("algorithm", "options", "budget"), SMALL if LONG else SMALL[:1])
def test_a_budget_too_small_for_one_round_is_said_before_a_dollar_is_spent(
    tmp_path: Path, algorithm: str, options: str, budget: str
) -> None:
    with Endpoint(Says(HARMLESS)) as endpoint:
        project = make_project(
            tmp_path / "project", endpoint.url, algorithm=algorithm, options=options, budget=budget
        )
        done = run(project, "improve", "--json")
        assert (done.returncode, len(endpoint.requests)) == (2, 0), done.stderr
    assert "does not cover" in done.stderr
    assert "under [improve.budget]" in done.stderr
    assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}


def test_a_key_that_is_missing_is_said_before_anything_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", "https://api.openai.com/v1")
    done = run(project, "improve", "--json", OPENAI_API_KEY="")
    assert done.returncode == 8
    assert "the environment variable OPENAI_API_KEY is not set" in " ".join(done.stderr.split())
    assert json.loads(run(project, "status", "--json").stdout)["summary"]["rollouts"] == {}
