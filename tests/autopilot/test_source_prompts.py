"""Where a prompt stands in the source, as people are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ratchet.autopilot.source_prompts import as_written
from ratchet.types import PromptTemplate

TEXT = "You are a strict critic of recipes. Say what is missing."


def test_a_prompt_that_stands_in_two_files_names_both(tmp_path: Path) -> None:
    for name in ("critic.py", "ideas.py"):
        (tmp_path / name).write_text(f'SYSTEM = "{TEXT}"\n')
    assert as_written(tmp_path, PromptTemplate(TEXT)) == (PromptTemplate(TEXT), ())
    who = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "agent")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert as_written(tmp_path, PromptTemplate(TEXT))[1] == ("critic.py:1", "ideas.py:1")
