"""`ratchet improve` and what follows it, as a person runs them on a repository of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ratchet.sandbox import best_level
from tests import interpreters
from tests.cli.conftest import AGENT, CONFIG, INLINE, MakeProject, Project


def test_an_improvement_is_a_branch_whose_patch_is_the_span_of_the_resource(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG)
    head = project.git("rev-parse", "HEAD")
    found = project.json("improve")
    assert found["verdict"] == "promote"
    assert found["candidate"] > found["baseline"]  # type: ignore[operator]
    branch = str(found["branch"])
    changed = project.git("diff", "--unified=0", "main", branch).splitlines()
    body = [line for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert len(body) == 2
    assert body[0] == '-KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.0, 0.0, 1.0))'
    assert body[1].startswith('+KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.')
    assert body[1].endswith(", 0.0, 1.0))")
    assert project.git("rev-parse", "HEAD") == head
    assert project.git("status", "--porcelain") == ""

    verified = project.json("verify")
    assert verified["ok"] is True
    releases: Any = project.json("releases")["releases"]
    assert [r["state"] for r in releases] == ["branched"]
    assert Path(releases[0]["pull_request"]).read_text().count(f"{found['pairs']}") >= 1

    assert project.json("improve") == found, "the same command again finds the same end"


def test_the_evidence_is_refused_when_one_score_is_altered(
    improved: Project, tmp_path: Path
) -> None:
    evidence = Path(str(improved.json("improve")["evidence"]))
    altered = tmp_path / "altered.json"
    content = json.loads(evidence.read_text())
    content["pairs"][3]["candidate"] -= 1e-9
    altered.write_text(json.dumps(content))
    done = improved.ratchet("verify", str(altered))
    assert done.returncode == 6
    assert "pair 4" in done.stderr
    assert "Traceback" not in done.stderr
    assert improved.ratchet("verify", str(evidence)).returncode == 0


def test_a_rolled_back_release_leaves_no_branch_and_tells_how_to_bring_it_back(
    released: Project,
) -> None:
    branch = str(released.json("improve")["branch"])
    undone = released.ratchet("rollback")
    assert undone.returncode == 0, undone.stderr
    assert released.git("branch", "--list", branch) == ""
    again = next(line for line in undone.stdout.splitlines() if "git branch" in line)
    released.git(*again.partition("git ")[2].split())
    assert released.git("branch", "--list", branch).strip() == branch
    assert released.ratchet("rollback").returncode == 7


def test_a_merged_release_is_rolled_back_by_a_reverting_branch(released: Project) -> None:
    source = (released.root / "agent.py").read_text()
    released.git("merge", "-q", str(released.json("improve")["branch"]))
    assert (released.root / "agent.py").read_text() != source
    assert released.json("releases")["releases"][0]["state"] == "merged"  # type: ignore[index]
    undone = released.json("rollback")
    released.git("merge", "-q", str(undone["rollback"]))
    assert (released.root / "agent.py").read_text() == source


def test_no_gain_is_said_and_ships_nothing(make_project: MakeProject) -> None:
    agent = """
import ratchet

KNOBS = ratchet.params("knobs", aim=ratchet.Float(0.5, 0.0, 1.0))


@ratchet.agent
def answer(number):
    return (number * 7919 % 101) / 101 if KNOBS.aim >= 0 else 0


@ratchet.evaluator
def closeness(output):
    return output
