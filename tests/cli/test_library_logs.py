"""The terminal shows what Ratchet and the project log, and nothing of a library."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.cli.library_logs import silence_libraries

LIBRARY = 'import logging\nlogging.getLogger(__name__).warning("the text of an attack")\n'
COMPILED = """
import logging
log = logging.getLogger("compiled")
log.handle(log.makeRecord("compiled", logging.ERROR, "lib/parser.py", 1, "its text", (), None))
"""
OWN = 'import logging\nlogging.getLogger("agent").warning("what the agent says")\n'


def test_a_librarys_warnings_are_not_printed_and_the_projects_are(tmp_path: Path) -> None:
    installed = tmp_path / "environment" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "parser_of_queries.py").write_text(LIBRARY)
    (tmp_path / "compiled_module.py").write_text(COMPILED)
    (tmp_path / "agent.py").write_text(OWN)
    script = (
        f"import sys; sys.path[:0] = [{str(installed)!r}, {str(tmp_path)!r}]\n"
        "from ratchet.cli.library_logs import silence_libraries\n"
        "silence_libraries()\n"
        "import parser_of_queries, compiled_module, agent, asyncio, logging\n"
        'logging.getLogger("ratchet.evaluate").warning("what Ratchet says")\n'
        "asyncio.run(asyncio.sleep(0))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["what the agent says", "what Ratchet says"]


def test_it_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler())
    silence_libraries()
    silence_libraries()
    assert logging.lastResort is not None
    assert len(logging.lastResort.filters) == 1
