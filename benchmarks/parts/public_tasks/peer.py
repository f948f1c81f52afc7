"""What the peers' scripts share: the job, the agent's call, and the result."""

from __future__ import annotations

import json
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from data import DATASETS, Dataset, PublicTask
from openai import OpenAI


class Job(NamedTuple):
    """What a system is asked to do."""

    dataset: Dataset
    train: list[PublicTask]
    val: list[PublicTask]
    test: list[PublicTask]
    task_url: str
    coach_url: str
    calls: int
    seed: int
    at_once: int


def job() -> Job:
    """The job, from the file that the first argument names."""
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    dataset = DATASETS[given.pop("dataset")]
    tasks = {
        name: [PublicTask(*task) for task in given.pop(name)] for name in ("train", "val", "test")
    }
    return Job(dataset=dataset, **tasks, **given)


def run(job: Job, prompt: str, tasks: list[PublicTask]) -> list[str]:
    """The agent's answers with a prompt."""
    client = OpenAI(base_url=job.task_url, api_key="none", timeout=600)

    def ask(task: PublicTask) -> str:
        done = client.chat.completions.create(
            model="task",
            messages=[
                {"role": "system", "content": prompt},
                {"role": "user", "content": task.input},
            ],
            temperature=0,
            max_tokens=job.dataset.max_tokens,
        )
        return (done.choices[0].message.content or "").strip()

    with ThreadPoolExecutor(job.at_once) as pool:
        return list(pool.map(ask, tasks))


def done(answers: list[str], what: str) -> None:
    """Write the answers to the test tasks, what was found, and the CPU seconds spent."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    result = {"answers": answers, "found": what, "cpu_s": round(used.ru_utime + used.ru_stime, 1)}
    Path(sys.argv[2]).write_text(json.dumps(result))
