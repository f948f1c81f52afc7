"""Where a prompt stands in the source, as people are told."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from ratchet.autopilot.own_values import with_own_values
from ratchet.autopilot.source_prompts import as_written, source_prompts
from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.observe.system_prompts import sent_texts
from ratchet.types import PromptTemplate, Span


def call_span(attributes: dict[str, Any]) -> Span:
    return Span(
        trace_id="1" * 32,
        span_id="1" * 16,
        parent_id=None,
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes=attributes,
    )


TEXT = "You are a strict critic of recipes. Say what is missing."


def test_a_prompt_that_stands_in_two_files_names_both(tmp_path: Path) -> None:
    for name in ("critic.py", "ideas.py"):
        (tmp_path / name).write_text(f'SYSTEM = "{TEXT}"\n')
    assert as_written(tmp_path, PromptTemplate(TEXT)) == (PromptTemplate(TEXT), ())
    who = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "agent")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert as_written(tmp_path, PromptTemplate(TEXT))[1] == ("critic.py:1", "ideas.py:1")


def test_a_template_whose_indentation_is_taken_away_is_found_with_its_slots(
    tmp_path: Path,
) -> None:
    source = """
        import textwrap

        DESCRIPTION = textwrap.dedent(\"\"\"
            Analyze what was found about {topic}.

            Name the three most important trends, with a reason for each.
            \"\"\")
        """
    (tmp_path / "task.py").write_text(textwrap.dedent(source))
    sent = "Current task:\n\nAnalyze what was found about tea.\n\nName the three most important"
    sent += " trends, with a reason for each.\n\nBegin!"
    message = [{"role": "user", "parts": [{"type": "text", "content": sent}]}]
    call = call_span({"gen_ai.input.messages": json.dumps(message)})
    [found] = source_prompts(tmp_path, [call]).counts
    assert found.template.text.startswith("Analyze what was found about {topic}.\n\nName")


def test_what_redaction_took_from_a_prompt_is_restored_from_the_source_and_nothing_else(
    tmp_path: Path,
) -> None:
    prompt = (
        "Answer for the shop.\\nCall {name} on 1-800-555-1234 - Email: help@pans.com\\n"
        "Of complaints tell boss@pans.com."
    )
    (tmp_path / "agent.py").write_text(f'TEXT = f"{prompt}"\nOTHER = "sales@pans.com"\n')
    sent = prompt.replace("\\n", "\n").replace("{name}", "Ann")
    asked = "My mail is ann@customers.org, not help@cups.org"
    messages = [
        {"role": "system", "parts": [{"type": "text", "content": sent}]},
        {"role": "user", "parts": [{"type": "text", "content": asked}]},
    ]
    redactor = Redactor(RedactionRules())
    recorded = redactor.text(json.dumps(messages))
    assert recorded.count("[redacted:") == 5
    for value in (recorded, json.loads(recorded)):
        span = call_span({"gen_ai.input.messages": value})
        (restored,) = with_own_values([span], tmp_path, redactor)
        texts = [text for _, text in sent_texts(restored.attributes)]
        assert texts == [sent, "My mail is [redacted:email], not [redacted:email]"]
