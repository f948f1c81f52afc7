"""OpenEvolve: the package decides in a process of its own; rollouts and answers are the lab's."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ratchet.learn.openevolve as module
from ratchet.learn import Budget, BudgetExhausted, Finding, Proposal, openevolve_child
from ratchet.learn.openevolve import OpenEvolve
from ratchet.llm import CoachUnavailable, Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, Code, ConfigError, InputError, PromptTemplate
from tests.learn.conftest import Answer, FakeRunner, Killed, MakeStore, make_lab
from tests.learn.rule_coach import RULES, SOURCE, RuleCoach, obeys

pytest.importorskip("openevolve", reason="the extra openevolve is not installed")

RUNS: dict[str, Any] = {"max_iterations": 6, "diff_based_evolution": False, "num_islands": 3}


class Learned(msgspec.Struct):
    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    coach: RuleCoach


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def learn(
    store: Store,
    algorithm: OpenEvolve | None = None,
    *,
    coach: RuleCoach | None = None,
    baseline: Candidate = SOURCE,
    answer: Answer = obeys,
    dies_after: int | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> Learned:
    proposals: list[Proposal] = []
    coach = coach or RuleCoach(fenced)
    runner = FakeRunner(store, answer, dies_after=dies_after)
    lab = make_lab(
        runner,
        store,
        baseline,
        coach=coach,
        budget=budget or Budget(rollouts=500),
        on_proposal=proposals.append,
        train=10,
        **options,
    )
    finding = asyncio.run((algorithm or OpenEvolve(**RUNS)).learn(lab))
    return Learned(finding, proposals, runner, coach)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('whole')}/whole.db")
    try:
        return learn(store)
    finally:
        store.close()


def test_it_finds_a_better_prompt(whole: Learned) -> None:
    assert whole.finding.best_val > whole.finding.baseline_val == 0.0
    text = whole.finding.best.resources["system"].text  # type: ignore[union-attr]
    assert text.startswith("Book a room for {request}.")
    assert any(rule in text for rule in RULES)
    assert "all 6 iterations were made" in whole.finding.sentence
    assert whole.finding.best.algorithm == "openevolve"
    assert any(proposal.accepted for proposal in whole.proposals)
    assert True in whole.coach.credits


def test_held_out_tasks_are_never_shown_to_the_coach(whole: Learned) -> None:
    assert len(whole.coach.asked) == 6
    assert all('"split":"val"' not in prompt for prompt in whole.coach.asked)
    assert any('"split":"train"' in prompt for prompt in whole.coach.asked)


@pytest.mark.parametrize(("calls", "rollouts"), [(3, None), (None, 27)])
@pytest.mark.long
def test_killed_and_resumed_it_ends_the_same_and_pays_nothing_twice(
    make_store: MakeStore, whole: Learned, calls: int | None, rollouts: int | None
) -> None:
    store = make_store()
    dying = RuleCoach(fenced, dies_after=calls)
    with pytest.raises(Killed):
        learn(store, coach=dying, dies_after=rollouts)
    going_on = learn(store)
    assert going_on.finding == whole.finding
    assert going_on.proposals == whole.proposals
    assert dying.asked + going_on.coach.asked == whole.coach.asked


@pytest.mark.long
def test_the_budget_ends_it_with_enough_left_for_the_finalists(make_store: MakeStore) -> None:
    found = learn(make_store(), budget=Budget(rollouts=60))
    assert found.runner.executed.total() <= 60
    assert "the budget is spent" in found.finding.sentence
    assert found.finding.best_val >= found.finding.baseline_val
    found = learn(make_store(), budget=Budget(coach_calls=2))
    assert len(found.coach.asked) == 2
    assert "the budget is spent" in found.finding.sentence


def test_a_budget_below_one_round_is_refused_before_anything_is_spent(
    make_store: MakeStore,
) -> None:
    store = make_store()
    coach, runner = RuleCoach(fenced), FakeRunner(store, obeys)
    lab = make_lab(runner, store, SOURCE, coach=coach, budget=Budget(rollouts=59), train=10)
    with pytest.raises(BudgetExhausted, match="59 rollouts does not cover one round"):
        asyncio.run(OpenEvolve(**RUNS).learn(lab))
    assert not runner.executed
    assert not coach.asked


BOMB = """def rank(query):
    return 0.9
