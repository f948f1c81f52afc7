"""Training runs: what they learn, and that a killed one ends as it would have."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ratchet.models.policy import adapter_hash  # noqa: E402
from ratchet.types import ConfigError, Conflict, InputError, RatchetError, StoreError  # noqa: E402
from ratchet.weights.dpo import Preferences  # noqa: E402
from ratchet.weights.examples import PreferencePair, TokenExample  # noqa: E402
from ratchet.weights.grpo import GroupRelative  # noqa: E402
from ratchet.weights.learner import Learner  # noqa: E402
from ratchet.weights.metrics import read_metrics  # noqa: E402
from ratchet.weights.ppo import ActorCritic  # noqa: E402
from ratchet.weights.run import TRAIN_TRANSITIONS, TrainingResult, TrainingRun  # noqa: E402
from ratchet.weights.sampler import GradedRollout  # noqa: E402
from ratchet.weights.settings import (  # noqa: E402
    DPO,
    GRPO,
    PPO,
    SFT,
    LoRA,
    Optimizer,
    PolicyLoss,
    Schedule,
)
from ratchet.weights.sft import Imitation  # noqa: E402
from tests.weights.tiny import TinySampler, call_of, tiny_base, tiny_tasks  # noqa: E402

pytestmark = pytest.mark.torch

FAST = Optimizer(learning_rate=0.03)


def grpo(steps: int = 3, **more: Any) -> GRPO:
    schedule = Schedule(steps=steps, validate_every=2, **more.pop("schedule", {}))
    return GRPO(**{"schedule": schedule, "optimizer": FAST, "tasks": 2, "repetitions": 3} | more)


def run_of(folder: Path, settings: Any, **more: Any) -> TrainingRun:
    sampler = more.pop("sampler", None) or TinySampler()
    learner = Learner(
        tiny_base(),
        lora=LoRA(rank=4),
        optimizer=settings.optimizer,
        critic_learning_rate=getattr(settings, "critic_learning_rate", None),
    )
    kind = ActorCritic if isinstance(settings, PPO) else GroupRelative
    method = kind(settings, sampler, tiny_tasks(5), more.pop("val", tiny_tasks(7)[5:]))
    return TrainingRun(folder, learner, method, **more)


def finish(run: TrainingRun) -> TrainingResult:
    return asyncio.run(run.run())


def last_weights(folder: Path) -> bytes:
    (checkpoint,) = (folder / "checkpoints").iterdir()
    return (checkpoint / "adapter_model.safetensors").read_bytes()


class Killed(BaseException):
    """Ends a run as a signal would."""


def states_of(folder: Path, settings: Any) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    finish(run_of(folder, settings, on_state=lambda state, step: seen.append((state, step))))
    return seen


@pytest.mark.parametrize("settings", [grpo(2), grpo(2, staleness=0, mini_batches=2)])
def test_a_run_killed_in_any_state_ends_with_the_same_weights(
    tmp_path: Path, settings: GRPO
) -> None:
    states = states_of(tmp_path / "through", settings)
    for i, place in enumerate(states):
        folder = tmp_path / str(i)

        def kill(state: str, step: int, place: tuple[str, int] = place) -> None:
            if (state, step) == place:
                raise Killed

        with pytest.raises(Killed):
            finish(run_of(folder, settings, on_state=kill))
        finish(run_of(folder, settings))
        assert last_weights(folder) == last_weights(tmp_path / "through"), place
    assert {state for state, _ in states} == set(TRAIN_TRANSITIONS) - {"stopped"}


def test_a_run_ended_by_sigkill_ends_with_the_same_weights(tmp_path: Path) -> None:
    place = "save 2"
    code = (
        "import sys; from pathlib import Path; from tests.weights import test_run as t;"
        "t.run_and_die(Path(sys.argv[1]), sys.argv[2])"
    )
    folder = tmp_path / "killed"
    died = subprocess.run([sys.executable, "-c", code, str(folder), place], capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    finish(run_of(folder, grpo()))
    finish(run_of(tmp_path / "through", grpo()))
    assert last_weights(folder) == last_weights(tmp_path / "through")


def run_and_die(folder: Path, place: str) -> None:
    def die(state: str, step: int) -> None:
        if f"{state} {step}" == place:
            os.kill(os.getpid(), signal.SIGKILL)

    finish(run_of(folder, grpo(), on_state=die))


def test_rollouts_of_the_next_step_are_made_by_weights_one_step_behind(tmp_path: Path) -> None:
    sampler = TinySampler()
    finish(run_of(tmp_path, grpo(4), sampler=sampler))
    assert [asked for asked in sampler.asked if asked[0].startswith("train")] == [
        ("train-00000", None),
        ("train-00001", None),
        ("train-00002", "000001"),
        ("train-00003", "000002"),
    ]
    lags = [record["staleness_max"] for record in read_metrics(tmp_path) if "loss" in record]
    assert lags == [0, 1, 1, 1]


def test_the_next_batch_is_sampled_while_this_one_trains(tmp_path: Path) -> None:
    begun: list[str] = []

    class Overlapping(TinySampler):
        async def collect(self, *arguments: Any, batch: str) -> Any:
            begun.append(batch)
            return await super().collect(*arguments, batch=batch)

    def note(state: str, step: int) -> None:
        begun.append(f"{state} {step}")

    finish(run_of(tmp_path, grpo(2), sampler=Overlapping(), on_state=note))
    assert begun.index("train-00001") < begun.index("train 0")


@pytest.mark.parametrize(
    "settings",
    [
        grpo(25, repetitions=8, tasks=4, schedule={"save_every": 50}),
        grpo(25, repetitions=8, tasks=4, loss=PolicyLoss(name="cispo")),
        PPO(
            schedule=Schedule(steps=16, validate_every=50, save_every=50),
            optimizer=FAST,
            tasks=5,
            repetitions=6,
        ),
    ],
)
def test_the_reward_rises(tmp_path: Path, settings: GRPO | PPO) -> None:
    finish(run_of(tmp_path, settings, val=[]))
    rewards = [record["reward"] for record in read_metrics(tmp_path) if "reward" in record]
    assert np.mean(rewards[-4:]) > np.mean(rewards[:4]) + 0.2, rewards


def test_the_trainer_gives_tokens_the_probability_that_the_sampler_gave(tmp_path: Path) -> None:
    finish(run_of(tmp_path, grpo(3, staleness=0)))
    records = [record for record in read_metrics(tmp_path) if "gap" in record]
    assert max(record["gap"] for record in records) < 1e-5
    assert all(record["ratio"] == pytest.approx(1.0) for record in records)


def test_the_best_weights_on_val_are_the_result(tmp_path: Path) -> None:
    def reward(name: str, ids: Any) -> float:
        if name.startswith("val"):
            return {"val-00000": 0.1, "val-00002": 0.9}.get(name.split("/")[0], 0.5)
        return sum(ids) % 5 / 4

    result = finish(run_of(tmp_path, grpo(4), sampler=TinySampler(reward=reward)))
    assert (result.step, result.steps) == (2, 4)
    assert result.first is not None
    assert result.best is not None
    assert (result.first.value, result.best.value) == pytest.approx((0.1, 0.9))
    assert adapter_hash(result.adapter)
    assert "step 2 is the best on val: 0.1 → 0.9" in result.sentence


def test_rewards_that_are_not_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    def reward(name: str, ids: Any) -> float:
        return math.nan if name.endswith("/0") else sum(ids) % 5 / 4

    result = finish(run_of(tmp_path, grpo(2), sampler=TinySampler(reward=reward), val=[]))
    assert result.state == "done"
    found = [r["excluded_rollouts"] for r in read_metrics(tmp_path) if "excluded_rollouts" in r]
    assert found == [2, 2]


def test_a_sampler_that_serves_other_weights_is_found_out(tmp_path: Path) -> None:
    class Stuck(TinySampler):
        async def collect(self, adapter: Path | None, *arguments: Any, batch: str) -> Any:
            return await super().collect(None, *arguments, batch=batch)

    with pytest.raises(RatchetError, match="answered by the weights of step 0"):
        finish(run_of(tmp_path, grpo(4), sampler=Stuck()))
    foreign = TinySampler(seed=1)
    with pytest.raises(RatchetError, match="answered by other weights"):
        finish(run_of(tmp_path / "foreign", grpo(), sampler=foreign))


def test_a_sampler_of_another_model_that_states_no_version_stops_training(tmp_path: Path) -> None:
    class Wrong(TinySampler):
        async def collect(self, *arguments: Any, batch: str) -> Any:
            found = await super().collect(*arguments, batch=batch)
            return [
                type(r)(
                    rollout_id=r.rollout_id,
                    task_id=r.task_id,
                    reward=r.reward,
                    transitions=tuple(
                        type(call)(**{**_fields(call), "logprobs": b"\0\0\0\xc2" * 3})
                        for call in r.transitions
                    ),
                )
                for r in found
            ]

    sampler = Wrong(states_version=False)
    result = finish(run_of(tmp_path, grpo(), sampler=sampler))
    assert result.state == "stopped"
    assert "Trainer and sampler give the same tokens probabilities that differ" in result.sentence


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_a_full_disk_keeps_the_last_checkpoint_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    save = Learner.save

    def fills_the_disk(self: Learner, folder: Path) -> None:
        if full and folder.name.startswith("000002"):
            (folder / "half").write_bytes(b"half a file")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(self, folder)

    monkeypatch.setattr(Learner, "save", fills_the_disk)
    with pytest.raises(StoreError, match=r"No space left.*Anything saved earlier is unchanged"):
        finish(run_of(tmp_path / "full", grpo()))
    assert [path.name for path in (tmp_path / "full" / "checkpoints").iterdir()] == ["000001"]
    full = False
    finish(run_of(tmp_path / "full", grpo()))
    finish(run_of(tmp_path / "through", grpo()))
    assert last_weights(tmp_path / "full") == last_weights(tmp_path / "through")


def test_a_run_begun_with_other_settings_is_not_continued(tmp_path: Path) -> None:
    finish(run_of(tmp_path, grpo()))
    with pytest.raises(ConfigError, match="begun with another discount"):
        finish(run_of(tmp_path, grpo(discount=0.5)))


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    class Second(TinySampler):
        async def collect(self, *arguments: Any, batch: str) -> Any:
            await run_of(tmp_path, grpo()).run()

    with pytest.raises(Conflict, match="Training in"):
        finish(run_of(tmp_path, grpo(), sampler=Second()))


EXAMPLES = [TokenExample([1, 12 + i, 2, 4, 5], [False] * 3 + [True] * 2) for i in range(6)]
PAIRS = [
    PreferencePair(good, TokenExample([*good.ids[:3], 20, 21], good.mask)) for good in EXAMPLES
]


def learned(folder: Path, settings: SFT | DPO, data: Any, **more: Any) -> TrainingResult:
    learner = Learner(tiny_base(), lora=LoRA(rank=4), optimizer=settings.optimizer)
    kind: Any = Imitation if isinstance(settings, SFT) else Preferences
    return finish(TrainingRun(folder, learner, kind(settings, data[:5], data[5:]), **more))


@pytest.mark.parametrize(
    ("settings", "data"),
    [
        (SFT(schedule=Schedule(steps=20, save_every=4), optimizer=FAST, batch=2), EXAMPLES),
        (DPO(schedule=Schedule(steps=20, save_every=4), optimizer=FAST, batch=2), PAIRS),
        (DPO(schedule=Schedule(steps=20, save_every=4), optimizer=FAST, batch=2, nll=1.0), PAIRS),
    ],
)
def test_examples_and_preferences_lower_the_held_out_loss_also_after_a_kill(
    tmp_path: Path, settings: SFT | DPO, data: Any
) -> None:
    result = learned(tmp_path / "through", settings, data)
    assert result.first is not None
    assert result.best is not None
    assert result.best.value > result.first.value

    def kill(state: str, step: int) -> None:
        if (state, step) == ("train", 14):
            raise Killed

    with pytest.raises(Killed):
        learned(tmp_path / "killed", settings, data, on_state=kill)
    learned(tmp_path / "killed", settings, data)
    assert last_weights(tmp_path / "killed") == last_weights(tmp_path / "through")


def test_with_its_own_likelihood_in_the_loss_the_better_answer_becomes_likely(
    tmp_path: Path,
) -> None:
    chosen = [pair.chosen for pair in PAIRS[:5]]

    def likely_after(nll: float) -> float:
        schedule = Schedule(steps=20, save_every=20)
        settings = DPO(schedule=schedule, optimizer=FAST, batch=5, nll=nll)
        learner = Learner(tiny_base(), lora=LoRA(rank=4), optimizer=settings.optimizer)
        finish(TrainingRun(tmp_path / str(nll), learner, Preferences(settings, PAIRS[:5], [])))
        return float(np.mean([one.mean() for one in learner.evaluate(chosen).logprobs]))

    assert likely_after(1.0) > likely_after(0.0) + 0.3  # nats a token


def test_a_loss_that_explodes_stops_training_and_keeps_the_best(tmp_path: Path) -> None:
    settings = SFT(
        schedule=Schedule(steps=50, validate_every=1), optimizer=Optimizer(learning_rate=1e30)
    )
    result = learned(tmp_path, settings, EXAMPLES)
    assert result.state == "stopped"
    assert "Lower learning_rate" in result.sentence
    assert result.best is not None
    assert result.first is not None
    assert result.best.value >= result.first.value


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (TokenExample([1, 99], [False, True]), "Example 0 has token 99"),
        (TokenExample([1, 2], [False, False]), "Example 0 must mark a token to learn"),
        (TokenExample([1, 2], [True, True]), "Example 0 must mark a token to learn"),
        (TokenExample([1, 2], [True]), "but its mask has 1"),
        (TokenExample([1] * 200, [False] * 199 + [True]), "200 tokens; the context of tiny-0"),
    ],
)
def test_an_example_that_cannot_be_learned_is_named(
    tmp_path: Path, example: TokenExample, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        learned(tmp_path, SFT(schedule=Schedule(steps=1), batch=1), [example])


@pytest.mark.parametrize("name", ["token_mean", "rollout_mean", "constant", "sequence", "cispo"])
def test_a_group_that_teaches_nothing_still_counts_in_the_mean(name: Any) -> None:
    def norm(*also: float) -> float:
        learner = Learner(tiny_base(), lora=LoRA(rank=4), optimizer=FAST)
        settings = grpo(loss=PolicyLoss(name=name, max_weight=None))
        method = GroupRelative(settings, TinySampler(), tiny_tasks(2), [])
        batch = [
            rollout_of(learner, f"{task}-{i}", task, reward, [5 + i, 6 + i])
            for task, rewards in (("varied", (0.0, 1.0)), ("equal", also))
            for i, reward in enumerate(rewards)
        ]
        return float(method.train(learner, batch, 0, {})["gradient_norm"])

    assert norm(0.5, 0.5) == pytest.approx(norm() / 2, rel=1e-4)


def rollout_of(
    learner: Learner, name: str, task: str, reward: float, response: list[int]
) -> GradedRollout:
    """A rollout of one call, with the log-probabilities that the learner gives its tokens."""
    ids = [1, 2, *response]
    row = TokenExample(ids, [False, False, True, True])
    call = call_of(name, 0, ids[:2], response, learner.evaluate([row]).logprobs[0])
    return GradedRollout(rollout_id=name, task_id=task, reward=reward, transitions=(call,))
