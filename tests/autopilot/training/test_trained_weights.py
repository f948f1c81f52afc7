"""Trainer with the algorithms that train weights, on a tiny model that is really served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from tests.autopilot.tiny_model import write_tiny_model

import ratchet
from ratchet.bind import forget
from ratchet.models.policy import base
from ratchet.types import Model, RatchetError, trains, unpack_floats, unpack_ids
from ratchet.worker.lit_agent import RolloutInfo

pytestmark = pytest.mark.torch

TRAIN = [f"train {number}" for number in range(4)]
VAL = ["val 0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a context of 1024 tokens."""
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"))
    config = folder / "config.json"
    given = json.loads(config.read_text())
    config.write_text(json.dumps({**given, "max_position_embeddings": 1024}))
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RATCHET_STORE", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def reward_of(text: str) -> float:
    """Share of the characters with an odd code."""
    return sum(ord(letter) % 2 for letter in text) / (len(text) or 1)


def asked(task: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": task}], "max_tokens": 6}


def in_plain_python(task: str, llm: Model) -> float:
    with OpenAI(base_url=llm.base_url, api_key="any") as client:
        answer = client.chat.completions.create(model=llm.model, **asked(task))
    return reward_of(answer.choices[0].message.content or "")


class AsAClass(ratchet.LitAgent):
    async def rollout_async(self, task: str, resources: Any, rollout: Any) -> float:
        llm = resources["llm"]
        async with AsyncOpenAI(base_url=llm.base_url, api_key="any") as client:
            answer = await client.chat.completions.create(model=llm.model, **asked(task))
        return reward_of(answer.choices[0].message.content or "")


def trainer(algorithm: Any, model: Path | str, **options: Any) -> ratchet.Trainer:
    name = f"local:{model}" if isinstance(model, Path) else model
    given = {"initial_resources": {"llm": ratchet.Model(name)}, **options}
    return ratchet.Trainer(algorithm=algorithm, progress=False, **given)


FEW: dict[str, Any] = {"steps": 2, "tasks": 2, "learning_rate": 5e-2, "rank": 2, "staleness": 0}


@pytest.mark.parametrize(
    ("agent", "algorithm"),
    [
        (in_plain_python, lambda: ratchet.GRPO(repetitions=4, **FEW)),
        (AsAClass(), lambda: ratchet.PPO(repetitions=4, **FEW)),
    ],
)
def test_a_model_is_trained_on_the_calls_of_an_agent_in_this_process(
    agent: Any, algorithm: Any, folder: Path
) -> None:
    trained = trainer(algorithm(), folder, n_runners=8).fit(agent, TRAIN, VAL)
    llm = trained.best["llm"]
    assert isinstance(llm, Model)
    assert llm.base_url is None
    tokenizer = base.load_base(folder).tokenizer
    with ratchet.Store.open("sqlite:///.ratchet/ratchet.db") as store:
        rollouts, _ = store.rollouts.list(limit=1000)
        learned = [one for one in rollouts if trains(one.purpose)]
        transitions = store.transitions.of([one.id for one in learned])
    assert len(learned) == 2 * 2 * 4
    for rollout in learned:
        (call,) = transitions[rollout.id]
        prompt = tokenizer.decode(unpack_ids(call.prompt_ids))
        assert f"<|user|>{rollout.input}<" in prompt  # rollouts at once did not mix
        assert len(unpack_ids(call.response_ids)) == len(unpack_floats(call.logprobs)) > 0
    versions = {call.version_first for (call,) in transitions.values()}
    assert len(versions) == 2  # the base, and the weights after the first step
    assert trained.rollouts >= len(learned)


def test_a_fit_that_is_repeated_runs_nothing_again(folder: Path) -> None:
    called: list[str] = []

    def agent(task: str, llm: Model) -> float:
        called.append(task)
        return in_plain_python(task, llm)

    form = trainer(ratchet.GRPO(repetitions=4, **FEW), folder)
    first = form.fit(agent, TRAIN, VAL)
    before = len(called)
    second = form.fit(agent, TRAIN, VAL)
    assert len(called) == before > 0
    assert (second.candidate_id, second.best_val) == (first.candidate_id, first.best_val)


def until_it_ends(task: str, llm: Model, rollout: RolloutInfo) -> float:
    with OpenAI(base_url=llm.base_url, api_key="any") as client:
        given = {**asked(task), "max_tokens": 150, "seed": rollout.seed % 2**31}
        answer = client.chat.completions.create(model=llm.model, **given)
    return reward_of(answer.choices[0].message.content or "")


@pytest.mark.parametrize("algorithm", [ratchet.SFT, ratchet.DPO])
def test_a_model_learns_from_answers_that_earned_more(algorithm: Any, folder: Path) -> None:
    how = {"min_score": 0.0} if algorithm is ratchet.SFT else {"repetitions": 2, "gap": 1e-6}
    made = algorithm(epochs=2, batch=2, learning_rate=1e-2, rank=2, **how)
    tasks = [f"train {number}" for number in range(8)]
    trained = trainer(made, folder).fit(until_it_ends, tasks, VAL)
    assert list(Path(".ratchet/training").glob("*/metrics.jsonl"))
    assert trained.best_val >= trained.baseline_val


def test_a_declared_model_is_trained(folder: Path) -> None:
    declared = ratchet.model("declared", "local")

    def agent(task: str) -> float:
        assert declared.base_url
        return in_plain_python(task, declared.bound)

    form = trainer(ratchet.SFT(), folder, initial_resources={"declared": Model(f"local:{folder}")})
    try:
        assert 0.0 <= form.dev(agent, TRAIN, VAL) <= 1.0
    finally:
        forget()


def test_an_agent_that_calls_the_model_elsewhere_teaches_nothing(folder: Path) -> None:
    def agent(task: str, llm: Model) -> float:
        return float(task[-1])

    with pytest.raises(RatchetError, match="No tokens of model calls were kept") as refused:
        trainer(ratchet.GRPO(**FEW), folder).fit(agent, TRAIN, VAL)
    assert "base_url" in refused.value.hint


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("gpt-5-mini", {}, "trains a model on this machine, which 'gpt-5-mini' is not"),
        ("local", {"initial_resources": {"llm": "A prompt."}}, "the agent has none"),
        ("local:nowhere", {}, "There is no model 'nowhere'"),
        ("local", {"store": "memory"}, "keeps nothing"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_runs(
    model: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RatchetError, match=sentence):
        trainer(ratchet.GRPO(), model, **options).fit(lambda task, llm: 1.0, TRAIN, VAL)


def test_the_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(RatchetError, match="need the package torch") as refused:
        trainer(ratchet.GRPO(), folder).fit(in_plain_python, TRAIN, VAL)
    assert "pip install 'agent-ratchet[train]'" in refused.value.hint
