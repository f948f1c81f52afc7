"""What a first improvement costs: models that code names, published prices, what is assumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.wire import look
from ratchet.wire.facts import Place
from ratchet.wire.recommending import recommend
from ratchet.wire.recommending.costing import BASELINE, OUTPUT, SEARCH, cost_lines, estimate
from ratchet.wire.recommending.model_names import ModelName, model_names

AGENT = """\
import os
import openai
from settings import FALLBACK

RULES = "You answer readers of a public library, and say how long each book may be kept by them."


def ask(question):
    return openai.OpenAI().chat.completions.create(
        model=os.getenv("LIBRARY_MODEL", "gpt-4o-mini"),
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
    )
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(AGENT)
    (tmp_path / "settings.py").write_text(
        'FALLBACK: str = "llama-3.3-70b-versatile"\nEMBEDDING_MODEL = "text-embedding-3-small"\n'
        'OWN_MODEL = "library-desk-7b"\n'
    )
    (tmp_path / ".env").write_text("MODEL=gpt-4-never-read\n")
    (tmp_path / "limits.py").write_text(
        "LIMITS = {" + ", ".join(f'"gpt-4o-{n}": {n}' for n in range(9)) + "}\n"
    )
    (tmp_path / "requirements.txt").write_text("openai\nlangchain-groq\n")
    return tmp_path


def test_models_are_found_where_code_and_settings_name_them(library: Path) -> None:
    assert model_names(library, look(library), ".") == (
        ModelName("gpt-4o-mini", Place("desk.py", 10)),
        ModelName("llama-3.3-70b-versatile", Place("settings.py", 1)),
        ModelName("library-desk-7b", Place("settings.py", 3)),
    )


def test_the_page_estimates_dollars_says_what_it_assumes_and_what_is_not_known(
    library: Path,
) -> None:
    sections = {one.title: "\n".join(one.lines) for one in recommend(look(library)).sections}
    page = sections["What it costs"]
    tokens = round(18 * 4 / 3) + 500
    usd = (BASELINE + SEARCH) * (tokens * 0.15 + OUTPUT * 0.6) / 1e6
    assert f"${usd:.4f} with gpt-4o-mini (desk.py:10)" in page
    assert "llama-3.3-70b-versatile (settings.py:1)" in page, "sold by groq, which is named"
    assert f"450 rollouts of 1 model call, each with {tokens} input and 300 output tokens" in page
    assert "Not known: the price of library-desk-7b (settings.py:3)." in page


def test_without_a_model_in_the_code_the_price_is_not_known() -> None:
    assert "Not known: the price in dollars, since the code names no model." in cost_lines([], 1, 9)


@pytest.mark.parametrize("name", ["openai:gpt-4o", "openai/gpt-4o", "gpt-4o"])
def test_a_provider_in_a_name_is_understood(name: str) -> None:
    assert estimate(name, 2, 1000) == pytest.approx(450 * 2 * (1000 * 2.5 + 300 * 10) / 1e6)
