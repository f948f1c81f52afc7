"""Processes that Ratchet's threads live in: forks, pools, and the agent's own logs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ratchet.observe.delivery import Delivery
from ratchet.observe.live import LivePipeline, PipelineStages
from ratchet.observe.record_builder import RecordBuilder
from ratchet.observe.spool import MemoryBacklog
from ratchet.types import SpanRecord
from tests.observe.conftest import count, record
from tests.observe.test_init import AGENT, run


class Failing:
    """A target that fails in ways that no target foresees."""

    label = "nowhere"

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.poison = ""
        self.taken: list[str] = []

    def send(self, records: Sequence[SpanRecord]) -> None:
        if self.error is not None:
            raise self.error
        if self.poison in [each.span.name for each in records]:
            raise TypeError("what is this?")
        self.taken += [each.span.name for each in records]

    def close(self) -> None: ...


def delivery(target: Failing, clock: Any = time.monotonic) -> Delivery:
    return Delivery(target, MemoryBacklog(), clock)


@pytest.mark.parametrize("error", [ImportError("half made"), OSError("no"), MemoryError()])
def test_what_a_process_lacks_to_send_makes_spans_wait(error: Exception) -> None:
    now = [0.0]
    target = Failing()
    sending = delivery(target, lambda: now[0])
    target.error = error
    sending.deliver([record("1"), record("2")])
    assert (sending.away, sending.waiting, sending.refused) == (True, 2, 0)
    assert type(error).__name__ in sending.last_error
    target.error = None
    now[0] += 60
    sending.retry()
    assert target.taken == ["1", "2"]


def test_an_error_that_nobody_foresaw_costs_the_span_that_it_is_about() -> None:
    target = Failing()
    target.poison = "3"
    sending = delivery(target)
    sending.deliver([record(str(number)) for number in range(6)])
    assert target.taken == ["0", "1", "2", "4", "5"]
    assert (sending.sent, sending.refused, sending.waiting) == (5, 1, 0)


def test_a_fork_waits_while_the_sending_thread_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = ModuleType("gate_of_a_test")
    gate.entered, gate.opened = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gate_of_a_test", gate)
    (tmp_path / "slow_of_a_test.py").write_text(
        "import gate_of_a_test as gate\ngate.entered.set()\ngate.opened.wait(60)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def parts() -> PipelineStages:
        import slow_of_a_test  # type: ignore[import-not-found]  # noqa: F401

        return PipelineStages(RecordBuilder("a"), delivery(Failing()))

    live = LivePipeline(parts, target="nowhere", agent="a")
    live.start()
    live._flushes_requested += 1  # it has something to do
    live._wake.set()
    assert gate.entered.wait(60)
    settled = threading.Event()
    forking = threading.Thread(target=lambda: (live.settle(20), settled.set()))
    forking.start()
    assert not settled.wait(0.1), "a child would find a module that is half made"
    gate.opened.set()
    assert settled.wait(60)
    forking.join()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    live.settle()
    monkeypatch.undo()
    assert not slept, "nothing is imported any more"
    live.shutdown(60)


FORK_AT_ONCE = """
    import os
    for number in range(3):
        child = os.fork()
        if not child:
            answer("child")
            raise SystemExit(0)
        assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_that_is_forked_at_once_sends_its_spans(project: Path) -> None:
    # The parent's sending thread is in the middle of its imports by then.
    ran = run(project, AGENT.format(arguments="", more=FORK_AT_ONCE))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert count(project / ".ratchet" / "ratchet.db") == 2 * 4


ENDED_POOL = """
    import multiprocessing, pathlib, time
    pool = multiprocessing.get_context("fork").Pool(1)
    pool.map(answer, ["child"])
    until = time.monotonic() + 20
    while time.monotonic() < until:
        spooled = b"".join(path.read_bytes() for path in pathlib.Path().rglob("*.spool"))
        if spooled.count(b'"span_id":') == 4:
            break
        time.sleep(0.05)
    pool.terminate()  # as the end of its `with` block does
"""


def test_a_pool_that_goes_on_has_sent_what_its_workers_did(project: Path) -> None:
    ran = run(project, AGENT.format(arguments="", more=ENDED_POOL))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert count(project / ".ratchet" / "ratchet.db") == 4


def test_an_agent_that_logs_everything_reads_nothing_of_what_is_sent(
    project: Path, server: Any
) -> None:
    code = "import logging\nlogging.basicConfig(level=0)\n" + AGENT.format(arguments="", more="")
    ran = run(project, code, RATCHET_URL=server.url)
    assert (ran.returncode, ran.stderr) == (0, "")
    with server.client() as http:
        assert len(http.get("/v1/spans", params={"agent": "bot"}).json()["spans"]) == 2
