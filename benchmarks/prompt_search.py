"""Measures the quality of the prompts that five searches find with an equal budget of rollouts.

    python benchmarks/prompt_search.py [--quick] [--peer | --no-peer] [--only WHO,…] [--seeds N]
    python benchmarks/prompt_search.py --domain chain [--only WHO,…] [--seeds N] [--budgets N,…]

The agent is examples/room_booking; its model and the coach of all searches are simulators
(tests/simulator), in a server of their own that also counts the calls. All searches get the same
tasks in the same splits (40 train, 29 val, the rest held out), the same first prompt and the same
verdict messages. Each peer runs in its own environment under .bench/, built on first use, with
options that suit it at each budget (see PEERS). agentlightning runs about three rollouts a second,
so it gets fewer seeds: two, one, and the slow run below. The resulting prompt is then scored here,
on the held-out tasks, by the simulated model with a seed that no search has seen. Finally the
largest budget is spent again on some of the seeds (agentlightning: on one) with models that take
200 ms per answer, 32 rollouts at once. The last line printed is one JSON object:

- budgets: rollouts
- scores: search → mean held-out score for each budget
- spread: search → its standard deviation over the seeds, for each budget
- calls_to_90: search → task-model calls of the smallest budget that reaches 90 % of the best gain
  of any search, None if none does
- wall_s: search → mean seconds for the largest budget at 200 ms per call
- found_s: search → seconds of that until its result had first been run, for ours been kept
- equal_s: of ours → peer → seconds of that until a prompt led whose held-out score is at least that
  of the peer's result with the same seed: the median, None if none did on most seeds
- ideal_share: of ours → mean of calls × 0.2 s / 32 over the wall time, at the largest budget
- slow: search → score, seconds and rollouts of each of these runs
- seeds, rollouts: search → seeds, and rollouts counted by the server, for each budget
- first: held-out score of the first prompt

With `--domain chain` the domain is one in which a prompt improves by chains of small gains, with
answers right or wrong by chance (benchmarks/parts/prompt_search/chain.py; the variants are
`chain-few`, `chain-long`, `chain-one` and `chain-labels`). It runs in this process, with Ratchet's
`evolve`, `auto` and `apo` and, where the package is installed, `gepa`. The line printed then has
budgets, scores, spread, seeds, rollouts, first, and in addition:

- domain: its name
- best: held-out score of a prompt with all rules
- coach_calls: search → mean calls of the coach for each budget
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "prompt_search"
EXAMPLE = ROOT / "examples" / "room_booking"
sys.path[:0] = [str(ROOT), str(EXAMPLE), str(PARTS), str(PARTS.parent)]

import chain  # noqa: E402
from environments import bin_of  # noqa: E402
from room_booking.rooms import OFFICE, TOOLS, rooms_on  # noqa: E402
from room_booking.verdict import judge  # noqa: E402
from tests.simulator import SimulatorProcess, task_model  # noqa: E402

OURS = ("apo", "evolve")
ASKED_FOR = ("few_shot", "auto")
"""Ours as well, measured only where `--only` names them: demonstrations, alone and after APO."""
BUDGETS = (100, 300, 1000)
CHAIN_BUDGETS, CHAIN_SEEDS = (200, 300, 400, 600), 3
BOOKING = "booking"
TRAIN, VAL = 40, 29
CONCURRENCY = 32
LATENCY_MS = 200
FRESH = "held-out"
PROMPT = "You are a booking assistant for {office}. Help people with meeting rooms."


class Peer(NamedTuple):
    """Installation and options of a peer."""

    needs: tuple[str, ...]
    options: dict[int, dict[str, Any]]
    """Its own options by budget."""
    val: dict[int, int] = {}
    """Val tasks that it is given, where fewer suit it better."""
    seeds: dict[int, int] = {}
    """Seeds by budget, where it is too slow for all; with none, its slow run counts."""


PEERS = {
    # Rollouts of a round: width × branch × batch to criticise, (width + width × branch) × val batch
    # to compare, and the whole of val for the leader.
    "agentlightning": Peer(
        ("agentlightning[apo]==0.3.0", "openai"),
        {
            100: {"beam_width": 2, "branch_factor": 2, "beam_rounds": 1, "val_batch_size": 10,
                  "run_initial_validation": False, "n_runners": 8},
            300: {"beam_width": 2, "branch_factor": 2, "beam_rounds": 2, "val_batch_size": 10,
                  "run_initial_validation": True, "n_runners": 8},
            1000: {"beam_width": 4, "branch_factor": 4, "beam_rounds": 2, "val_batch_size": 16,
                   "run_initial_validation": True, "n_runners": 8},
        },
        seeds={100: 2, 300: 1, 1000: 0},
    ),
    "gepa": Peer(
        ("gepa==0.1.4", "openai"), {100: {}, 300: {}, 1000: {}}, val={100: 10, 300: 15}
    ),
    "openevolve": Peer(
        ("openevolve==0.4.0",),
        {
            100: {"tasks": 10, "islands": 1, "workers": 4, "diff": True},
            300: {"tasks": 15, "islands": 1, "workers": 4, "diff": True},
            1000: {"tasks": 25, "islands": 2, "workers": 4, "diff": True},
        },
    ),
}  # fmt: skip


class Found(NamedTuple):
    """Result of a search."""

    who: str
    budget: int
    seed: int
    prompt: str
    score: float
    wall_s: float
    rollouts: int
    calls: int
    all_calls: int
    """Those of the coach included."""
    leads: tuple[tuple[float, float], ...]
    """Seconds, and the held-out score of what led from then on; of a peer of what it returned."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def splits(seed: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Train, val and held-out tasks, drawn for each seed."""
    tasks = [json.loads(line) for line in (EXAMPLE / "tasks.jsonl").read_text().splitlines()]
    random.Random(seed).shuffle(tasks)
    return tasks[:TRAIN], tasks[TRAIN : TRAIN + VAL], tasks[TRAIN + VAL :]


