"""Bad input: each a sentence that names the thing and says what to do, a non-zero exit, no loss."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import AGENT, MakeProject, Project


def check_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    """It ended with that code and said all that, in sentences."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    for part in said:
        assert part in done.stderr, done.stderr
    assert "Traceback (most recent call last)" not in done.stderr


def test_a_missing_configuration_says_what_the_least_one_is(make_project: MakeProject) -> None:
    project = make_project()
    (project.root / "ratchet.toml").unlink()
    check_refused(project.ratchet("improve"), 2, "ratchet.toml", 'entry = "module:function"')


def test_a_malformed_configuration_names_its_line(make_project: MakeProject) -> None:
    project = make_project(config='[agent]\nentry = "agent:answer\n')
    check_refused(project.ratchet("improve"), 2, "not TOML", "line 2")


def test_an_unknown_key_is_named_with_the_nearest_valid_one(make_project: MakeProject) -> None:
    project = make_project(config='[agent]\nentry = "agent:answer"\n[prove]\nalhpa = 0.1\n')
    check_refused(project.ratchet("status"), 2, "Did you mean 'alpha'")


def test_an_agent_that_does_not_import_shows_its_own_error(make_project: MakeProject) -> None:
    project = make_project(agent="import ratchet\nimport surely_not_installed\n")
    check_refused(project.ratchet("improve"), 3, "surely_not_installed", "agent.py", "line 2")
    project.write("agent.py", "x = (1 +\n")
    check_refused(project.ratchet("improve"), 3, "SyntaxError", "agent.py")
    project.write("agent.py", "import sys\nsys.exit('no licence')\n")
    check_refused(project.ratchet("improve"), 3, "no licence")


def test_an_agent_path_that_leads_nowhere_is_named(make_project: MakeProject) -> None:
    project = make_project(config='[agent]\nentry = "nowhere:answer"\n')
    check_refused(project.ratchet("run", "1"), 3, "nowhere")
    project.write("ratchet.toml", '[agent]\nentry = "agent:ansver"\n')
    check_refused(project.ratchet("run", "1"), 3, "ansver", "answer")


def test_a_bad_line_is_named_and_the_good_ones_are_used_only_when_asked(
    make_project: MakeProject,
) -> None:
    project = make_project()
    path = project.root / "tasks.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], '{"input": ', *lines[4:]]) + "\n")
    project.commit()
    check_refused(project.ratchet("eval"), 2, "tasks.jsonl:5", "--skip-bad")
    done = project.ratchet("eval", "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert "tasks.jsonl:5" in done.stdout


def test_a_placeholder_that_no_task_has_is_named(make_project: MakeProject) -> None:
    agent = """
import ratchet

SYSTEM = ratchet.prompt("system", "Answer in {langauge}: {question}")


@ratchet.agent
def answer(number):
    return SYSTEM.format(language="English", question=number)
"""
    config = '[agent]\nentry = "agent:answer"\n[[evaluators]]\nuse = "exact_match"\n'
    project = make_project(agent=agent, config=config)
    lines = [json.dumps({"input": n, "expected": str(n)}) for n in range(200)]
    project.write("tasks.jsonl", "\n".join(lines))
    project.commit()
    check_refused(project.ratchet("improve"), 3, "langauge", "['language', 'question']")


def test_params_outside_their_bounds_are_refused_where_they_are_declared(
    make_project: MakeProject,
) -> None:
    project = make_project(agent=AGENT.replace("Float(0.0, 0.0, 1.0)", "Float(7.0, 0.0, 1.0)"))
    check_refused(project.ratchet("improve"), 3, "7.0", "[0.0, 1.0]", "agent.py")


def test_a_dirty_tree_is_refused_before_anything_runs(make_project: MakeProject) -> None:
    project = make_project()
    config = (project.root / "ratchet.toml").read_text()
    project.write("ratchet.toml", f"{config}# work in progress\n")
    check_refused(project.ratchet("improve"), 5, "ratchet.toml", "Commit")
    assert project.json("status")["summary"]["rollouts"] == {}  # type: ignore[index]


def test_without_git_it_says_so(make_project: MakeProject, tmp_path: Path) -> None:
    project = make_project()
    empty = tmp_path / "bin"
    empty.mkdir()
    check_refused(project.ratchet("improve", env={"PATH": str(empty)}), 5, "git")


def test_fewer_tasks_than_splits_are_refused_before_anything_runs(
    make_project: MakeProject,
) -> None:
    project = make_project(tasks=2)
    check_refused(project.ratchet("improve"), 2, "each of train, val and test", "Add tasks")
    assert project.json("status")["summary"]["rollouts"] == {}  # type: ignore[index]


def test_an_agent_that_fails_on_every_task_ends_the_run_with_its_first_error(
    make_project: MakeProject,
) -> None:
    project = make_project(
        agent=AGENT.replace("    return round", "    raise OSError('down')\n    return round")
    )
    check_refused(project.ratchet("improve"), 3, "failed on all", "down")


def test_a_corrupt_database_is_refused_and_kept(make_project: MakeProject) -> None:
    project = make_project()
    project.json("releases")
    for path in (project.root / ".ratchet").glob("ratchet.db*"):
        path.unlink()
    database = project.root / ".ratchet" / "ratchet.db"
    database.write_bytes(b"these are not the pages of a database " * 300)
    before = database.read_bytes()
    check_refused(project.ratchet("status"), 4, "ratchet.db")
    assert database.read_bytes() == before


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/proc/self/ns/mnt").exists(), reason="needs Linux"
)
def test_a_read_only_folder_is_refused(make_project: MakeProject) -> None:
    project = make_project()
    done = in_mount(project, "mount --bind . . && mount -o remount,bind,ro . && cd . && ")
    check_refused(done, 4, "project", "writable")


@pytest.mark.skipif(not Path("/proc/self/ns/mnt").exists(), reason="needs Linux")
def test_a_full_disk_is_a_sentence_and_what_was_stored_stays(make_project: MakeProject) -> None:
    project = make_project()
    (project.root / ".ratchet").mkdir()
    done = in_mount(project, "mount -t tmpfs -o size=400k tmpfs .ratchet && ")
    assert done.returncode in (1, 4), (done.stdout, done.stderr)
    assert "full" in done.stderr or "No space" in done.stderr, done.stderr
    assert "Traceback (most recent call last)" not in done.stderr


def in_mount(project: Project, prepare: str) -> subprocess.CompletedProcess[str]:
    """`ratchet improve` in a mount name space of its own, after a shell command has prepared it."""
    import sys

    python, root = shlex.quote(sys.executable), shlex.quote(str(project.root))
    command = f"{prepare} cd {root} && exec {python} -m ratchet improve"
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", command],
        cwd=project.root,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount name spaces here: {done.stderr.strip()}")
    return done
