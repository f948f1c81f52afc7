"""Loading a user's agent, and calling it with a task's input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.types import (
    AgentError,
    Candidate,
    Claim,
    Outcome,
    PromptTemplate,
)
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.attempt import Recorder, call_async, call_sync

WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]


@pytest.fixture
def attempt(write_agent: WriteAgent, claims: Claims) -> Callable[..., Outcome]:
    """Run one attempt of an agent of that source on one input, in this thread."""

    def run(source: str, given: Any = "x", resources: Any = None, **fields: Any) -> Outcome:
        agent = load_agent(write_agent(source))
        recorder = Recorder(agent, claims(given, **fields)[0], resources or {})
        if agent.is_async:
            return asyncio.run(call_async(recorder, 5.0))
        return call_sync(recorder)

    return run


@pytest.mark.parametrize(
    ("body", "status", "cause"),
    [
        ("return x", "succeeded", ""),
        ("raise ValueError(x)", "failed", "exception"),
        ("raise MemoryError", "failed", "memory"),
        ("class NoRoom(MemoryError): pass\n    raise NoRoom", "failed", "memory"),
        ("raise ExceptionGroup('two', [ValueError(), MemoryError()])", "failed", "memory"),
        ("class MemoryErrors(Exception): pass\n    raise MemoryErrors", "failed", "exception"),
        ("return 'x' * (9 * 2**20)", "failed", ""),
    ],
)
def test_what_ended_an_attempt_is_a_field_and_no_matter_of_its_error_s_text(
    attempt: Callable[..., Outcome], body: str, status: str, cause: str
) -> None:
    outcome = attempt(f"def run(x):\n    {body}")
    assert (outcome.status, outcome.cause) == (status, cause)


@pytest.mark.parametrize("entry", ["", "module", "module:", ":function"])
def test_a_malformed_entry_says_what_it_should_be(tmp_path: Path, entry: str) -> None:
    with pytest.raises(AgentError, match="is not MODULE:FUNCTION") as caught:
        load_agent(AgentSpec(entry=entry, root=str(tmp_path)))
    assert "ratchet.toml" in str(caught.value)


@pytest.mark.parametrize("entry", ["no_such_module:f", "no_such.module:f", "json.no_such:f"])
def test_a_missing_module_is_named_with_where_it_was_looked_for(tmp_path: Path, entry: str) -> None:
    with pytest.raises(AgentError, match="there is no module") as caught:
        load_agent(AgentSpec(entry=entry, root=str(tmp_path), path=("src",)))
    assert str(tmp_path / "src") in str(caught.value)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("import json\n\ndef deep():\n    import no_such_dependency\ndeep()", "no_such_dependency"),
        ("x = {}\nx['key']", "KeyError: 'key'"),
        ("import sys\nsys.exit('no licence')", "SystemExit: no licence"),
        ("def broken(:\n    pass", "SyntaxError"),
    ],
)
def test_an_agent_that_does_not_import_shows_its_own_error_and_lines(
    write_agent: WriteAgent, source: str, shown: str
) -> None:
    spec = write_agent(source)
    with pytest.raises(AgentError, match="cannot be imported") as caught:
        load_agent(spec)
    said = str(caught.value)
    assert shown in said
    assert f"{spec.entry.split(':')[0]}.py" in said
    assert "importlib" not in said
    assert "ratchet/run" not in said
    if "deep" in source:
        assert "import no_such_dependency" in said
        assert "line 5" in said


def test_a_missing_function_is_named_with_those_there_are(write_agent: WriteAgent) -> None:
    spec = write_agent("def answer(x): ...\nVALUE = 3", "anwser")
    with pytest.raises(AgentError, match=r"has no function 'anwser'; it has \['answer'\]"):
        load_agent(spec)
    with pytest.raises(AgentError, match="has no function 'VALUE'"):
        load_agent(write_agent("VALUE = 3", "VALUE"))


def test_folders_of_the_path_come_first_and_nested_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "agent_in_src.py").write_text(
        "class Agent:\n    @staticmethod\n    def run(x): return x\n"
    )
    spec = AgentSpec(entry="agent_in_src:Agent.run", root=str(tmp_path), path=("src",))
    assert load_agent(spec).function(3) == 3


@pytest.mark.parametrize(
    ("signature", "given", "expected"),
    [
        ("question", "why", ["why"]),
        ("question", {"question": "why"}, ["why"]),
        ("question", {"other": "why"}, [{"other": "why"}]),
        ("question, k=5", {"question": "why"}, ["why", 5]),
        ("a, *, b", {"a": 1, "b": 2}, [1, 2]),
        ("task", {}, [{}]),
        ("task", [1, 2], [[1, 2]]),
        ("task", None, [None]),
        ("**inputs", {"a": 1}, [{"a": 1}]),
        ("a, **inputs", {"a": 1, "b": 2}, [1, {"b": 2}]),
        ("state, **inputs", {"messages": []}, [{"messages": []}, {}]),
        ("task, /", {"task": 1}, [{"task": 1}]),
    ],
)
def test_an_input_meets_the_parameters(
    attempt: Callable[..., Outcome], signature: str, given: Any, expected: Any
) -> None:
    outcome = attempt(f"def run({signature}):\n    return list(locals().values())", given)
    assert (outcome.status, outcome.output) == ("succeeded", expected), outcome.error


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_input_that_does_not_fit_is_a_readable_failure(
    attempt: Callable[..., Outcome], kind: str
) -> None:
    outcome = attempt(f"{kind} run(a, b): ...", "text")
    assert outcome.status == "failed"
    assert "does not fit" in outcome.error
    assert ":run(a, b): missing a required argument: 'b'" in outcome.error


ROLLOUT_AGENT = """
    import ratchet
    @ratchet.rollout
    def run(task, template, knobs, extra=3):
        return 0.5 if (template.format(x=task["q"]), knobs.k, extra) == ("ask 1", 9, 3) else 0.0
