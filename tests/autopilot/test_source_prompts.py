"""The prompts of the source that model calls sent."""

from __future__ import annotations

import json
from pathlib import Path

from ratchet.autopilot.source_prompts import source_prompts
from ratchet.types import Span

RULES = "You plan the week of a small kitchen. Say which day each dish is cooked on."


def model_call(*messages: tuple[str, str]) -> Span:
    sent = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages]
    return Span(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "1",
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes={"gen_ai.input.messages": json.dumps(sent)},
    )


def test_where_the_input_is_the_system_message_the_users_text_is_the_prompt(
    tmp_path: Path,
) -> None:
    (tmp_path / "cook.py").write_text(f"RULES = {RULES!r}\n")
    call = model_call(("system", "Soup on Monday."), ("user", RULES))
    found = source_prompts(tmp_path, [call], inputs=["Soup on Monday."])
    assert [prompt.place for prompt in found] == ["cook.py:1"]


def test_of_equal_literals_the_one_in_the_file_that_the_command_names_counts(
    tmp_path: Path,
) -> None:
    for name in ("cook.py", "cook_old.py"):
        (tmp_path / name).write_text(f"RULES = {RULES!r}\n")
    call = model_call(("user", f"{RULES}\n\nSoup."))
    for program in ("cook.py", "cook_old.py"):
        found = source_prompts(tmp_path, [call], program={program})
        assert [prompt.place for prompt in found] == [f"{program}:1"]
