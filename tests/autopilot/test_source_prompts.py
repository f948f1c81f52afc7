"""The prompts of the source that model calls sent."""

from __future__ import annotations

import json
from pathlib import Path

from ratchet.autopilot.source_prompts import source_prompts
from ratchet.types import Span

RULES = "You plan the week of a small kitchen. Say which day each dish is cooked on."


def test_of_equal_literals_the_one_in_the_file_that_the_command_names_counts(
    tmp_path: Path,
) -> None:
    for name in ("cook.py", "cook_old.py"):
        (tmp_path / name).write_text(f"RULES = {RULES!r}\n")
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"{RULES}\n\nSoup."}]}]
    call = Span(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "1",
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes={"gen_ai.input.messages": json.dumps(messages)},
    )
    for program in ("cook.py", "cook_old.py"):
        found = source_prompts(tmp_path, [call], program={program})
        assert [prompt.place for prompt in found] == [f"{program}:1"]
