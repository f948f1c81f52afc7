"""Trainer: learning for an agent that is an object of the caller's program."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.bind import forget
from ratchet.learn import BudgetExhausted, Finding, Lab, mean
from ratchet.types import AgentError, InputError, PromptTemplate

TASKS = [{"question": f"question {number}", "expected_room": number} for number in range(12)]


class TryOne:
    """Tries one other prompt."""

    name = "try_one"

    def __init__(self, text: str = "Be good. {question}") -> None:
        self.text = text

    async def learn(self, lab: Lab) -> Finding:
        name = next(n for n, r in lab.baseline.resources.items() if isinstance(r, PromptTemplate))
        other = lab.propose({name: PromptTemplate(self.text)}, algorithm=self.name, reason="Try.")
        before = mean(await lab.evaluate(lab.baseline, lab.val)) or 0.0
        after = mean(await lab.evaluate(other, lab.val)) or 0.0
        return Finding(
            best=other if after > before else lab.baseline,
            baseline_val=before,
            best_val=max(before, after),
            proposals=1,
            sentence="One prompt was tried.",
        )


@ratchet.rollout
def grades_itself(task: dict[str, Any], prompt_template: PromptTemplate) -> float:
    return 1.0 if "good" in prompt_template.format(**task) else 0.25


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RATCHET_STORE", raising=False)


def trainer(**options: Any) -> ratchet.Trainer:
    options.setdefault("algorithm", TryOne())
    options.setdefault("initial_resources", {"prompt_template": "You are a booking assistant."})
    return ratchet.Trainer(progress=False, **options)


def test_the_form_of_the_seeds_runs_and_finds_the_better_prompt() -> None:
    trained = trainer(n_runners=8).fit(
        agent=grades_itself, train_dataset=TASKS[:8], val_dataset=TASKS[8:]
    )
    assert (trained.baseline_val, trained.best_val) == (0.25, 1.0)
    assert str(trained.best["prompt_template"]) == "Be good. {question}"
    assert trained.rollouts == 8


@pytest.mark.parametrize("form", ["train", "both", "later", "oldest"])
def test_a_class_runs_the_method_of_the_split_that_a_task_is_from(form: str) -> None:
    seen: Counter[str] = Counter()

    class Train(ratchet.LitAgent):
        def training_rollout(self, task: Any, resources: Any, rollout: Any) -> float:
            seen["train"] += 1
            return 1.0

        def rollout(self, task: Any, resources: Any, rollout: Any) -> float:
            seen[rollout.mode] += 1
            return 0.5

    class Both(ratchet.LitAgent):
        def rollout(self, task: Any, resources: Any, rollout: Any) -> None:
            seen[rollout.mode] += 1
            ratchet.emit_reward(0.5 if resources["prompt_template"].template else 0.0)

    class Later(ratchet.LitAgent):
        async def rollout_async(self, task: Any, resources: Any, rollout: Any) -> float:
            await asyncio.sleep(0)
            seen[rollout.mode] += 1
            return 0.5

    class Oldest(ratchet.LitAgent):
        def training_rollout(self, task: Any, rollout_id: str, resources: Any) -> float:  # type: ignore[override]
            seen["train"] += 1
            return 0.5

        def validation_rollout(self, task: Any, rollout_id: str, resources: Any) -> float:  # type: ignore[override]
            seen["val"] += 1
            return 0.5

    kind = {"train": Train, "both": Both, "later": Later, "oldest": Oldest}[form]
    trained = trainer().fit(kind(), TASKS[:8], TASKS[8:])
    assert trained.best_val == 0.5
    assert seen == {"val": 8}
    trainer().dev(kind(), TASKS[:8], TASKS[8:], tasks=3)
    assert seen == {"val": 8, "train": 3}


def test_an_agent_gets_the_very_items_of_the_dataset() -> None:
    @dataclasses.dataclass(frozen=True)
    class Question:
        text: str
        answers: tuple[str, ...]

    got: list[Any] = []

    async def agent(task: Question, prompt_template: PromptTemplate) -> float:
        got.append(task)
        return 0.5

    items = [Question(str(n), (f"a{n}",)) for n in range(6)]
    trainer().fit(agent, items)
    assert got
    assert all(any(one is item for item in items) for one in got)


def test_a_second_fit_of_the_same_pays_for_nothing() -> None:
    calls: Counter[str] = Counter()

    def agent(task: Any, prompt_template: PromptTemplate) -> float:
        calls[prompt_template.text] += 1
        return float("good" in prompt_template.text)

    first = trainer().fit(agent, TASKS[:8], TASKS[8:])
    paid = dict(calls)
    second = trainer().fit(agent, TASKS[:8], TASKS[8:])
    assert dict(calls) == paid
    assert second == first
    trainer(seed=1).fit(agent, TASKS[:8], TASKS[8:])
    assert sum(calls.values()) == 2 * sum(paid.values())


def test_an_agent_that_fails_everywhere_is_shown_and_tried_anew_when_mended() -> None:
    broken = True

    def agent(task: Any, prompt_template: PromptTemplate) -> float:
        if broken:
            raise ConnectionError("nobody there")
        return 0.5

    with pytest.raises(AgentError, match="nobody there"):
        trainer().fit(agent, TASKS)
    broken = False
    assert trainer().fit(agent, TASKS).baseline_val == 0.5


def test_an_agent_without_a_reward_is_told_how_to_give_one() -> None:
    def agent(task: Any, prompt_template: PromptTemplate) -> None:
        return None

    with pytest.raises(AgentError, match="gave no reward") as caught:
        trainer().fit(agent, TASKS)
    assert "emit_reward" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agent": "text"}, "a function or a LitAgent, not str"),
        ({"agent": lambda: 1.0}, "takes no task"),
        ({"agent": lambda task, other: 1.0}, "'other'.*names no resource"),
        ({"agent": ratchet.LitAgent}, "the class LitAgent, not an agent"),
        ({"agent": ratchet.LitAgent()}, "does not override a rollout method"),
        ({"train_dataset": []}, "train_dataset is empty"),
        ({"train_dataset": None}, "needs a train_dataset"),
        ({"train_dataset": "tasks.jsonl"}, "a list of tasks, not str"),
        ({"train_dataset": TASKS[:1]}, "none is left for val"),
        ({"val_dataset": TASKS[:3]}, "in both train_dataset and val_dataset"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, Any], said: str) -> None:
    arguments = {"agent": grades_itself, "train_dataset": TASKS, **given}
    with pytest.raises(InputError, match=said):
        trainer().fit(**arguments)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_runners": 0}, "n_runners=0"),
        ({"algorithm": "apo"}, "is not an algorithm"),
        ({"initial_resources": {"prompt_template": 5}}, "is int; expected a string"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        trainer(**options)


def test_without_an_algorithm_or_resources_it_says_what_to_give() -> None:
    with pytest.raises(InputError, match="no algorithm"):
        ratchet.Trainer(progress=False).fit(grades_itself, TASKS)

    def bare(task: Any) -> float:
        return 0.5

    forget()
    with pytest.raises(InputError, match="nothing to improve"):
        trainer(initial_resources={}).fit(bare, TASKS)


async def _within_a_loop() -> None:
    with pytest.raises(InputError, match="fit_async"):
        trainer().fit(grades_itself, TASKS)
    trained = await trainer().fit_async(grades_itself, TASKS)
    assert trained.best_val == 1.0


def test_inside_an_event_loop_there_is_an_async_form() -> None:
    asyncio.run(_within_a_loop())


GUESSING = """
import ratchet


