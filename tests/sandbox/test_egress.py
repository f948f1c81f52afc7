"""Where the system contains nothing, variables give an agent a home and a proxy of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from ratchet.run.denials import kept_of
from ratchet.sandbox.containment import AgentContainment, Allowance
from tests.sandbox.test_contained_agents import attempts_of, named, served, worker

__all__ = ["named", "served"]

AGENT = """
import pathlib, tempfile, urllib.request

def run(task):
    said = []
    for place in (pathlib.Path.home() / "memory", pathlib.Path(tempfile.gettempdir()) / "memory"):
        said.append(place.exists())
        place.write_text("remembered")
    for url in task["urls"]:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                said.append(answer.read().decode())
        except OSError as error:
            said.append(str(error))
    return said
"""


def test_a_rollout_reaches_allowed_hosts_alone_and_begins_with_an_empty_home(
    named: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "led_agent.py").write_text(AGENT)
    port = int(named.rpartition(":")[2])
    allowed = Allowance(hosts=(("*.example.com", port),))
    contained = AgentContainment(allowed, root=project, python=sys.executable, level="variables")
    urls = [f"{named}/here", "http://mail.other.org/", "https://mail.other.org/"]
    executor = worker(project, tmp_path, contained, entry="led_agent:run")
    outcomes = attempts_of(executor, [{"urls": urls}] * 2)
    for outcome in outcomes:
        assert outcome.output == [
            False,
            False,
            "served",
            "HTTP Error 403: Forbidden",
            "<urlopen error Tunnel connection failed: 403 Forbidden>",
        ], outcome.error
        assert [(act.subject, act.port) for act in kept_of(outcome.spans)] == [
            ("mail.other.org", 80),
            ("mail.other.org", 443),
        ]
