"""More tasks by the coach, in a process of its own; a coach that fails or hangs is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.server.api import synthesis
from ratchet.store import Store
from ratchet.types import Dataset, Task
from tests.dashboard.conftest import Complaints, url_of
from tests.llm.endpoint import HANG, Endpoint, Reaction, Request, answer
from tests.serving import RunningServer
from tests.simulator import author

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

AGENT = '''
import re
import ratchet


@ratchet.agent
def add(text):
    """Adds up the numbers of a request."""
    return sum(map(int, re.findall(r"[0-9]+", text)))
'''

CONFIG = """
[agent]
entry = "agent:add"

[[evaluators]]
use = "exact_match"

[run]
executor = "inline"

[coach]
model = "simulated-author"
base_url = "{url}"
input_price = 1.0
output_price = 1.0
retries = 0
timeout_s = {timeout_s}
total_s = {timeout_s}
"""


def write(request: Request) -> Reaction:
    """What the simulated author answers."""
    return answer(author.answer(request.body["messages"], seed=3))


Proposing = Callable[..., tuple[Any, Path]]


@pytest.fixture
def proposing(
    opened: Callable[..., Any], serve: Callable[..., RunningServer], tmp_path: Path
) -> Proposing:
    """Opens the dataset's page of a project with a coach at this address, and asks it for tasks."""

    def propose(url: str, timeout_s: float = 60.0) -> tuple[Any, Path]:
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "ratchet.toml").write_text(CONFIG.format(url=url, timeout_s=timeout_s))
        (tmp_path / ".ratchet").mkdir()
        tasks = [Task(f"t{n}", f"Add {n} and {3 * n}", 4 * n) for n in range(30)]
        with Store.open(url_of(tmp_path)) as store:
            splits: Any = {task.id: "train" for task in tasks}
            store.datasets.put(Dataset("sums", tuple(tasks), splits))
        server = serve(tmp_path, environ={**os.environ, "OPENAI_API_KEY": "none"})
        page = opened(f"{server.url}/datasets/sums")
        page.set_default_timeout(60_000)  # a process loads the project's agent
        page.get_by_text("Make more tasks that resemble these").click()
        for way in ("slots", "rewording", "boundary"):
            page.get_by_label(way).uncheck()
        page.get_by_label("coach").check()
        page.get_by_role("spinbutton", name="Tasks").fill("3")
        ask = page.get_by_role("button", name="Propose", exact=True)
        assert ask.is_disabled()  # until it may cost money
        page.get_by_label("Ask simulated-author, which may cost money").check()
        ask.click()
        return page, tmp_path

    return propose


def test_tasks_of_the_coach_are_proposed_with_their_cost_and_added(proposing: Proposing) -> None:
    with Endpoint(write) as endpoint:
        page, folder = proposing(endpoint.url)
        page.get_by_text("3 tasks proposed; none is stored yet").wait_for()
        said = page.get_by_role("status").filter(has_text="proposed").inner_text()
        assert "coach calls, $" in said
        table = page.get_by_role("table", name="Proposed tasks")
        assert table.get_by_text("coach: The person").count() == 3
        page.get_by_role("button", name="Add 3 tasks …").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Add as a new version").click()
        page.get_by_text("Added to train: 3 tasks (3 by coach)").first.wait_for()
    with Store.open(url_of(folder)) as store:
        grown = store.datasets.latest("sums")
    assert grown is not None
    new = [task for task in grown.tasks if task.origin.made == "synthesized"]
    numbers = [[int(word) for word in task.input.split() if word.isdigit()] for task in new]
    assert [task.expected for task in new] == [sum(each) for each in numbers]


def test_a_coach_that_fails_is_told_on_the_page(
    proposing: Proposing, complaints: Complaints
) -> None:
    refusal = b'{"error": {"message": "The key is out of money.", "type": "insufficient_quota"}}'
    with Endpoint(lambda _: Reaction(status=401, body=refusal)) as endpoint:
        page, folder = proposing(endpoint.url)
        alert = page.get_by_role("alert")
        alert.get_by_text("The key is out of money.").wait_for()
        assert "Traceback" not in alert.inner_text()
        assert page.get_by_role("button", name="Propose", exact=True).is_enabled()
    assert unchanged(folder)
    complaints.clear()  # the browser notes the refusal


def test_a_coach_that_never_answers_ends_in_a_sentence(
    proposing: Proposing, complaints: Complaints
) -> None:
    with Endpoint(lambda _: Reaction(how=HANG)) as endpoint:
        page, folder = proposing(endpoint.url, timeout_s=1.0)
        page.get_by_role("alert").get_by_text("simulated-author").wait_for()
    assert unchanged(folder)
    complaints.clear()  # the browser notes the refusal


def test_a_synthesis_that_takes_too_long_is_stopped_and_says_so(
    proposing: Proposing, complaints: Complaints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "COACH_S", 4.0)
    with Endpoint(lambda _: Reaction(how=HANG)) as endpoint:
        page, folder = proposing(endpoint.url)
        page.get_by_role("alert").get_by_text("did not end within 4 s, and was stopped").wait_for()
    assert unchanged(folder)
    complaints.clear()  # the browser notes the refusal


def unchanged(folder: Path) -> bool:
    """Whether the dataset is as it was."""
    with Store.open(url_of(folder)) as store:
        latest = store.datasets.latest("sums")
    return latest is not None and len(latest.tasks) == 30
