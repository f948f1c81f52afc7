"""`kill -9` while an agent in another language is improved: the same end, paid for once.

A command that runs while `improve` is killed loses its gateway, so its attempt is made again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import interpreters
from tests.cli.conftest import Project
from tests.cli.test_any_language import PYTHON, RESPONSES, MakeAgent
from tests.cli.test_any_language import make_agent as make_agent
from tests.cli.test_any_language import upstream as upstream
from tests.faults.test_kill_improve import finish
from tests.server.gateway.upstreams import StubUpstream

from ratchet.store import Store

KILLS = 12 if os.environ.get("RATCHET_LONG_FAULTS") else 4
SLOTS = 2


def start(project: Project) -> subprocess.Popen[str]:
    return interpreters.Interpreter(
        [sys.executable, "-m", "ratchet", "improve", "--json"],
        cwd=project.root,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.xdist_group("kills")
@pytest.mark.long
def test_kills_change_nothing_and_repeat_only_what_was_under_way(
    make_agent: MakeAgent, upstream: StubUpstream
) -> None:
    projects = []
    for name in ("whole", "killed"):
        agent = PYTHON + '\nname = "shop"'
        project = make_agent(agent, name=name, run=f"concurrency = {SLOTS}")
        project.write("agent.py", RESPONSES)
        project.commit()
        projects.append(project)
    whole = finish(start(projects[0]))
    needed = len(upstream.seen)
    assert whole["verdict"] == "promote"
    upstream.seen.clear()
    moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
    project = projects[1]
    for number in range(KILLS):
        # Counted in calls, a moment falls into the work whatever the machine's pace.
        wanted = needed * number // KILLS + moments.randint(1, needed // KILLS)
        process = start(project)
        deadline = time.monotonic() + 90
        while len(upstream.seen) < wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
        process.communicate()
    found = finish(start(project))
    for key in ("candidate_id", "stage", "verdict", "pairs", "e_value", "active"):
        assert found[key] == whole[key]
    assert len(upstream.seen) <= needed + KILLS * SLOTS
    with Store.open(f"sqlite:///{Path(project.root)}/.ratchet/ratchet.db") as store:
        counts = store.rollouts.counts()
        releases = store.releases.list(10)
    assert set(counts) == {"succeeded"}
    assert [release.state for release in releases] == ["active"]
