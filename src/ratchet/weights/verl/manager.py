"""verl's agent-loop manager: Ratchet's runner makes its rollouts, with an unchanged agent.

verl's trainer hands over prompts and reads rows from its TransferQueue. In between, the agent runs
as it always does: it calls a model at the gateway, which passes the calls on to verl's own vLLM or
SGLang servers and keeps the tokens that they read and wrote.

Written against verl 0.9.1 (`trainer.use_v1=true`); the fields of a row are those of its
`AgentLoopWorkerTQ`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec
import torch
import transfer_queue as tq  # type: ignore[import-not-found]
from verl.utils.tensordict_utils import (  # type: ignore[import-not-found]
    list_of_dict_to_tensordict,
)

from ratchet.types import InputError, RatchetError, Task
from ratchet.weights.sampler import GradedRollout
from ratchet.weights.verl.rows import Credit, VerlRow, encode_index, group_rows

SAMPLER, CREDIT = "RATCHET_VERL_SAMPLER", "RATCHET_VERL_CREDIT"
"""Environment variables: `module:function` that opens the sampler; and the fields of `Credit` as
JSON."""

OPEN_TIMEOUT_S = 300.0
"""Seconds that opening the sampler may take."""

_log = logging.getLogger(__name__)


class TaskSampler(Protocol):
    """Makes rollouts of an agent with the weights that verl's servers have."""

    def task(self, id: str) -> Task:
        """The task of a row of the dataset.

        Raises:
            InputError: There is none.
        """
        ...

    async def rollouts(
        self, task: Task, repetitions: int, *, step: int, validate: bool
    ) -> list[GradedRollout]:
        """Roll out a task.

        Args:
            task: The task.
            repetitions: Rollouts.
            step: verl's global step; the weights differ from the step before.
            validate: Whether they are for a validation.
        """
        ...


OpenSampler = Callable[[Sequence[str], str], AbstractAsyncContextManager[TaskSampler]]
"""Opens a sampler from the addresses (host:port) of the model's servers and the model's name."""