def held_out(prompt: str, tasks: Sequence[dict[str, Any]], seed: int) -> float:
    """Mean score of a prompt on tasks, by the simulated model with a separate seed."""
    scores = []
    for task in tasks:
        try:
            system = prompt.format(office=OFFICE)
        except Exception:
            return 0.0  # the agent fails on every task
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": task["input"]["request"]},
        ]
        said = task_model.answer(messages, TOOLS, seed=(FRESH, seed))
        if said.calls:
            date = said.calls[0][1]["date"]
            messages.append({"role": "assistant", "content": None})
            messages.append({"role": "tool", "content": json.dumps({"rooms": rooms_on(date)})})
            said = task_model.answer(messages, TOOLS, seed=(FRESH, seed))
        scores.append(judge(said.text, task["expected"], task).value)
    return statistics.mean(scores)


def search(who: str, budget: int, seed: int, simulator: SimulatorProcess, tag: str = "") -> Found:
    """Run one search in its own process."""
    train, val, test = splits(seed)
    label = f"{who}-{budget}-{seed}{tag}"
    given: dict[str, Any] = {
        "who": who,
        "base_url": simulator.base_url(seed=seed, label=label),
        "seed": seed,
        "budget": budget,
        "concurrency": CONCURRENCY,
        "prompt": PROMPT,
        "train": train,
        "val": val,
        "options": {},
    }
    if who not in PEERS:
        command = [sys.executable, str(PARTS / "with_ratchet.py")]
    else:
        peer = PEERS[who]
        given["options"] = peer.options[budget]
        given["val"] = val[: peer.val.get(budget, VAL)]
        command = [
            str(bin_of(f"prompt-{who}", *peer.needs) / "python"),
            str(PARTS / f"with_{who}.py"),
        ]
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    environ = {k: v for k, v in os.environ.items() if k in kept}
    environ |= {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            command,
            input=json.dumps(given),
            capture_output=True,
            text=True,
            env=environ | {"PROMPT_SEARCH_TRIED": str(Path(folder) / "tried")},
            cwd=folder,  # some leave log files where they run
            timeout=1800,
            check=False,
        )
    if ended.returncode:
        raise SystemExit(f"{label} failed:\n{ended.stderr[-3000:]}")
    answer = json.loads(ended.stdout.strip().splitlines()[-1])
    counted = simulator.counters(label)
    coached = simulator.counters(label, "simulated-coach")
    found = Found(
        who,
        budget,
        seed,
        answer["prompt"],
        held_out(answer["prompt"], test, seed),
        answer["wall_s"],
        counted.get("conversations", 0),
        counted.get("calls", 0),
        counted.get("calls", 0) + coached.get("calls", 0),
        tuple((at, held_out(prompt, test, seed)) for at, prompt in answer.get("leads", ())),
    )
    say(
        f"{label:>24}: {found.score:.3f} held out, {found.rollouts} rollouts, {found.calls} calls,"
        f" {coached.get('calls', 0)} of the coach, {found.wall_s:.1f} s"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peers too; by default unless --quick, since they have to be installed",
    )
    parser.add_argument("--only", help="searches, separated by commas")
    parser.add_argument("--seeds", type=int, help="8 unless --quick")
    parser.add_argument("--first-seed", type=int, default=0, help="0 unless something is tuned")
    parser.add_argument("--budgets", help="rollouts, separated by commas")
    parser.add_argument(
        "--prompts", help="file for the resulting prompts, one JSON object per line"
    )
    parser.add_argument("--no-wall", action="store_true", help="leave out the runs at 200 ms")
    parser.add_argument("--no-scores", action="store_true", help="only the runs at 200 ms")
    parser.add_argument("--wall-seeds", type=int, help="of those; 3 unless --quick")
    parser.add_argument("--domain", default=BOOKING, choices=(BOOKING, *chain.SHAPES))
    given = parser.parse_args()
    if given.domain != BOOKING:
        print(json.dumps(on_chain(parser, given)))
        return
    with_peers = not given.quick if given.peer is None else given.peer
    names = given.only.split(",") if given.only else [*OURS, *(PEERS if with_peers else ())]
    known = [*OURS, *ASKED_FOR, *PEERS]
    for name in names:
        if name not in known:
            parser.error(f"--only {name}: there are {', '.join(known)}")
    budgets = sorted(int(b) for b in given.budgets.split(",")) if given.budgets else list(BUDGETS)
    budgets = budgets[:1] if given.quick and not given.budgets else budgets
    count = given.seeds or (1 if given.quick else 8)
    seeds = range(given.first_seed, given.first_seed + count)
    for name in names:
        if name in PEERS:
            bin_of(f"prompt-{name}", *PEERS[name].needs)
    began = time.perf_counter()
    found: list[Found] = []
    if not given.no_scores:
        with SimulatorProcess() as simulator:
            found = every(names, budgets, seeds, simulator, with_slow=not given.no_wall)
    slow = []
    if not given.no_wall:
        turns = given.wall_seeds or (1 if given.quick else 3)
        slow = at_latency(names, max(budgets), seeds.start, turns)
    had = {(one.who, one.budget) for one in found}
    found += [one for one in slow if (one.who, one.budget) not in had]
    if given.prompts:
        Path(given.prompts).write_text("".join(json.dumps(f._asdict()) + "\n" for f in found))
    source = statistics.mean(held_out(PROMPT, splits(s)[2], s) for s in seeds)
    say(f"the first prompt: {source:.3f} held out; {time.perf_counter() - began:.0f} s in all")
    print(json.dumps(summary(found, slow, names, budgets, source, given.quick)))


