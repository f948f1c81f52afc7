"""The manager against verl's own queue, replay buffer and advantage code, on CPU.

verl's workers need GPUs, and are not part of it. `make test-verl` makes the environment.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.autopilot.tiny_model import write_tiny_model

pytestmark = pytest.mark.verl

VOCABULARY = 257


@pytest.fixture(scope="module")
def queue() -> Iterator[Any]:
    """verl's TransferQueue on a local Ray."""
    import ray
    import transfer_queue as tq

    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)
    tq.init()
    yield tq
    ray.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from ratchet.models.policy import PolicyServer

    folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "model")
    with PolicyServer(str(folder), threads=1, require_key=False) as server:
        yield server


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    from omegaconf import OmegaConf

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RATCHET_VERL_SAMPLER", "tests.weights.verl.agent:open_sampler")
    return OmegaConf.create(
        {
            "actor_rollout_ref": {
                "rollout": {"n": 3, "val_kwargs": {"n": 1}},
                "model": {"path": "local/model"},
            }
        }
    )


def _address(server: Any) -> str:
    return str(server.base_url).removeprefix("http://").removesuffix("/v1")


def _prompts(tq: Any, task_ids: list[str], *, validate: bool = False, step: int = 1) -> Any:
    """A batch as verl's trainer submits it."""
    import numpy as np
    from verl.utils import tensordict_utils as tu  # type: ignore[import-not-found]

    def column(values: list[Any]) -> Any:
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made

    batch = tu.get_tensordict(
        {
            "raw_prompt": column([[{"role": "user", "content": "x"}] for _ in task_ids]),
            "extra_info": column([{"task_id": id} for id in task_ids]),
            "index": column(list(range(len(task_ids)))),
            "uid": column([str(uuid.uuid4()) for _ in task_ids]),
        }
    )
    tu.assign_non_tensor_data(batch, "global_steps", step)
    if validate:
        tu.assign_non_tensor_data(batch, "validate", True)
    marks = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in task_ids]
    partition = "val" if validate else "train"
    tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=marks)
    return batch


def _sampled(partition: str, count: int) -> Any:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer  # type: ignore[import-not-found]

    empty = OmegaConf.create({})
    buffer = ReplayBuffer("sync", empty, None, "drop", empty, poll_interval=0.05)
    batch, _ = buffer.sample(global_steps=1, partition_id=partition, batch_size=count)
    return batch


def _clear(tq: Any, partition: str) -> None:
    if keys := list((tq.kv_list(partition) or {}).get(partition, {})):
        tq.kv_clear(keys=keys, partition_id=partition)


def _with_advantages(tq: Any, batch: Any) -> Any:
    """As verl's trainer computes them."""
    import numpy as np
    from verl.protocol import DataProto  # type: ignore[import-not-found]
    from verl.trainer.ppo.v1.utils import (  # type: ignore[import-not-found]
        compute_advantage_for_multi_trajectories,
    )

    import ratchet.weights.verl.estimator  # noqa: F401 - registers the estimator

    columns = ["uid", "response_mask", "rm_scores", "rollout_log_probs", "responses"]
    found = tq.kv_batch_get(batch.keys, batch.partition_id, select_fields=columns)
    data = DataProto(batch=found.to_padded_tensor())
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    data.non_tensor_batch["uid"] = np.array(data.batch.pop("uid").tolist(), dtype=object)
    return compute_advantage_for_multi_trajectories(
        data, batch_keys=batch.keys, adv_estimator="ratchet"
    )


