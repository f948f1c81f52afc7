"""Measures the quality of the functions that two searches find with equal evaluations.

    python benchmarks/code_search.py [--quick] [--peer | --no-peer] [--only PROBLEM,…] [--seeds N]

Four problems with an evaluator in plain Python: the lowest point of a landscape with few calls, bin
packing, a rule for the next stop of a round trip, and the `rank` function of
examples/stdlib_helper. `Evolve` runs its candidates in the sandbox, one task per rollout;
`openevolve` 0.4.0, in its own environment under .bench/, one program on all tasks. An evaluation is
a run on all tasks; ours may spend as many rollouts as that are tasks. Both get the same two kinds
of proposals: mutations of syntax trees without a model (`ast`; openevolve requests them from a
local server), and those of the simulated coach (tests/simulator). The results are scored here,
inside a sandbox, on tasks that no search has seen. The last line printed is one JSON object:

- problems: problem → search → mean held-out score at the largest number of evaluations
- evaluations: the numbers of evaluations
- scores: problem → search → mean held-out score at each number of evaluations
- first: problem → score of the original function
- coach_calls: search → mean calls of the simulated coach per search at the largest number
- wall_s: search → mean seconds per search at the largest number
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "code_search"
PEER = "openevolve==0.4.0"
EXAMPLE = ROOT / "examples" / "stdlib_helper"
sys.path[:0] = [str(ROOT), str(PARTS), str(PARTS.parent), str(EXAMPLE)]

import mutating  # noqa: E402
from environments import bin_of  # noqa: E402
from optimisations import minimise, pack, rank, route  # noqa: E402
from tests.simulator import SimulatorProcess  # noqa: E402

from ratchet.sandbox import SandboxLimits, SandboxPool  # noqa: E402

PROBLEMS: dict[str, tuple[Any, str]] = {
    "minimise": (minimise, "search"),
    "pack": (pack, "pack"),
    "route": (route, "cost"),
    "rank": (rank, "rank"),
}
"""Problem and the module of its agent, by name."""
EVALUATIONS = (25, 100)
TASKS = {"minimise": 16, "pack": 16, "route": 16, "rank": 32}
"""Tasks of a search, by problem: a reciprocal rank says little of a function, so it takes more."""
TRAIN_SHARE = 0.7
HELD_OUT = 60
QUESTIONS = 400
COACH = "simulated-coach"


class Found(NamedTuple):
    """Result of a search."""

    problem: str
    who: str
    evaluations: int
    score: float
    coach_calls: int
    wall_s: float


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def source_of(problem: str) -> str:
    """Source of the original function, without its decorator."""
    import ast

    module, agent = PROBLEMS[problem]
    file = PARTS / "functions" / f"{agent}.py"
    if problem == "rank":
        file = EXAMPLE / "stdlib_helper" / "scoring.py"
    text = file.read_text()
    node = next(
        n
        for n in ast.parse(text).body
        if isinstance(n, ast.FunctionDef) and n.name == module.FUNCTION
    )
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno]) + "\n"


def make_questions() -> None:
    """Retrieve candidates for the questions of the standard-library helper, once."""
    if rank.FILE.exists():
        return
    from stdlib_helper.scoring import current_settings, scorer

    say("reading the standard library, once")
    lines = (EXAMPLE / "tasks.jsonl").read_text().splitlines()
    rows = []
    for line in lines:
        task = json.loads(line)
        candidates = [dict(c) for c in scorer(current_settings()).candidates(task["input"])[:30]]
        if any(c["name"] in task["expected"] for c in candidates):
            rows.append({"candidates": candidates, "right": task["expected"]})
    rank.FILE.parent.mkdir(parents=True, exist_ok=True)
    rank.FILE.write_text(json.dumps(rows[: 2 * QUESTIONS]))


@contextmanager
def proposing(
    who: str,
    function: str,
    tasks: Sequence[Any],
    seed: int,
    label: str,
    simulator: SimulatorProcess,
) -> Iterator[str]:
    """Endpoint that a search requests proposals from; empty if it uses none."""
    if who.endswith("_coach"):
        yield simulator.base_url(seed=seed, label=label)
    elif who.startswith("openevolve"):
        with mutating.serving(function, seed, tasks) as url:
            yield url
    else:
        yield ""


def search(
    problem: str, who: str, evaluations: int, seed: int, simulator: SimulatorProcess
) -> dict[str, Any]:
    """Run one search in its own process."""
    module, agent = PROBLEMS[problem]
    ours = who.startswith("evolve")
    script = PARTS / ("with_ratchet.py" if ours else "with_openevolve.py")
    python = sys.executable if ours else str(bin_of("openevolve", PEER) / "python")
    environ = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    environ |= {"OPENAI_API_KEY": "none", "PYTHONHASHSEED": "0"}
    tasks = module.tasks(TASKS[problem], seed)
    label = f"{who}-{problem}-{evaluations}-{seed}"
    with proposing(who, module.FUNCTION, tasks, seed, label, simulator) as url:
        given = {
            "problem": module.__name__.rpartition(".")[2],
            "agent": agent,
            "source": source_of(problem),
            "tasks": tasks,
            "train": round(TRAIN_SHARE * TASKS[problem]),
            "evaluations": evaluations,
            "seed": seed,
            "base_url": url,
            "model": COACH,
            "proposers": ["llm"] if who.endswith("_coach") else ["ast"],
        }
        done = subprocess.run(
            [python, str(script)],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            env=environ,
            timeout=1800,
        )
    if done.returncode:
        raise SystemExit(f"{who} on {problem} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    counted = simulator.counters(label, COACH)
    return found | {"coach_calls": counted.get("calls", 0)}


async def held_out(sources: Sequence[tuple[str, str]]) -> list[float]:
    """Scores of functions on held-out tasks, in the sandbox."""
    limits = SandboxLimits(seconds=60, cpu_seconds=60)
    async with SandboxPool(
        "held_out:handle", path=[str(PARTS)], read=[str(rank.FILE)], limits=limits, slots=2
    ) as warm:

        async def one(problem: str, source: str) -> float:
            module, _ = PROBLEMS[problem]
            count = QUESTIONS if problem == "rank" else HELD_OUT
            name = module.__name__.rpartition(".")[2]
            asked = {"problem": name, "source": source, "tasks": module.tasks(count, 10_000)}
            answer = await warm.request(json.dumps(asked).encode())
            return float(json.loads(answer.body)) if answer.status == "ok" else 0.0

        return list(await asyncio.gather(*(one(*each) for each in sources)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peer too; by default unless --quick, since it has to be installed",
    )
    parser.add_argument("--only", help="problems, separated by commas")
    parser.add_argument("--who", help="searches, separated by commas")
    parser.add_argument("--seeds", type=int, help="4 unless --quick")
    parser.add_argument("--first-seed", type=int, default=0, help="0 unless something is tuned")
    parser.add_argument("--evaluations", help="numbers, separated by commas")
    given = parser.parse_args()
    with_peer = not given.quick if given.peer is None else given.peer
    problems = given.only.split(",") if given.only else list(PROBLEMS)
    names = ["evolve_ast", "evolve_coach"]
    if with_peer:
        names += ["openevolve_ast", "openevolve_coach"]
        bin_of("openevolve", PEER)
    names = given.who.split(",") if given.who else names
    numbers = [6] if given.quick else list(EVALUATIONS)
    if given.evaluations:
        numbers = [int(number) for number in given.evaluations.split(",")]
    count = given.seeds or (1 if given.quick else 4)
    seeds = range(given.first_seed, given.first_seed + count)
    if "rank" in problems:
        make_questions()
    began = time.perf_counter()
    first = asyncio.run(held_out([(problem, source_of(problem)) for problem in problems]))
    found: list[Found] = []
    with SimulatorProcess() as simulator:
        for problem, start in zip(problems, first, strict=True):
            for number in numbers:
                for who in names:
                    results = [search(problem, who, number, s, simulator) for s in seeds]
                    scores = asyncio.run(held_out([(problem, r["source"]) for r in results]))
                    found += [
                        Found(problem, who, number, score, result["coach_calls"], result["wall_s"])
                        for score, result in zip(scores, results, strict=True)
                    ]
                    each = ", ".join(f"{score:.3f}" for score in scores)
                    seconds = statistics.mean(r["wall_s"] for r in results)
                    calls = statistics.mean(r["coach_calls"] for r in results)
                    say(
                        f"{problem:>9} {number:>4} evaluations, {who:>16}: {each}"
                        f" (from {start:.3f}), {calls:.0f} calls of the coach,"
                        f" {seconds:.1f} s each"
                    )
    say(f"{time.perf_counter() - began:.0f} s in all")
    print(json.dumps(summary(found, problems, names, numbers, first, count)))


def summary(
    found: Sequence[Found],
    problems: Sequence[str],
    names: Sequence[str],
    numbers: Sequence[int],
    first: Sequence[float],
    seeds: int,
) -> dict[str, Any]:
    """The printed result."""
    by: dict[tuple[str, str, int], list[Found]] = defaultdict(list)
    for one in found:
        by[one.problem, one.who, one.evaluations].append(one)

    def mean(problem: str, who: str, number: int) -> float:
        return round(statistics.mean(one.score for one in by[problem, who, number]), 4)

    def at_most(who: str, of: str) -> float:
        return statistics.mean(getattr(o, of) for p in problems for o in by[p, who, max(numbers)])

    return {
        "problems": {p: {who: mean(p, who, max(numbers)) for who in names} for p in problems},
        "evaluations": list(numbers),
        "scores": {
            p: {who: [mean(p, who, number) for number in numbers] for who in names}
            for p in problems
        },
        "first": {p: round(score, 4) for p, score in zip(problems, first, strict=True)},
        "coach_calls": {who: round(at_most(who, "coach_calls")) for who in names},
        "wall_s": {who: round(at_most(who, "wall_s"), 2) for who in names},
        "seeds": seeds,
    }


if __name__ == "__main__":
    main()
