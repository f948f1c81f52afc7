"""A service that Ratchet starts is contained, and reached in its own network."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.free_ports import free_port
from tests.run.executing import use
from tests.run.test_served import PYTHON, gateway
from tests.server.gateway.upstreams import StubUpstream

from ratchet.run.denials import kept_of
from ratchet.run.handover import Handover
from ratchet.run.served import ServedExecutor
from ratchet.sandbox.containment import (
    AgentContainment,
    Allowance,
    why_no_mounts,
    why_no_supervision,
)
from ratchet.types import Claim, Outcome

__all__ = ["gateway"]

SERVICE = (
    PYTHON
    + """
def ANSWER(task):
    said = {}
    base = os.environ["OPENAI_BASE_URL"]
    with urllib.request.urlopen(urllib.request.Request(base + "/models", b"{}")) as answer:
        said["model"] = answer.status
    try:
        urllib.request.urlopen("http://api.tavily.com/", timeout=5)
    except OSError as error:
        said["error"] = str(error.reason)
    return said

serve(os.environ["PORT"])
"""
)


@pytest.mark.parametrize(
    ("level", "missing"), [("bubblewrap", why_no_mounts()), ("landlock", why_no_supervision())]
)
def test_a_service_answers_and_reaches_its_model_alone(
    level: str,
    missing: str,
    tmp_path: Path,
    gateway: StubUpstream,
    claims: Callable[..., list[Claim]],
) -> None:
    if missing:
        pytest.skip(missing)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "service.py").write_text(SERVICE)
    executor = ServedExecutor(
        [sys.executable, "service.py"],
        f"http://127.0.0.1:{free_port()}/",
        handover=Handover(),
        folder=folder,
        state=tmp_path / "state",
        slots=1,
        timeout_s=30.0,
        server=gateway.url,
        containment=AgentContainment(Allowance(), root=folder, level=level),
    )

    async def attempts() -> list[Outcome]:
        return [await executor.execute(claim, {}) for claim in claims("one", "two")]

    outcomes = use(executor, attempts)
    for outcome in outcomes:
        assert outcome.status == "succeeded", outcome.error
        assert outcome.output == {"model": 200, "error": "[Errno 111] Connection refused"}
        assert [(act.subject, act.port) for act in kept_of(outcome.spans)] == [
            ("api.tavily.com", 80)
        ]