@ratchet.evolve
def guess(number):
    return number + 1


@ratchet.rollout
def guesses(task):
    return 1.0 if guess(task["number"]) == task["number"] + 2 else 0.1
"""


@pytest.fixture
def guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An agent whose source declares a function, and nothing else, that may change."""
    (tmp_path / "guessing_agent.py").write_text(GUESSING)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield importlib.import_module("guessing_agent").guesses
    forget()


def test_code_is_not_improved_in_the_process_of_the_program_unless_somebody_says_so(
    guesses: Any,
) -> None:
    tasks = [{"number": number} for number in range(12)]
    held_back = [{"number": number} for number in range(20, 26)]
    options: dict[str, Any] = {
        "algorithm": ratchet.Evolve(), "initial_resources": None, "max_rollouts": 60
    }  # fmt: skip
    with pytest.raises(InputError, match=r"only code to improve \('guess'\)") as caught:
        trainer(**options).fit(guesses, tasks, held_back)
    assert "unsafe_code=True" in (caught.value.hint or "")
    assert trainer(unsafe_code=True, **options).fit(guesses, tasks, held_back).rollouts > 0


def test_what_the_budget_does_not_reach_for_is_said_before_the_agent_runs() -> None:
    ran = []

    @ratchet.rollout
    def counted(task: dict[str, Any], prompt_template: PromptTemplate) -> float:
        ran.append(task)
        return 0.5

    short = trainer(algorithm=ratchet.FewShot(), max_rollouts=3)
    with pytest.raises(BudgetExhausted, match="does not cover one set"):
        short.fit(counted, TASKS[:8], TASKS[8:])
    assert ran == []