"""
    project = make_project(agent=agent)
    done = project.ratchet("improve")
    assert done.returncode == 0, done.stderr
    assert "no significant gain" in done.stdout.lower()
    assert project.git("branch", "--list", "ratchet/*") == ""


def test_a_candidate_that_breaks_the_repositorys_tests_is_not_shipped_until_they_pass(
    make_project: MakeProject,
) -> None:
    project = make_project(config=CONFIG + INLINE + '\n[ship]\ntest = "{python} check.py"\n')
    project.write(
        "check.py",
        "import os, sys\n"
        "print('the answers are', 'there' if os.path.exists('tasks.jsonl') else 'hidden')\n"
        'sys.exit("Float(0.0, 0.0" not in open("agent.py").read())\n',
    )
    project.commit()
    done = project.ratchet("improve")
    assert done.returncode == 5
    assert "tests" in done.stderr
    assert ("the answers are hidden" in done.stderr) == (best_level() != "none")
    assert project.git("branch", "--list", "ratchet/*") == ""
    assert project.json("status")["newest_run"]["stage"] == "failed"  # type: ignore[index]


def test_without_shipping_it_stops_before_the_branch_and_goes_on_later(
    make_project: MakeProject,
) -> None:
    project = make_project()
    stopped = project.json("improve", "--no-ship")
    assert (stopped["stage"], stopped["branch"]) == ("ship", None)
    done = project.json("improve")
    assert done["branch"]
    assert done["run"] == stopped["run"]


def test_an_edited_agent_is_another_run(released: Project) -> None:
    first = released.json("improve")
    released.write("agent.py", (released.root / "agent.py").read_text() + "\n# edited\n")
    released.commit()
    assert released.json("improve")["run"] != first["run"]


def test_an_agent_whose_service_was_down_is_run_again_once_it_is_up(
    make_project: MakeProject,
) -> None:
    agent = (make_project(name="model").root / "agent.py").read_text()
    needs = "    open('.ratchet/service').close()\n    return round"
    project = make_project(agent=agent.replace("    return round", needs))
    down = project.ratchet("improve")
    assert down.returncode == 3
    assert "service" in down.stderr
    assert project.ratchet("improve").returncode == 3
    (project.root / ".ratchet" / "service").touch()
    assert project.json("improve")["branch"]


def test_ctrl_c_ends_cleanly_and_the_same_command_goes_on(make_project: MakeProject) -> None:
    slow = "import time\n" + (make_project(name="model").root / "agent.py").read_text().replace(
        "    return round", "    time.sleep(0.005)\n    return round"
    )
    project = make_project(agent=slow, config=CONFIG)
    process = interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", "improve"],
        cwd=project.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Learn"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Interrupted" in err
    assert "Traceback" not in err
    running: Any = project.json("status")["summary"]
    assert "running" not in running["rollouts"]
    assert project.json("improve")["branch"]


def test_a_second_improve_at_the_same_time_is_refused(make_project: MakeProject) -> None:
    from ratchet.run import FileLock

    project = make_project()
    with FileLock(project.root / ".ratchet" / "locks" / "improve.lock", "test"):
        done = project.ratchet("improve")
    assert done.returncode == 7
    assert "is already running" in done.stderr


def test_a_gain_that_a_guardrail_kept_back_says_how_it_can_ship_and_then_does(
    make_project: MakeProject,
) -> None:
    waits = "import time\n" + AGENT.replace(
        "def answer(number):\n", "def answer(number):\n    time.sleep(0.03 * KNOBS.aim)\n"
    )
    off = CONFIG + INLINE
    project = make_project(agent=waits, config=off.replace("off = true", "margin = 0.002"))
    kept_back = project.ratchet("improve")
    advice = (
        "If the change of latency is acceptable, set a larger margin or off = true for it under"
        " [[guardrails]] in ratchet.toml, and search again: ratchet improve --seed 1."
    )
    assert advice in " ".join(kept_back.stdout.split())
    assert advice in " ".join(project.ratchet("status").stdout.split())
    project.write("ratchet.toml", off)
    project.commit("latency does not matter")
    assert project.json("improve", "--seed", "1")["verdict"] == "promote"


def test_an_unknown_cost_stops_only_candidates_of_a_guardrail_that_was_asked_for(
    make_project: MakeProject,
) -> None:
    calls = AGENT.replace(
        "def answer(number):\n",
        "def answer(number):\n"
        '    with ratchet.llm_call(model="house-model") as call:\n'
        '        call.set("gen_ai.usage.input_tokens", 10)\n',
    )
    config = CONFIG + INLINE
    project = make_project(agent=calls, config=config)
    shipped = project.ratchet("improve")
    assert (
        "The cost was not measured: the price of 'house-model' is unknown; set it under [prices]"
        " in ratchet.toml. So no guardrail on cost applies"
    ) in " ".join(shipped.stdout.split())
    assert project.json("improve")["verdict"] == "promote"
    project.write("ratchet.toml", config + '[[guardrails]]\nmetric = "cost"\nmargin = 0.01\n')
    project.commit("a guardrail")
    kept_back = project.ratchet("improve", "--seed", "1")
    assert "So the guardrail on cost will stop every candidate" in " ".join(
        kept_back.stdout.split()
    )
    assert project.json("improve", "--seed", "1")["verdict"] == "guardrail"
