"""Rollouts of an agent for verl: the sampler that `ratchet.weights.verl.manager` opens.

```python
# my_agent/training.py
from ratchet.server.verl import VerlRollouts

open_sampler = VerlRollouts(agent, train, val, initial_resources={"llm": ratchet.Model("local")})
```

`RATCHET_VERL_SAMPLER=my_agent.training:open_sampler` names it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.trainable import ServedModel
from ratchet.autopilot.training.items import Items
from ratchet.autopilot.training.trained_model import ModelInTraining
from ratchet.autopilot.training_rewards import evaluate_to_train, rewards
from ratchet.autopilot.weights_algorithm import trainable_resource
from ratchet.learn import Lab
from ratchet.server.background import background_server
from ratchet.server.gateway.upstream import Upstream
from ratchet.server.serve import ServeSettings
from ratchet.server.trainer import Trainer
from ratchet.store import Store
from ratchet.types import AgentError, Candidate, InputError, Task
from ratchet.types.wording import counted
from ratchet.weights.sampler import GradedRollout

RUN_VARIABLE = "RATCHET_VERL_RUN"
"""Environment variable with the name of verl's run; a new name repeats all rollouts."""


class VerlRollouts(Trainer):
    """Opens the sampler of an agent whose model verl serves and trains.

    Args:
        agent: As `ratchet.Trainer.fit` takes it; its reward is what is learned.
        train: Tasks; the dataset that verl reads is made of them (`write_tasks`).
        val: Tasks for verl's validations.
        options: Those of `ratchet.Trainer`: initial_resources, n_runners, timeout_s, store, seed.
    """

    def __init__(self, agent: Any, train: Any, val: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self._items = Items(train, val, seed=self._seed)
        self._sampled = agent
        self._served: _ServedByVerl

    def write_tasks(self, folder: Path) -> tuple[Path, Path]:
        """Write the datasets that verl reads, `train.parquet` and `val.parquet`.

        Each row has the columns prompt, data_source, reward_model and extra_info, as verl's own
        datasets have them; the task is named in extra_info.

        Args:
            folder: Made if it is missing.

        Returns:
            Both paths, for `data.train_files` and `data.val_files`.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        paths = (folder / "train.parquet", folder / "val.parquet")
        for path, tasks in zip(paths, (self._items.train, self._items.val), strict=True):
            rows = [
                {
                    "prompt": [{"role": "user", "content": str(task.input)}],
                    "data_source": "ratchet",
                    "reward_model": {"style": "rule", "ground_truth": ""},
                    "extra_info": {"index": place, "task_id": task.id},
                }
                for place, task in enumerate(tasks)
            ]
            pq.write_table(pa.Table.from_pylist(rows), path)
        return paths

    @asynccontextmanager
    async def __call__(self, addresses: Sequence[str], model: str) -> AsyncIterator[LabRollouts]:
        """Open the sampler; verl's manager calls this.

        Args:
            addresses: Of the servers, as host:port.
            model: The name that they serve the model under.

        Raises:
            InputError: There is no server, or the agent has not exactly one model.
        """
        if not addresses:
            raise InputError("verl has no model server.", hint="Set rollout.name=vllm or sglang.")
        self._served = _ServedByVerl(
            {f"verl-{number}": address for number, address in enumerate(addresses)}, model
        )
        run = os.environ.get(RUN_VARIABLE) or str(time.time())
        async with AsyncExitStack() as stack:
            work = await self._begin(stack, self._sampled, self._items, ["verl", run])
            lab = await stack.enter_async_context(self._lab(work, self._items, None))
            yield LabRollouts(lab, tuple(self._served.servers))

    def _model_to_train(self, baseline: Candidate) -> ModelInTraining | None:
        name, resource = trainable_resource(baseline)
        first = msgspec.structs.replace(resource, model=next(iter(self._served.servers)))
        self._served.baseline = Candidate.of(
            {**baseline.resources, name: first}, reason="The initial resources."
        )
        return self._served

    @asynccontextmanager
    async def _gateway(self, store_url: str, model: ServedModel) -> AsyncIterator[str]:
        upstreams = tuple(
            Upstream(
                name=name,
                dialect="openai",
                base_url=f"http://{address}/v1",
                models={name: self._served.model},
            )
            for name, address in self._served.servers.items()
        )
        settings = ServeSettings(port=0, upstreams=upstreams)
        async with background_server(Store.open(store_url), settings, environ={}) as url:
            yield url


class LabRollouts:
    """Runs rollouts in a lab, each at one of the model's servers.

    Args:
        lab: The lab.
        servers: Names that the servers answer to at the gateway.
    """

    def __init__(self, lab: Lab, servers: Sequence[str]) -> None:
        self._lab = lab
        self._tasks = {task.id: task for task in (*lab.train, *lab.val)}
        name, resource = trainable_resource(lab.baseline)
        self._candidates = [
            lab.baseline
            if server == resource.model
            else lab.propose(
                {name: msgspec.structs.replace(resource, model=server)},
                algorithm="verl",
                reason=f"The weights under training, at the server {server}.",
            )
            for server in servers
        ]

    def task(self, id: str) -> Task:
        """The task of a row of verl's dataset.

        Raises:
            InputError: There is none.
        """
        if id not in self._tasks:
            raise InputError(
                f"verl's dataset names the task {id!r}, which is not among the agent's tasks.",
                hint="Write the dataset again: VerlRollouts.write_tasks(folder).",
            )
        return self._tasks[id]

    async def rollouts(
        self, task: Task, repetitions: int, *, step: int, validate: bool
    ) -> list[GradedRollout]:
        """Roll out a task with the weights of a step, without reusing other steps' rollouts.

        Raises:
            AgentError: The tokens of no call were kept.
        """
        # Validations too are kept as those that train: verl reads their tokens.
        batch = f"{'val' if validate else 'train'}-{step:05d}"
        evaluations = await asyncio.gather(
            *(
                evaluate_to_train(
                    self._lab,
                    self._candidates[number % len(self._candidates)],
                    [task],
                    repetition=step * repetitions + number,
                    training=batch,
                )
                for number in range(repetitions)
            )
        )
        measured = [evaluation for (evaluation,) in evaluations]
        tokens = await self._lab.tokens(measured)
        if not any(rollout_tokens.transitions for rollout_tokens in tokens):
            errors = [
                evaluation.rollout.error for evaluation in measured if evaluation.rollout.error
            ]
            raise AgentError(
                f"No tokens of model calls were kept in {counted(len(measured), 'rollout')} of"
                f" the task {task.id}. {errors[0] if errors else ''}".rstrip(),
                hint="The agent must call the model at the base_url of the Model that it is given,"
                " and by its name.",
            )
        return [
            GradedRollout(
                rollout_id=evaluation.rollout.id,
                task_id=task.id,
                reward=reward,
                transitions=rollout_tokens.transitions,
                call_rewards=rollout_tokens.rewards,
            )
            for evaluation, reward, rollout_tokens in zip(
                measured, rewards(measured), tokens, strict=True
            )
        ]


class _ServedByVerl:
    """The model at verl's servers, which have the newest weights."""

    base_url = key = ""
    baseline: Candidate

    def __init__(self, servers: Mapping[str, str], model: str) -> None:
        self.servers = servers
        """Address by name."""
        self.model = model
        """The model name that the servers know."""
        self.fingerprint = model

    @contextmanager
    def open(self, state: Path, say: Callable[[str], None]) -> Iterator[ServedModel]:
        yield self

    def by(self, model: ServedModel) -> None:
        return None