"""


def test_the_trainer_form_gets_resources_by_name_and_returns_a_reward(
    attempt: Callable[..., Outcome], candidate: Candidate
) -> None:
    resources = {**candidate.resources, "template": PromptTemplate("ask {x}"), "unused": None}
    outcome = attempt(ROLLOUT_AGENT, {"q": 1}, resources)
    assert (outcome.status, outcome.output) == ("succeeded", 0.5), outcome.error
    assert [(s.evaluator, s.value) for s in outcome.scores] == [("reward", 0.5)]
    assert outcome.spans[-1].attributes["gen_ai.operation.name"] == "invoke_agent"


@pytest.mark.parametrize("reward", ["float('nan')", "float('inf')", "numpy.float32('nan')"])
def test_a_reward_that_is_not_finite_fails_the_attempt(
    attempt: Callable[..., Outcome], reward: str
) -> None:
    outcome = attempt(f"import numpy, ratchet\n@ratchet.rollout\ndef run(task): return {reward}")
    assert (outcome.status, outcome.scores) == ("failed", ())
    assert "not finite" in outcome.error


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("raise ValueError('bad')", "ValueError: bad"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise TimeoutError('mine')", "TimeoutError: mine"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("raise OSError('\\udcff')", "OSError"),
        ("run_again = lambda: run_again(); run_again()", "RecursionError"),
    ],
)
def test_whatever_an_agent_raises_fails_its_attempt_and_says_where(
    attempt: Callable[..., Outcome], kind: str, statement: str, shown: str
) -> None:
    outcome = attempt(f"{kind} run(x):\n    {statement}")
    assert (outcome.status, outcome.output) == ("failed", None)
    assert shown in outcome.error
    assert ".py:2 in" in outcome.error
    outcome.error.encode()
    assert outcome.spans[-1].status == "error"


def test_an_output_that_json_cannot_hold_is_kept_as_text(attempt: Callable[..., Outcome]) -> None:
    for value, kept in (
        ("object", "<class 'object'>"),
        ("'\\ud800'", "'\\ud800'"),
        ("10**30", 10**30),
    ):
        outcome = attempt(f"def run(x): return {value}")
        assert (outcome.status, outcome.output) == ("succeeded", kept)


@pytest.mark.parametrize("swallow", [False, True])
def test_a_blocked_tool_makes_the_rollout_inconclusive(
    attempt: Callable[..., Outcome], swallow: bool, tmp_path: Path
) -> None:
    acted = tmp_path / "acted"
    outcome = attempt(f"""
        import contextlib, ratchet
        @ratchet.tool(side_effects=True)
        def book(x): open({str(acted)!r}, "w")
        @ratchet.agent
        def run(x):
            with contextlib.suppress(Exception) if {swallow} else contextlib.nullcontext():
                book(x)
            ratchet.emit_reward(1.0)
            return "booked"
    """)
    assert (outcome.status, outcome.output) == ("inconclusive", None)
    assert "'book' has side effects" in outcome.error
    assert not acted.exists()


def test_an_attempt_carries_spans_scores_cost_and_seed(attempt: Callable[..., Outcome]) -> None:
    outcome = attempt(
        """
        import ratchet
        from ratchet.bind import current_seed
        def run(x):
            with ratchet.trace("call") as step:
                step.set("ratchet.cost_usd", 0.25)
            with ratchet.trace("odd") as step:
                step.set("ratchet.cost_usd", float("nan"))
            ratchet.emit_reward(0.5, name="own")
            return current_seed()
        """,
        seed=77,
    )
    costs = [span.attributes.get("ratchet.cost_usd") for span in outcome.spans]
    assert (outcome.output, outcome.cost_usd, 0.25 in costs) == (77, 0.0, True)
    assert [s.evaluator for s in outcome.scores] == ["own"]
    assert [s.name for s in outcome.spans] == ["call", "odd", "run"]
    assert outcome.started_at <= outcome.ended_at
    assert 0 <= outcome.duration_s < 5
