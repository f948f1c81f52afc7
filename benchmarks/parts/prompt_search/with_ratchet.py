"""Ratchet's own algorithms on the room-booking example, in a lab like that of `improve`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from ratchet.evaluate import Scorer, make_evaluator
from ratchet.learn import Algorithm, Budget, Lab, LabSettings, Proposal
from ratchet.learn.lab import LabListener
from ratchet.llm.coach import Coach
from ratchet.run import Runner, WorkerExecutor, workers_for
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Task
from ratchet.worker.agent import AgentSpec

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "room_booking"
sys.path.insert(0, str(EXAMPLE))
WHERE = {
    "apo": "ratchet.learn.apo:APO",
    "auto": "ratchet.learn.auto:Auto",
    "evolve": "ratchet.learn.evolve:Evolve",
    "few_shot": "ratchet.learn.few_shot:FewShot",
}
EVALUATOR = "right_room"


def tasks_of(found: list[dict[str, Any]]) -> list[Task]:
    """Tasks as from the task file."""
    known = ("id", "input", "expected")
    return [
        Task(t["id"], t["input"], t["expected"], {k: v for k, v in t.items() if k not in known})
        for t in found
    ]


def text_of(candidate: Candidate) -> str:
    """Text of its prompt."""
    found = candidate.resources["system"]
    assert isinstance(found, PromptTemplate)
    return found.text


async def search(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one search."""
    module, _, name = WHERE[given["who"]].partition(":")
    algorithm: Algorithm = getattr(import_module(module), name)(**given["options"])
    url = f"sqlite:///{folder / 'ratchet.db'}"
    store = Store.open(url)
    workers = workers_for(given["concurrency"], os.cpu_count() or 1)
    executor = WorkerExecutor(
        AgentSpec(entry="room_booking.agent:book", root=str(EXAMPLE)),
        store_url=url,
        state=folder,
        slots=given["concurrency"],
        workers=workers,
        timeout_s=60,
        memory_bytes=2**31,
    )
    coach = Coach("simulated-coach", seed=given["seed"])
    await coach.check()  # as `ratchet improve` does before the search
    baseline = Candidate.of({"system": PromptTemplate(given["prompt"])}, reason="the source's own")
    leads: list[tuple[float, Proposal]] = []

    class Leads(LabListener):
        """Records each new leader: the kept candidate with the highest value."""

        def proposal(self, proposal: Proposal) -> None:
            kept = proposal.accepted and not proposal.pruned
            if kept and (not leads or proposal.value > leads[-1][1].value):
                leads.append((time.perf_counter() - began, proposal))

    async with coach, Runner(store, "benchmark", executor) as runner:
        lab = Lab(
            LabSettings(
                run_id=f"run-{given['seed']}",
                stage="learn",
                queue="benchmark",
                objective=EVALUATOR,
                seed=given["seed"],
                max_attempts=1,
            ),
            baseline=baseline,
            train=tasks_of(given["train"]),
            val=tasks_of(given["val"]),
            runner=runner,
            scorer=Scorer(store, [make_evaluator("room_booking.grading:right_room")]),
            store=store,
            budget=Budget(rollouts=given["budget"]),
            coach=coach,
            listener=Leads(),
        )
        began = time.perf_counter()
        finding = await algorithm.learn(lab)
        wall_s = time.perf_counter() - began
    return {
        "prompt": text_of(finding.best),
        "wall_s": wall_s,
        "leads": [(at, text_of(store.candidates.get(p.candidate_id))) for at, p in leads],
        "sentence": finding.sentence,
        "val": [finding.baseline_val, finding.best_val],
    }


def main() -> None:
    given = json.load(sys.stdin)
    os.environ["OPENAI_BASE_URL"] = given["base_url"]
    os.environ["OPENAI_API_KEY"] = "none"
    os.environ["ROOM_BOOKING_MODEL"] = "simulated-task"
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(search(given, Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
