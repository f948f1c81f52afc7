"""A process notices that the project's files are others than those it has read."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from ratchet.autopilot.cycle.source_files import SourceFiles


def touch(path: Path, text: str, at: int) -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def test_a_changed_module_or_configuration_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "ratchet.toml", "", 1)
    touch(tmp_path / "agent_of_source_files.py", "A = 1\n", 1)
    touch(tmp_path / "unread.py", "B = 1\n", 1)
    files = SourceFiles(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("agent_of_source_files")
    assert not files.changed()
    touch(tmp_path / "unread.py", "B = 2\n", 2)
    assert not files.changed()
    touch(tmp_path / "agent_of_source_files.py", "A = 2\n", 2)
    assert files.changed()
    del sys.modules["agent_of_source_files"]
    again = SourceFiles(tmp_path)
    assert not again.changed()
    (tmp_path / "ratchet.toml").unlink()
    assert again.changed()
