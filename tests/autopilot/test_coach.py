"""The coach of a run: from the configuration or the algorithm, checked once, traced, redacted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.llm.endpoint import Endpoint, answer, error

from ratchet.autopilot.coach import coach_identity, open_coach
from ratchet.autopilot.learning_sections import CoachSection
from ratchet.llm import COACH_STEP, Coach, CoachUnavailable, Message, Reply
from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.store import Store
from ratchet.types import ConfigError
from ratchet.types.trace import TraceFilter


class Search:
    """An algorithm that says what it wants of a coach."""

    name = "search"

    def __init__(self, needs: bool | None = True, **options: Any) -> None:
        self.needs_coach = needs
        self.coach_options = options

    async def learn(self, lab: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as opened:
        yield opened


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(lambda request: answer(f"Heard {len(request.said)} characters.")) as served:
        yield served


def opened(
    store: Store,
    algorithm: Any,
    work: Callable[[Coach], Any] | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
    redaction: RedactionRules | None = None,
    **section: Any,
) -> Any:
    """Open a coach, have something done with it, and close it."""

    async def go() -> Any:
        async with open_coach(
            CoachSection(**section),
            algorithm,
            store=store,
            run_id="run1",
            seed=0,
            redactor=Redactor(redaction),
            say=say,
        ) as coach:
            if coach is None:
                return None
            return await work(coach) if work else coach.models

    return asyncio.run(go())


async def hello(coach: Coach) -> Reply:
    COACH_STEP.set("round 1")
    return await coach.ask([Message("user", "Write to ann@example.com")])


def test_an_algorithm_that_needs_a_coach_is_told_that_none_is_named(store: Store) -> None:
    with pytest.raises(
        CoachUnavailable, match="search needs a coach LLM, but none is configured"
    ) as told:
        opened(store, Search())
    assert "[coach]" in (told.value.hint or "")


@pytest.mark.parametrize("needs", [None, False])
def test_one_that_needs_none_gets_none(store: Store, needs: bool | None) -> None:
    assert opened(store, Search(needs)) is None
    assert opened(store, object()) is None


def test_each_model_is_checked_once_in_a_run(store: Store, endpoint: Endpoint) -> None:
    models = ({"name": "gpt-4o-mini"}, {"name": "gpt-4o", "weight": 3.0})
    for _ in range(2):
        named = opened(store, Search(), models=models, base_url=endpoint.url)
        assert named == ("gpt-4o-mini", "gpt-4o")
    asked = sorted(request.body["model"] for request in endpoint.requests)
    assert asked == ["gpt-4o", "gpt-4o-mini"]
    assert all(request.body["max_tokens"] == 16 for request in endpoint.requests)


def test_no_check_for_an_algorithm_that_asks_none(store: Store, endpoint: Endpoint) -> None:
    opened(store, Search(False), model="gpt-4o-mini", base_url=endpoint.url)
    opened(store, object(), model="gpt-4o-mini", base_url=endpoint.url)
    assert endpoint.requests == []
    opened(store, Search(None), model="gpt-4o-mini", base_url=endpoint.url)
    assert len(endpoint.requests) == 1


def test_a_check_that_failed_is_made_again(store: Store, endpoint: Endpoint) -> None:
    fine, endpoint.react = endpoint.react, lambda _: error(401, "bad key")
    for _ in range(2):
        with pytest.raises(CoachUnavailable, match="401"):
            opened(store, Search(), model="gpt-4o-mini", base_url=endpoint.url)
    endpoint.react = fine
    opened(store, Search(), model="gpt-4o-mini", base_url=endpoint.url)
    assert len(endpoint.requests) == 3


def test_what_the_algorithm_says_wins(store: Store, endpoint: Endpoint) -> None:
    own = Search(model="gpt-4o-mini", base_url=endpoint.url)
    section = {"models": ({"name": "other"},), "base_url": "http://127.0.0.1:9/v1"}
    assert opened(store, own, **section) == ("gpt-4o-mini",)
    assert opened(store, Search(model=None), model="gpt-4o", base_url=endpoint.url) == ("gpt-4o",)
    with pytest.raises(ConfigError, match="search: the coach has no option 'temprature'"):
        opened(store, Search(temprature=1))


def test_a_call_is_a_trace_without_what_redaction_takes_out(
    store: Store, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghijklmnopqrstuv")
    reply = opened(store, Search(False), hello, model="gpt-4o-mini", base_url=endpoint.url)
    assert reply.text == "Heard 25 characters."
    assert endpoint.requests[0].said == "Write to [redacted:email]"
    (trace,) = store.traces.list(TraceFilter(agent="coach"))[0]
    assert trace.name == "coach round 1"
    assert trace.conversation_id == "run1"
    assert (trace.input_tokens, trace.output_tokens) == (100, 10)
    assert trace.cost_usd == pytest.approx(reply.cost_usd)
    root, request = store.spans.of_trace(trace.trace_id)
    assert request.parent_id == root.span_id
    assert request.name == "chat gpt-4o-mini"
    assert request.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert request.attributes["ratchet.run.id"] == "run1"
    assert "[redacted:email]" in request.attributes["gen_ai.input.messages"]
    assert "Heard 25" in request.attributes["gen_ai.output.messages"]
    assert "sk-test" not in repr([root, request])


def test_each_try_is_a_span_with_what_went_wrong(store: Store, endpoint: Endpoint) -> None:
    reactions = iter([error(500, "oops"), answer("No JSON."), answer('{"a": 1}')])
    endpoint.react = lambda _: next(reactions)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    async def ask(coach: Coach) -> Reply:
        return await coach.ask([Message("user", "Count.")], schema=schema)

    assert opened(store, Search(False), ask, model="m", base_url=endpoint.url).data == {"a": 1}
    (trace,) = store.traces.list(TraceFilter(agent="coach"))[0]
    root, *tries = store.spans.of_trace(trace.trace_id)
    assert root.status == "ok"
    assert [span.status for span in tries] == ["error", "ok", "ok"]
    assert tries[0].attributes["http.response.status_code"] == 500
    assert "fails (500)" in tries[0].message
    assert tries[1].attributes["http.request.resend_count"] == 1


def test_without_content_the_structure_stays(store: Store, endpoint: Endpoint) -> None:
    rules = RedactionRules(capture_content=False)
    opened(store, Search(False), hello, redaction=rules, model="gpt-4o-mini", base_url=endpoint.url)
    (trace,) = store.traces.list(TraceFilter(agent="coach"))[0]
    assert "Heard" not in repr(store.spans.of_trace(trace.trace_id))
    assert trace.input_tokens == 100


def test_another_model_is_another_run_and_another_address_is_not() -> None:
    def identity(algorithm: Any = None, **section: Any) -> list[Any]:
        return coach_identity(CoachSection(**section), algorithm or Search())

    assert identity(model="a") != identity(model="b")
    assert identity(model="a") == identity(model="a", base_url="http://x/v1", retries=1)
    assert identity(model="a") != identity(model="a", temperature=0.5)
    assert identity(Search(model="b"), model="a") == identity(model="b")
    assert identity(Search(False), model="a") == identity(object(), model="a") == identity() == []
