"""Which models a project uses, and what `ratchet doctor` and the overview say of those that end."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ratchet.autopilot.doctor import diagnose
from ratchet.cli.app import run
from ratchet.server.api import overview
from ratchet.store import Store
from ratchet.types import Span, SpanRecord

TODAY = date(2026, 11, 26)


def project(root: Path, settings: str = "", **files: str) -> Path:
    root.mkdir()
    (root / "ratchet.toml").write_text(f'[agent]\nentry = "agent:answer"\n{settings}')
    (root / "tasks.jsonl").write_text('{"input": "x"}\n')
    (root / "agent.py").write_text(files.pop("agent", "def answer(x): ...\n"))
    for name, text in files.items():
        (root / name.replace("_", ".")).write_text(text)
    return root


def call(store: Store, *, asked: str, answered: str, provider: str, on: date, agent: str) -> None:
    """Store a recorded call of a model."""
    start_ns = int(datetime(on.year, on.month, on.day, 12, tzinfo=UTC).timestamp()) * 10**9
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": asked,
        "gen_ai.response.model": answered,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
    }
    trace = f"{start_ns:032x}"
    span = Span(
        trace_id=trace,
        span_id=trace[-16:],
        name="chat",
        start_ns=start_ns,
        end_ns=start_ns + 1,
        attributes=attributes,
    )
    store.spans.put([SpanRecord(span=span, agent=agent)])


def said(root: Path, today: date = TODAY) -> list[tuple[str, str]]:
    return [(model.what, model.next_step) for model in diagnose(root, today).ending_models]


def test_models_that_were_called_count_and_names_in_the_source_do_not(tmp_path: Path) -> None:
    root = project(tmp_path / "bot", agent='MODEL = "gpt-4.1"\ndef answer(x): ...\n')
    (root / ".ratchet").mkdir()
    with Store.open(f"sqlite:///{root}/.ratchet/ratchet.db") as store:
        for asked, answered, provider, on, agent in (
            ("gpt-5-mini", "gpt-5-mini-2025-08-07", "openai", date(2026, 11, 20), "bot"),
            ("gpt-4o", "gpt-4o-2024-08-06", "azure.ai.openai", date(2026, 11, 21), "bot"),
            ("gpt-4o-mini", "gpt-4o-mini", "openai", date(2026, 9, 1), "bot"),
            ("o3", "o3", "openai", date(2026, 11, 22), "coach"),
        ):
            call(store, asked=asked, answered=answered, provider=provider, on=on, agent=agent)
    assert said(root) == [
        (
            "gpt-5-mini ends on 11 December 2026, in 15 days. bot last called it on 20 November.",
            "ratchet migrate --from gpt-5-mini --to gpt-6.1-terra",
        )
    ]


def test_without_recorded_calls_names_in_source_and_settings_count(tmp_path: Path) -> None:
    root = project(
        tmp_path / "bot",
        '[[agent.models]]\nname = "answers"\nmodel = "gpt-4.1"\n'
        '[coach]\nmodel = "openai/gpt-5-nano"\n[project]\nname = "o3"\n',
        agent='ID = "o1"\nMODEL = "gpt-4o-mini"\nclient = make(model="o3")\ndef answer(x): ...\n',
        models_yaml="default_model: models/gemini-2.5-flash  # cheap\nother: gpt-4\n",
        README_md="Was `gpt-4`.\n\n    model: gpt-4\n",
        test_py='MODEL = "gpt-4"\n',
    )
    (root / "test.py").rename(root / "test_agent.py")
    used = {model.model: model.used for model in diagnose(root, TODAY).ending_models}
    assert used == {
        "models/gemini-2.5-flash": "models.yaml:1 names it",
        "o3": "agent.py:3 names it",
        "openai/gpt-5-nano": "ratchet.toml names it in coach.model",
        "gpt-4.1": "ratchet.toml names it in agent.models.model",
        "gpt-4o-mini": "agent.py:2 names it",
    }


def test_an_announced_end_warns_and_a_past_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(tmp_path / "bot", agent='MODEL = "gpt-4-0613"\ndef answer(x): ...\n')
    assert run(["doctor", str(root)]) == 1
    printed = capsys.readouterr()
    assert "gpt-4-0613 ended on 23 October 2026. agent.py:1 names it." in printed.out
    assert "ratchet migrate --from gpt-4-0613 --to MODEL" in printed.out
    assert "The agent uses 1 retired model." in printed.err
    (root / "agent.py").write_text('MODEL = "grok-2-latest"\ndef answer(x): ...\n')
    assert run(["doctor", str(root), "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["ending_models"]
    assert (model["ends_on"], model["past"]) == (None, False)


def test_the_overview_names_models_that_end_with_the_command(tmp_path: Path) -> None:
    now = datetime(2026, 11, 26, 13, tzinfo=UTC).timestamp()
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        call(
            store,
            asked="gpt-4o",
            answered="gpt-4o-2024-08-06",
            provider="openai",
            on=TODAY,
            agent="bot",
        )
        (item,) = overview._overview(store, 168.0, now).waiting
    assert (item.kind, item.title) == (
        "ending_model",
        "gpt-4o ends on 14 January 2027, in 49 days.",
    )
    assert item.detail == "Called by bot. Source: OpenAI API, Deprecations."
    assert item.command == "ratchet migrate --from gpt-4o --to gpt-6-luna"
