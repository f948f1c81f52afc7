"""`Evolve` on one function, with the runner, sandbox and lab of `ratchet improve`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from ratchet.bind import registry
from ratchet.evaluate import FunctionEvaluator, Judgement, Scorer
from ratchet.learn import Budget, Lab, LabSettings
from ratchet.learn.evolve import Evolve
from ratchet.llm import Coach
from ratchet.run import Runner
from ratchet.run.contained import ContainedExecutor, Containment, RoutedExecutor
from ratchet.store import Store
from ratchet.types import Candidate, Code, Task
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[2] / "examples" / "stdlib_helper"
TIMEOUT_S = 5.0
SLOTS = 4


async def search(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one search."""
    problem = import_module(f"optimisations.{given['problem']}")
    spec = AgentSpec(
        entry=f"functions.{given['agent']}:answer", root=str(HERE), path=(".", str(EXAMPLE))
    )
    agent = load_agent(spec)
    name = problem.FUNCTION
    code = registry.declarations()[name].resource
    assert isinstance(code, Code)

    def judge(output: Any, expected: Any) -> Judgement:
        return Judgement(*problem.score(output, expected))

    evaluator = FunctionEvaluator(judge, name="objective", trusted=True)
    store = Store.open(f"sqlite:///{folder / 'ratchet.db'}")
    contained = ContainedExecutor(spec, Containment(), slots=SLOTS, timeout_s=TIMEOUT_S)
    usual = AsyncExecutor(agent, slots=SLOTS, timeout_s=TIMEOUT_S)
    executor = RoutedExecutor(usual, contained, {name: code})
    async with AsyncExitStack() as stack:
        coach = None
        if given["base_url"]:
            coach = await stack.enter_async_context(
                Coach(given["model"], base_url=given["base_url"], seed=given["seed"])
            )
        runner = await stack.enter_async_context(Runner(store, "benchmark", executor))

        def numbered(tasks: list[Any], split: str) -> list[Task]:
            return [Task(f"{split}{n}", task, expected=task) for n, task in enumerate(tasks)]

        lab = Lab(
            LabSettings(
                run_id="run",
                stage="learn",
                queue="benchmark",
                objective="objective",
                seed=given["seed"],
                max_attempts=1,
            ),
            baseline=Candidate.of({name: code}),
            train=numbered(given["tasks"][: given["train"]], "train"),
            val=numbered(given["tasks"][given["train"] :], "val"),
            runner=runner,
            scorer=Scorer(store, [evaluator]),
            store=store,
            budget=Budget(rollouts=given["evaluations"] * len(given["tasks"])),
            coach=coach,
        )
        began = time.perf_counter()
        finding = await Evolve(proposers=given["proposers"]).learn(lab)
        wall_s = time.perf_counter() - began
    best = finding.best.resources[name]
    assert isinstance(best, Code)
    return {
        "source": best.source,
        "wall_s": wall_s,
        "rollouts": lab.spent.rollouts,
        "sentence": finding.sentence,
    }


def main() -> None:
    given = json.load(sys.stdin)
    sys.path[:0] = [str(HERE), str(EXAMPLE)]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(search(given, Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