def on_chain(parser: argparse.ArgumentParser, given: argparse.Namespace) -> dict[str, Any]:
    """Run the searches on a variant of the chain domain; returns the printed result."""
    names = given.only.split(",") if given.only else list(chain.WHERE)
    if not given.only and not importlib.util.find_spec("gepa"):
        names.remove("gepa")
    for name in names:
        if name not in chain.WHERE:
            parser.error(f"--only {name}: there are {', '.join(chain.WHERE)}")
    budgets = [int(b) for b in given.budgets.split(",")] if given.budgets else list(CHAIN_BUDGETS)
    budgets = sorted(budgets)[: 1 if given.quick else None]
    count = given.seeds or (1 if given.quick else CHAIN_SEEDS)
    seeds = range(given.first_seed, given.first_seed + count)
    found: dict[str, list[list[chain.ChainResult]]] = {}
    for name in names:
        found[name] = []
        for budget in budgets:
            found[name].append([])
            for seed in seeds:
                one = chain.search(name, given.domain, budget, seed)
                found[name][-1].append(one)
                say(
                    f"{f'{name}-{budget}-{seed}':>24}: {one.score:.3f} held out,"
                    f" {one.rollouts} rollouts, {one.coach_calls} calls of the coach:"
                    f" {one.sentence}"
                )
    domains = [chain.ChainDomain(chain.SHAPES[given.domain], seed) for seed in seeds]

    def means(of: str, digits: int) -> dict[str, list[float]]:
        return {
            name: [round(statistics.mean(getattr(one, of) for one in some), digits) for some in row]
            for name, row in found.items()
        }

    return {
        "domain": given.domain,
        "budgets": budgets,
        "scores": means("score", 4),
        "spread": {
            name: [round(statistics.pstdev(one.score for one in some), 4) for some in row]
            for name, row in found.items()
        },
        "seeds": count,
        "rollouts": means("rollouts", 0),
        "coach_calls": means("coach_calls", 0),
        "first": round(statistics.mean(one.held_out(chain.SOURCE) for one in domains), 4),
        "best": round(statistics.mean(one.best() for one in domains), 4),
        "quick": given.quick,
    }


