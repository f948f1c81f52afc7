"""Tables are written as TOML that reads back."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ratchet.wire.project_files.toml_text import toml_text

TABLES: dict[str, Any] = {
    "agent": {"entry": "ratchet_agent:run", "name": "library", "path": [".", "src"]},
    "tasks": {"file": "tasks.jsonl", "split": {"train": 0.5, "val": 0.2, "test": 0.3}},
    "evaluators": [{"use": "exact_match"}, {"use": "contains", "name": 'has é "q" \\'}],
    "objective": {"evaluator": "exact_match"},
    "run": {"timeout_s": 60.0, "attempts": 1},
    "improve": {"algorithm": "auto", "budget": {"rollouts": 500}},
    "upstreams": {"main": {"dialect": "openai", "base_url": "https://a.example/v1"}},
    "prices": {"model.x/1": {"input": 1.0, "output": 2.0}},
    "guardrails": [{"metric": "cost", "off": True}],
}


def test_tables_are_read_as_they_were_given_with_a_comment_above_each() -> None:
    text = toml_text(TABLES, {"agent": "What a rollout runs for each task."})
    assert tomllib.loads(text) == TABLES
    assert "# What a rollout runs for each task.\n[agent]\n" in text


_KEYS = st.text('ab é."\\\n', min_size=1, max_size=4)
_VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_tables_are_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(tables, {"a": "A comment."})) == tables