class Manager:
    """Makes the rollouts that verl's trainer requests.

    Args:
        config: verl's whole configuration.
        addresses: Of the servers, as host:port.
        vocabulary: Size of the model's vocabulary.
    """

    def __init__(self, config: Any, addresses: Sequence[str], vocabulary: int) -> None:
        self._rollout = config.actor_rollout_ref.rollout
        self._vocabulary = vocabulary
        self._credit = msgspec.json.decode(os.environ.get(CREDIT, "{}"), type=dict[str, Any])
        self._loop = asyncio.new_event_loop()
        self._latest = 0
        self._groups: set[asyncio.Task[None]] = set()
        self._closing: AbstractAsyncContextManager[TaskSampler]
        threading.Thread(target=self._loop.run_forever, name="ratchet-verl", daemon=True).start()
        opened = asyncio.run_coroutine_threadsafe(
            self._open(addresses, str(config.actor_rollout_ref.model.path)), self._loop
        )
        self._sampler = opened.result(OPEN_TIMEOUT_S)

    @classmethod
    def create(
        cls,
        config: Any,
        llm_client: Any,
        teacher_client: Any = None,
        reward_loop_worker_handles: Any = None,
    ) -> Manager:
        """Called by verl's task runner.

        Raises:
            InputError: RATCHET_VERL_SAMPLER names no function.
        """
        import ray
        from transformers import AutoConfig

        del teacher_client, reward_loop_worker_handles  # rewards come with the rollouts
        model = AutoConfig.from_pretrained(config.actor_rollout_ref.model.path)
        # verl has no public way from a client to the addresses that its load balancer knows.
        servers = ray.get(llm_client._load_balancer.get_all_servers.remote())
        return cls(config, servers, int(model.vocab_size))

    def generate_sequences(self, prompts: Any) -> None:
        """Begin the rollouts of a batch, and return at once.

        Args:
            prompts: A TensorDict: `uid`, `global_steps`, `extra_info` with the `task_id`, and
                further columns of the dataset, which go with the rows.
        """
        validate = bool(_plain(prompts["validate"])) if "validate" in prompts else False
        for i in range(len(prompts)):
            columns = {key: _item(prompts.get(key), i) for key in prompts.keys()}  # noqa: SIM118
            columns.pop("validate", None)
            self._latest = max(self._latest, int(columns["global_steps"]))
            asyncio.run_coroutine_threadsafe(self._start(columns, validate), self._loop)

    def close(self) -> None:
        """Cancel what is still running, and close the sampler."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(OPEN_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _open(self, addresses: Sequence[str], model: str) -> TaskSampler:
        self._closing = _opener()(addresses, model)
        return await self._closing.__aenter__()

    async def _close(self) -> None:
        for group in self._groups:
            group.cancel()
        await asyncio.gather(*self._groups, return_exceptions=True)
        await self._closing.__aexit__(None, None, None)

    async def _start(self, columns: dict[str, Any], validate: bool) -> None:
        group = asyncio.create_task(self._group(columns, validate))
        self._groups.add(group)
        group.add_done_callback(self._groups.discard)

    async def _group(self, columns: dict[str, Any], validate: bool) -> None:
        """Run all rollouts of a prompt, store their rows, and set the status that verl reads."""
        uid, partition = str(columns["uid"]), "val" if validate else "train"
        await self._status(uid, partition, "running")
        try:
            rows = await self._rows(columns, validate)
            if not any(rows):
                raise RatchetError("No rollout had both a reward and a model call.")
            await asyncio.to_thread(self._put, rows, columns, uid, partition)
        except Exception as error:
            _log.exception("The rollouts of prompt %s failed: %s", uid, error)
            await self._status(uid, partition, "failure")
        else:
            await self._status(uid, partition, "finished")

    async def _rows(self, columns: dict[str, Any], validate: bool) -> list[list[VerlRow]]:
        count = self._rollout.val_kwargs.n if validate else self._rollout.n
        group = await self._sampler.rollouts(
            self._sampler.task(str(columns["extra_info"]["task_id"])),
            int(columns.get("__rollout_n__", count)),
            step=int(columns["global_steps"]),
            validate=validate,
        )
        return group_rows(group, vocabulary=self._vocabulary, credit=Credit(**self._credit))

    def _put(
        self, rows: list[list[VerlRow]], columns: dict[str, Any], uid: str, partition: str
    ) -> None:
        keys, fields, tags = [], [], []
        steps = {"min_global_steps": int(columns["global_steps"]), "max_global_steps": self._latest}
        for session, row, i in (
            (session, row, i) for session, of in enumerate(rows) for i, row in enumerate(of)
        ):
            keys.append(f"{uid}_{session}_{i}")
            # In validation verl groups rows by their uid; no advantage is estimated there.
            index = encode_index(uid, row) if partition == "train" else uid
            fields.append({**columns, **_fields(row, steps), "uid": index, "session_id": session})
            tags.append(
                {
                    "status": "success",
                    "prompt_len": len(row.prompt),
                    "response_len": len(row.response),
                    "seq_len": len(row.prompt) + len(row.response),
                    "global_steps": int(columns["global_steps"]),
                    **steps,
                }
            )
        tq.kv_batch_put(
            keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id=partition
        )

    async def _status(self, uid: str, partition: str, status: str) -> None:
        await asyncio.to_thread(tq.kv_put, key=uid, partition_id=partition, tag={"status": status})


def _fields(row: VerlRow, steps: dict[str, int]) -> dict[str, Any]:
    """The columns of a row, as verl's workers name them."""
    prompt, response = torch.from_numpy(row.prompt), torch.from_numpy(row.response)
    mask = torch.from_numpy(row.mask)
    rewards = torch.zeros(len(row.response))
    rewards[-1] = row.reward
    return {
        "prompts": prompt,
        "responses": response,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": torch.cat([prompt, response]),
        "position_ids": torch.arange(len(row.prompt) + len(row.response)),
        "rollout_log_probs": torch.from_numpy(row.logprobs),
        "rm_scores": rewards,
        "num_turns": row.calls,
        "multi_modal_inputs": {},
        "metrics": {},
        "extra_fields": {**steps, "reward_extra_info": {}},
    }


def _opener() -> OpenSampler:
    name = os.environ.get(SAMPLER, "")
    module, _, function = name.partition(":")
    try:
        opener: OpenSampler = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{SAMPLER}={name!r} does not name a function: {error}.",
            hint="Write it as module:function, such as my_agent.training:open_sampler.",
        ) from None
    return opener


def _item(column: Any, i: int) -> Any:
    """Row i of a column of a TensorDict, whatever its kind."""
    if isinstance(column, torch.Tensor):
        return column[i]
    data = getattr(column, "data", column)
    if type(column).__name__ == "NonTensorData":
        return data
    return _plain(column[i])


def _plain(value: Any) -> Any:
    """The value in a NonTensorData."""
    return getattr(value, "data", value)