def every(
    names: Sequence[str],
    budgets: Sequence[int],
    seeds: range,
    simulator: SimulatorProcess,
    *,
    with_slow: bool,
) -> list[Found]:
    """Run all searches, one per core at a time, except those of agentlightning.

    Args:
        names: The searches.
        budgets: Rollouts.
        seeds: Their seeds.
        simulator: Address of the simulator.
        with_slow: Whether a later run replaces this one for a peer that is too slow for it.
    """
    alone, beside = [], []
    for turn, seed in enumerate(seeds):
        for budget in budgets:
            for who in names:
                most = PEERS[who].seeds.get(budget, len(seeds)) if who in PEERS else len(seeds)
                if turn < (most if with_slow else max(most, 1)):
                    (alone if who == "agentlightning" else beside).append((who, budget, seed))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda job: search(*job, simulator), beside))
    return found + [search(*job, simulator) for job in alone]  # each already uses many processes


def at_latency(names: Sequence[str], budget: int, first: int, seeds: int) -> list[Found]:
    """Run all searches with slow models, one after another."""
    with SimulatorProcess("--latency-ms", str(LATENCY_MS)) as simulator:
        return [
            search(who, budget, first + turn, simulator, "-slow")
            for turn in range(seeds)
            for who in names
            if not turn or who != "agentlightning"
        ]


def equal_s(slow: Sequence[Found]) -> dict[str, dict[str, float | None]]:
    """Of ours → peer → seconds until a prompt led that is as good as the peer's result."""
    never = float("inf")
    took: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for mine in slow:
        for peer in slow:
            if mine.who not in PEERS and peer.who in PEERS and mine.seed == peer.seed:
                good = (at for at, score in mine.leads if score >= peer.score)
                took[mine.who][peer.who].append(next(good, never))
    return {
        who: {
            peer: None if (middle := statistics.median(times)) == never else round(middle, 2)
            for peer, times in peers.items()
        }
        for who, peers in took.items()
    }


def summary(
    found: Sequence[Found],
    slow: Sequence[Found],
    names: Sequence[str],
    budgets: Sequence[int],
    source: float,
    quick: bool,
) -> dict[str, Any]:
    """The printed result."""

    def over_seeds(values: Iterable[tuple[str, float]], digits: int = 2) -> dict[str, float]:
        each: dict[str, list[float]] = defaultdict(list)
        for who, value in values:
            each[who].append(value)
        return {who: round(statistics.mean(some), digits) for who, some in each.items()}

    ideal_s = LATENCY_MS / 1000 / CONCURRENCY
    share = ((one.who, one.all_calls * ideal_s / one.wall_s) for one in slow if one.who in OURS)
    runs: dict[str, list[list[float]]] = defaultdict(list)
    for one in slow:
        runs[one.who].append([round(one.score, 4), round(one.wall_s, 2), one.rollouts])
    by: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for one in found:
        by[one.who, one.budget].append(one)

    def each(who: str, of: str) -> list[list[float]]:
        return [[getattr(one, of) for one in by[who, budget]] for budget in budgets]

    scores = {who: [statistics.mean(s) for s in each(who, "score")] for who in names}
    best = max(max(means) for means in scores.values())
    enough = source + 0.9 * (best - source)
    to_90 = {}
    for who in names:
        calls = [statistics.mean(c) for c in each(who, "calls")]
        to_90[who] = next(
            (round(c) for c, s in zip(calls, scores[who], strict=True) if s >= enough), None
        )
    return {
        "budgets": list(budgets),
        "scores": {who: [round(s, 4) for s in means] for who, means in scores.items()},
        "spread": {
            who: [round(statistics.pstdev(s), 4) for s in each(who, "score")] for who in names
        },
        "calls_to_90": to_90,
        "wall_s": over_seeds((one.who, one.wall_s) for one in slow),
        "found_s": over_seeds((one.who, one.leads[-1][0]) for one in slow if one.leads),
        "equal_s": equal_s(slow),
        "ideal_share": over_seeds(share, 3),
        "slow": runs,
        "seeds": {who: [len(by[who, budget]) for budget in budgets] for who in names},
        "rollouts": {
            who: [round(statistics.mean(r)) for r in each(who, "rollouts")] for who in names
        },
        "first": round(source, 4),
        "quick": quick,
    }


if __name__ == "__main__":
    main()