import os
open({path!r}, "w").write("executed")
"""


def test_code_of_a_candidate_never_runs_outside_the_lab(
    make_store: MakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789abcdef")
    mark = tmp_path / "executed"
    path = str(mark)
    one_function = (
        f"def rank(query, _=open({path!r}, 'w').write('executed')):\n"
        f"    open({path!r}, 'w').write('executed')\n    return 0.9\n"
    )
    answers = iter([BOMB.format(path=path), one_function, "def rank(query:\n", one_function])

    class Hostile(RuleCoach):
        async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
            self.asked.append(messages[-1].content)
            return Reply(text=f"```python\n{next(answers)}\n```", model="one")

    source = Candidate.of(
        {"rank": Code(source="def rank(query):\n    return 0.1\n", function="rank")}
    )

    def answer(resources: Any, _: Any) -> float:
        found = re.findall(r"return ([\d.]+)", resources["rank"].source)
        return float(found[-1])

    found = learn(
        make_store(),
        OpenEvolve(max_iterations=4, diff_based_evolution=False, num_islands=1),
        coach=Hostile(fenced),
        baseline=source,
        answer=answer,
    )
    assert not mark.exists()
    assert found.finding.best_val == pytest.approx(0.9)
    assert "exactly one function" in "".join(found.coach.asked)


@pytest.mark.long
def test_search_and_replace_blocks(make_store: MakeStore) -> None:
    class Editing(RuleCoach):
        async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
            self.asked.append(messages[-1].content)
            block = (
                "<<<<<<< SEARCH\nBook a room\n=======\nMind capacity. Book a room\n>>>>>>> REPLACE"
            )
            return Reply(text=block, model="one")

    source = Candidate.of({"system": PromptTemplate("Book a room\nfor {request}.")})
    found = learn(
        make_store(), OpenEvolve(max_iterations=2), coach=Editing(fenced), baseline=source
    )
    assert "Mind capacity." in found.finding.best.resources["system"].text  # type: ignore[union-attr]


def test_a_coach_that_is_gone_ends_the_run_with_its_sentence(make_store: MakeStore) -> None:
    class Gone(RuleCoach):
        async def ask(self, *args: Any, **options: Any) -> Any:
            raise CoachUnavailable("Nobody is there.")

    with pytest.raises(CoachUnavailable, match="Nobody is there"):
        learn(make_store(), coach=Gone(fenced))


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    path = str(tmp_path / "line")
    os.mkfifo(tmp_path / "job.json")  # which it waits for
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(30)
        process = subprocess.Popen(
            [sys.executable, "-P", openevolve_child.__file__, str(tmp_path)],
            env={"RATCHET_ENGINE_SOCKET": path, "RATCHET_ENGINE_SEED": "0"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        line, _ = server.accept()
        assert b"watch" in line.recv(100)
        line.close()
    assert process.wait(30) == -signal.SIGKILL


def test_of_several_texts_one_is_named(make_store: MakeStore) -> None:
    two = Candidate.of({**SOURCE.resources, "other": PromptTemplate("Be polite.")})
    with pytest.raises(InputError, match=r"improves one text, and there are .*resource ="):
        learn(make_store(), baseline=two)
    with pytest.raises(InputError, match=r"no text 'else'.*system"):
        learn(make_store(), OpenEvolve(resource="else"), baseline=two)


def test_an_option_that_cannot_be_is_named() -> None:
    with pytest.raises(ConfigError, match="num_islands = 0"):
        OpenEvolve(num_islands=0)


def test_without_the_package_it_names_the_extra(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"not installed.*agent-ratchet\[openevolve\]"):
        learn(make_store())
