"""Ratchet's GRPO on the drawers or the corridor, with the policy engine in this process.

    python with_ratchet.py JOB.json

The last line printed is one JSON object; see `drawers_curves.py`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corridor
import drawers
import torch

from ratchet.models.policy import load_base
from ratchet.models.policy.engine import PolicyEngine
from ratchet.models.policy.generation import Generation
from ratchet.models.policy.lora import load_adapter
from ratchet.types import Task, Transition, pack_floats, pack_ids
from ratchet.weights.grpo import GroupRelative
from ratchet.weights.learner import Learner
from ratchet.weights.run import TrainingRun
from ratchet.weights.sampler import GradedRollout
from ratchet.weights.settings import GRPO, LoRA, Optimizer, PolicyLoss, Schedule


class EngineSampler:
    """Plays rollouts: a call is submitted as soon as the one before it ended."""

    def __init__(
        self,
        base: Any,
        tasks: dict[str, drawers.Drawers] | dict[str, corridor.Corridor],
        calls: int,
        slots: int,
        per_call: bool,
    ) -> None:
        self._base, self._tasks, self._calls, self._per_call = base, tasks, calls, per_call
        self._engine = PolicyEngine(base, slots=slots, context=64)
        self._previous: Any = None
        self.rewards: list[float] = []
        self.ended_s: list[float] = []
        self.tokens, self.took = 0, 0.0

    async def collect(
        self, adapter: Path | None, tasks: Sequence[Task], repetitions: int, *, batch: str
    ) -> list[GradedRollout]:
        return await asyncio.to_thread(self._collect, adapter, tasks, repetitions, batch)

    def _collect(
        self, folder: Path | None, tasks: Sequence[Task], repetitions: int, batch: str
    ) -> list[GradedRollout]:
        began = time.perf_counter()
        adapter = None if folder is None else load_adapter(folder, self._base)
        if self._previous is not None:
            self._engine.forget(self._previous)
        self._previous = adapter
        self._version = self._base.fingerprint if adapter is None else adapter.version
        played = [(task.id, f"{batch}-{task.id}-{n}") for task in tasks for n in range(repetitions)]
        calls: dict[str, list[Generation]] = {name: [] for _, name in played}
        running = {
            name: self._call(self._tasks[task].prompt(), adapter, calls[name])
            for task, name in played
        }
        of_task = {name: task for task, name in played}
        while running:
            self._engine.step()
            for name, call in list(running.items()):
                if not call.ended:
                    continue
                if call.error:
                    raise call.error
                if len(calls[name]) == self._calls:
                    del running[name]
                    continue
                seen = self._tasks[of_task[name]].observed(len(calls[name]) - 1, call.response)
                prompt = [*call.prompt, *call.response, *seen]
                running[name] = self._call(prompt, adapter, calls[name])
        found = [self._graded(task, name, calls[name]) for task, name in played]
        self.took += time.perf_counter() - began
        self.ended_s.append(time.perf_counter())
        return found

    def _call(self, prompt: list[int], adapter: Any, calls: list[Generation]) -> Generation:
        call = Generation(
            prompt,
            adapter=adapter,
            version=self._version,
            max_tokens=drawers.LONGEST,
            stop_ids=frozenset({drawers.END}),
        )
        calls.append(call)
        self._engine.submit(call)
        return call

    def _graded(self, task: str, name: str, calls: list[Generation]) -> GradedRollout:
        earned = self._tasks[task].rewards([call.response for call in calls])
        self.rewards.append(sum(earned))
        self.tokens += sum(len(call.response) for call in calls)
        made = tuple(
            Transition(
                id=f"{name}-{i}",
                rollout_id=name,
                fence=1,
                call_index=i,
                model=self._base.name,
                version_first=call.version,
                version_last=call.version,
                prompt_ids=pack_ids(call.prompt),
                response_ids=pack_ids(call.response),
                logprobs=pack_floats(call.logprobs),
                finish_reason=call.finish_reason or "",
                started_ns=0,
                ended_ns=0,
            )
            for i, call in enumerate(calls)
        )
        return GradedRollout(
            rollout_id=name,
            task_id=task,
            reward=0.0 if self._per_call else sum(earned),
            transitions=made,
            call_rewards={c.id: r for c, r in zip(made, earned, strict=True)}
            if self._per_call
            else {},
        )


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    torch.set_num_threads(1)
    world: Any = {"drawers": drawers, "corridor": corridor}[job["world"]]
    by_id = {f"{i:04d}": task for i, task in enumerate(world.tasks(job["pool"], job["seed"]))}
    settings = GRPO(
        schedule=Schedule(
            steps=job["steps"], validate_every=10**6, save_every=10**6, seed=job["seed"]
        ),
        lora=LoRA(rank=job["rank"], alpha=2 * job["rank"]),
        optimizer=Optimizer(learning_rate=job["rate"]),
        loss=PolicyLoss(),
        tasks=job["tasks"],
        repetitions=job["group"],
        discount=job["discount"],
        staleness=0,
        patience=10**6,
    )
    learner = Learner(
        load_base(folder / "model"), lora=settings.lora, optimizer=settings.optimizer,
        adapter=folder / "adapter",
    )  # fmt: skip
    slots = job["tasks"] * job["group"]
    sampler = EngineSampler(load_base(folder / "model"), by_id, world.CALLS, slots, job["per_call"])
    asked = [Task(id=name, input=name) for name in by_id]
    run = TrainingRun(folder / job["name"], learner, GroupRelative(settings, sampler, asked, ()))
    gc.freeze()  # what the libraries loaded is not searched again and again
    began, cpu = time.perf_counter(), time.process_time()
    result = asyncio.run(run.run())
    took = time.perf_counter() - began
    gc.unfreeze()
    if result.state != "done":
        sys.exit(result.sentence)
    print(
        json.dumps(
            {
                "rewards": [
                    sum(sampler.rewards[i : i + slots]) / slots
                    for i in range(0, len(sampler.rewards), slots)
                ],
                "at_s": [at - began for at in sampler.ended_s],
                "wall_s": took,
                "cpu_s": time.process_time() - cpu,
                "generate_s": sampler.took,
                "tokens": sampler.tokens,
                "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
