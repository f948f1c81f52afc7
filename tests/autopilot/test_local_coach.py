"""The real small model in the coach's seat: every call ends, and says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local_models import GROUP

from ratchet.autopilot.coach import open_coach
from ratchet.autopilot.config import CoachSection
from ratchet.llm import Coach, Message, Reply
from ratchet.models import LocalModel, ModelUnavailable
from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.store import Store

pytestmark = pytest.mark.xdist_group(GROUP)


class Search:
    """An algorithm that uses a coach."""

    name = "search"

    def __init__(self, needs: bool | None = True) -> None:
        self.needs_coach = needs

    async def learn(self, lab: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as opened:
        yield opened


Ask = Callable[[Coach], Awaitable[Reply]]


def ask(store: Store, work: Ask, needs: bool | None = True, **section: Any) -> Reply | None:
    """Open the local coach and ask it."""
    named = {"model": "local", "retries": 0, **section}

    async def go() -> Reply | None:
        async with open_coach(
            CoachSection(**named),
            Search(needs),
            store=store,
            run_id="run1",
            seed=0,
            redactor=Redactor(RedactionRules()),
            say=lambda _: None,
        ) as coach:
            assert coach is not None
            return await work(coach)

    return asyncio.run(go())


def test_it_answers_in_the_shape_that_is_asked_and_costs_nothing(
    store: Store, local_model: LocalModel
) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["good", "bad"]}},
        "required": ["label"],
        "additionalProperties": False,
    }
    request = [Message("user", "Is the word 'happy' good or bad?")]
    reply = ask(store, lambda coach: coach.ask(request, schema=schema))
    assert reply is not None
    assert reply.problem == ""
    assert reply.data["label"] in ("good", "bad")
    assert reply.cost_usd == 0.0
    assert reply.input_tokens > 0


def test_a_prompt_beyond_its_context_costs_that_call_only(
    store: Store, local_model: LocalModel
) -> None:
    async def two(coach: Coach) -> Reply:
        long = await coach.ask([Message("user", "happy " * 9000)])
        assert "context" in long.problem
        return await coach.ask([Message("user", "hi")], max_tokens=4)

    reply = ask(store, two)
    assert reply is not None
    assert reply.text


def test_it_is_not_started_for_an_algorithm_that_asks_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("ratchet.models.shared_model", lambda name, *rest: started.append(name))

    async def nothing(coach: Coach) -> Reply:
        return Reply(text="")

    ask(store, nothing, needs=False)
    assert started == []


def test_a_file_that_is_no_model_is_named_before_anything_is_spent(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_text("not a model")
    with pytest.raises(ModelUnavailable, match=r"broken\.gguf is not a GGUF file"):
        ask(store, lambda coach: coach.ask([]), model=f"local:{tmp_path}/broken.gguf")