def test_rows_of_an_unchanged_agent_reach_the_replay_buffer_with_their_advantages(
    queue: Any, model: Any, settings: Any
) -> None:
    from ratchet.weights.verl.manager import Manager
    from tests.weights.verl.agent import open_sampler

    ids = [task.id for task in open_sampler._items.train]
    manager = Manager(settings, [_address(model), _address(model)], VOCABULARY)
    prompts = _prompts(queue, ids)
    try:
        manager.generate_sequences(prompts)
        batch = _sampled("train", len(ids))
        assert len({key.rsplit("_", 1)[0] for key in batch.keys}) == 3 * len(ids)
        data = _with_advantages(queue, batch)
    finally:
        manager.close()
        _clear(queue, "train")
    advantages, mask = data.batch["advantages"], data.batch["response_mask"]
    assert (advantages[mask == 0] == 0).all()
    assert (data.batch["rollout_log_probs"][mask == 1] < 0).all()
    rewards = data.batch["rm_scores"].sum(1)
    for uid in {key.split("_")[0] for key in batch.keys}:
        rows = [i for i, key in enumerate(batch.keys) if key.startswith(uid)]
        by_rollout = {batch.keys[i].rsplit("_", 1)[0]: float(rewards[i]) for i in rows}
        mean = sum(by_rollout.values()) / len(by_rollout)
        for i in rows:
            expected = by_rollout[batch.keys[i].rsplit("_", 1)[0]] - mean
            assert advantages[i][mask[i] == 1].tolist() == pytest.approx(
                [expected] * int(mask[i].sum()), abs=1e-5
            )
    assert len({round(float(value), 3) for value in rewards}) > 1, "the test would prove nothing"


def test_a_validation_keeps_the_uid_that_verl_groups_by(
    queue: Any, model: Any, settings: Any
) -> None:
    from ratchet.weights.verl.manager import Manager
    from tests.weights.verl.agent import open_sampler

    manager = Manager(settings, [_address(model)], VOCABULARY)
    prompts = _prompts(queue, [task.id for task in open_sampler._items.val], validate=True)
    uid = str(prompts["uid"][0])
    try:
        manager.generate_sequences(prompts)
        batch = _sampled("val", 1)
        found = queue.kv_batch_get(batch.keys, "val", select_fields=["uid", "rm_scores"])
        assert set(found.pop("uid").tolist()) == {uid}
    finally:
        manager.close()
        _clear(queue, "val")


def test_a_group_whose_rollouts_all_fail_is_a_failure_and_the_others_go_on(
    queue: Any, model: Any, settings: Any
) -> None:
    from ratchet.weights.verl.manager import Manager
    from tests.weights.verl.agent import open_sampler

    known = open_sampler._items.train[0].id
    manager = Manager(settings, [_address(model)], VOCABULARY)
    prompts = _prompts(queue, [known, "no such task"])
    good, bad = (str(uid) for uid in prompts["uid"])
    try:
        manager.generate_sequences(prompts)
        batch = _sampled("train", 2)  # verl takes failed groups too, which have no rows
        assert {key.split("_")[0] for key in batch.keys} == {good}
        assert bad not in {key.split("_")[0] for key in batch.keys}
    finally:
        manager.close()
        _clear(queue, "train")


def test_a_sampler_that_is_not_named_is_a_sentence(
    queue: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratchet.types import InputError
    from ratchet.weights.verl.manager import Manager

    monkeypatch.setenv("RATCHET_VERL_SAMPLER", "nowhere")
    with pytest.raises(InputError, match="RATCHET_VERL_SAMPLER='nowhere' names no function"):
        Manager(settings, ["127.0.0.1:1"], VOCABULARY)


def test_every_setting_of_the_launcher_is_one_of_verls(tmp_path: Path) -> None:
    import verl.trainer
    from hydra import compose, initialize_config_dir

    from ratchet.weights.verl.launch import MANAGER, overrides

    folder = Path(verl.trainer.__file__).parent / "config"
    made = overrides("model", tmp_path / "train.parquet", tmp_path / "val.parquet")
    with initialize_config_dir(str(folder), version_base=None):
        config = compose("ppo_trainer", overrides=made)  # an unknown key is an error
    assert config.actor_rollout_ref.rollout.agent.agent_loop_manager_class == MANAGER
    assert config.trainer.use_v1 is True


def test_data_sets_name_tasks_that_the_sampler_knows(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from tests.weights.verl.agent import open_sampler

    train, val = open_sampler.write_tasks(tmp_path)
    rows = [*pq.read_table(train).to_pylist(), *pq.read_table(val).to_pylist()]
    items = open_sampler._items
    assert [row["extra_info"]["task_id"] for row in rows] == [
        task.id for task in (*items.train, *items.val)
    ]
    assert rows[0]["prompt"] == [{"role": "user", "content": str(items.train[0].input)}]
