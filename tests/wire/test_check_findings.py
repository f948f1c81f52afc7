"""What the check makes of what it saw: spans that are missing, and texts in another order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ratchet.wire.checking.called import mark_of
from ratchet.wire.checking.findings import (
    duplicates_finding,
    needed_package,
    run_finding,
    same_finding,
)
from ratchet.wire.checking.probed import unseen
from ratchet.wire.checking.wired_project import QUESTION, run_once, with_a_task

_RAN = {"status": "succeeded"}


def test_an_instrumentation_that_does_not_fit_is_named_with_what_lets_pip_choose_one() -> None:
    unfit = [
        ["litellm", "1.57", "tracer-of-litellm", "0.2", False],
        ["llama-index-core", "0.11.23", "tracer-of-llama-index", "4.6", True],
    ]
    found = duplicates_finding({"model_calls": 0, "unfit": unfit}, [["a call"]])
    assert found.state == "not verified"
    assert "tracer-of-llama-index 4.6 does not fit llama-index-core 0.11.23" in found.why
    assert found.next_step.endswith(
        "pip install 'tracer-of-litellm<0.2'"
        " 'tracer-of-llama-index[instruments]' 'llama-index-core==0.11.23'"
    )


def test_calls_that_run_side_by_side_may_come_in_another_order() -> None:
    guard, answer, asked = ["Is it safe?"], ["Answer it."], ["What now, at 2026-01-02 10:11:12?"]
    later = [["What now, at 2026-01-02 11:12:13?"], answer, guard]
    found = same_finding(_RAN, [guard, answer, asked], later)
    assert found.state == "verified"
    assert "another order" in found.why
    assert "time of day" in found.why


def test_another_time_of_day_is_no_other_order() -> None:
    found = same_finding(_RAN, [["At 2026-01-02 10:11:12"]], [["At 2026-01-02 11:12:13"]])
    assert (found.state, "another order" in found.why) == ("verified", False)


def test_a_file_that_is_missing_is_named() -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'credentials.json'"
    found = run_finding(
        {"error": error}, [], made_up=False, failed_after="", addresses=(), once="ratchet run x"
    )
    assert (found.state, "the file credentials.json" in found.why) == ("not verified", True)


def test_another_text_is_no_other_order() -> None:
    found = same_finding(_RAN, [["first"], ["second"]], [["second"], ["third"]])
    assert (found.state, "Call 1 differs" in found.why) == ("not verified", True)


def test_the_end_of_a_long_error_is_told_as_it_says_what_went_wrong() -> None:
    error = f"The agent does not import: {'File x, line 1 ' * 60}ImportError: no name 'EnvVar'"
    found = run_finding(
        {"error": error}, [], made_up=False, failed_after="", addresses=(), once="ratchet run x"
    )
    assert found.why.startswith("It did not run: The agent does not import")
    assert found.why.endswith("ImportError: no name 'EnvVar'")


def test_a_mark_can_be_part_of_an_identifier() -> None:
    sent = [["The clerk " + mark_of("agents.clerk.role")]]
    assert unseen(["agents.clerk.role", "agents.cook.role"], sent) == ["agents.cook.role"]
    assert re.fullmatch(r"[a-z0-9-]{1,24}", mark_of("agents.clerk.role"))


@pytest.mark.parametrize(
    ("parameters", "made_up"),
    [
        ("question: str", QUESTION),
        ("state: dict[str, Any]", {}),
        ("query: str, top: int, heat: float | None", {"query": QUESTION, "top": 1, "heat": 0.5}),
        ("query, names: list[str], more: str = ''", {"query": QUESTION, "names": [QUESTION]}),
        ("*, query: str, brief: bool", {"query": QUESTION, "brief": True}),
    ],
)
def test_the_made_up_task_fits_what_the_agent_takes(
    tmp_path: Path, parameters: str, made_up: object
) -> None:
    (tmp_path / "ratchet.toml").write_text('[agent]\nentry = "ratchet_agent:ask"\n')
    agent = f"@ratchet.agent\nasync def ask({parameters}) -> str:\n    return ''\n"
    (tmp_path / "ratchet_agent.py").write_text(agent)
    assert with_a_task(tmp_path)
    assert not with_a_task(tmp_path)
    assert json.loads((tmp_path / "tasks.jsonl").read_text()) == {"input": made_up}


@pytest.mark.parametrize(
    "error",
    [
        "ModuleNotFoundError: No module named 'atlas'",
        "/usr/bin/python3: No module named atlas",
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'atlas' imported from /x.js",
        "npm error code ENOTCACHED\nnpm error request to https://npm.example/atlas failed",
    ],
)
def test_a_package_that_is_not_installed_is_named(error: str) -> None:
    assert needed_package(error) == "It needs the package atlas, which is not installed."
    assert needed_package("AssertionError: No module") == ""


def test_the_command_that_runs_a_wired_agent_once_fits_it(tmp_path: Path) -> None:
    assert run_once(tmp_path, ".") == f"ratchet run '{QUESTION}'"
    project = tmp_path / "the shop"
    project.mkdir()
    (project / "ratchet.toml").write_text('[agent]\nentry = "runner:sell"\n')
    (project / "runner.py").write_text("def sell(book: str, number: int, gift=False): ...\n")
    given = json.dumps({"book": QUESTION, "number": 1})
    assert run_once(tmp_path, "the shop") == f"ratchet run -C 'the shop' '{given}'"
    (project / "tasks.jsonl").write_text('{"input": "x"}\n')
    assert run_once(tmp_path, "the shop") == "ratchet run -C 'the shop' --split all --limit 1"
