"""Calls of the entry in `ratchet.toml` are traces, and the source knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.store.local_agents import open_with_agents

SUPPORT = """
class Desk:
    async def answer(self, question):
        return f"{question} Yes."

def answer(question):
    if question == "broken":
        raise ValueError("no such order")
    return f"{question} Yes."
"""


def live(tmp_path: Path, entry: str, program: str) -> list[tuple[str, str, object, object]]:
    """Status, message, input and output of the root spans of a live program."""
    (tmp_path / "support.py").write_text(SUPPORT)
    (tmp_path / "ratchet.toml").write_text(f'[agent]\nentry = "{entry}"\n')
    (tmp_path / "main.py").write_text(program)
    subprocess.run([sys.executable, "main.py"], cwd=tmp_path, check=False, timeout=60)
    url = f"sqlite:///{tmp_path}/.ratchet/ratchet.db"
    with open_with_agents(url) as store:
        traces, _ = store.traces.list()
        spans = [span for trace in traces for span in store.spans.of_trace(trace.trace_id)]
    return [
        (
            span.status,
            span.message,
            span.attributes.get("ratchet.input"),
            span.attributes.get("ratchet.output"),
        )
        for span in spans
        if span.parent_id is None
    ]


@pytest.mark.parametrize("order", ["init first", "import first"])
def test_a_live_call_of_the_entry_has_its_input_and_output(tmp_path: Path, order: str) -> None:
    lines = ["import ratchet; ratchet.init()", "import support"]
    program = "\n".join(lines if order == "init first" else lines[::-1])
    [(status, _, given, output)] = live(
        tmp_path, "support:answer", f"{program}\nsupport.answer('Is it on its way?')\n"
    )
    assert status != "error"
    assert "Is it on its way?" in str(given)
    assert "Is it on its way? Yes." in str(output)


def test_a_live_call_that_fails_is_an_error(tmp_path: Path) -> None:
    program = "import ratchet; ratchet.init()\nimport support\nsupport.answer('broken')\n"
    [(status, message, given, _)] = live(tmp_path, "support:answer", program)
    assert status == "error"
    assert "no such order" in message
    assert "broken" in str(given)


def test_a_method_that_is_awaited_is_traced(tmp_path: Path) -> None:
    program = (
        "import asyncio, ratchet; ratchet.init()\n"
        "from support import Desk\nasyncio.run(Desk().answer('When?'))\n"
    )
    [(status, _, _, output)] = live(tmp_path, "support:Desk.answer", program)
    assert (status, "When? Yes." in str(output)) == ("unset", True)
