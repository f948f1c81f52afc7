"""Finds planted problems in simulated traffic: eight kinds among 5,000 traces of three days.

    python benchmarks/problems.py [--seeds N] [--traces N] [--noise SHARE]

The agent is simulated: its questions come from phrases with blanks, and a tenth of its traces fail
at random, by the same kinds of failure. One problem is fixed after the first day and comes back on
the third; the words of another drift. The last line of stdout is one JSON object:

- found: of the eight problems, those found among the ten worst after the last day, least over seeds
- purity: share of the traces of found problems that were planted as them, least over seeds;
  purity_worst: of the worst problem of all seeds
- recall_mean: share of the traces that were planted as a problem that are in it
- kept_ids: share of the problems named on the first day that on the last, under the same id, still
  hold most of the same planted problem
- returned: share of seeds in which the problem that came back was reopened
- false_problems: problems among the ten worst that are none of the planted, mean over seeds
- traces_per_s: traces looked at per second, on one core

The exit code is 1 when fewer than seven are found, the purity is below 0.9, an id changed, or the
problem that returned was not reopened.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]
sys.path[:0] = [str(HERE.parent), str(HERE / "parts")]

from live_problems.traffic import AGENT, DAY_S, PLANTS, RETURNS, Traffic, TrafficTrace  # noqa: E402

from ratchet.autopilot.problem_reports import reports  # noqa: E402
from ratchet.autopilot.problem_scan import scan  # noqa: E402
from ratchet.store import Store  # noqa: E402
from ratchet.types import Score  # noqa: E402
from ratchet.types.trace import TraceRecording  # noqa: E402

TOP = 10
BEGIN = 1_780_000_000.0


def main() -> int:
    """Measure over seeds and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--traces", type=int, default=5_000)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one seed, as in CI")
    given = parser.parse_args()
    seeds = 1 if given.quick else given.seeds
    measured = [
        asyncio.run(_measure(given.first_seed + seed, given.traces, given.noise))
        for seed in range(seeds)
    ]
    purities = [purity for figures in measured for purity in figures["purities"].values()]
    pooled = [figures["purity"] for figures in measured]
    recalls = [recall for figures in measured for recall in figures["recalls"].values()]
    result = {
        "simulated": True,
        "found": min(len(figures["purities"]) for figures in measured),
        "planted": len(PLANTS),
        "purity": round(min(pooled), 3),
        "purity_worst": round(min(purities, default=0.0), 3),
        "recall_mean": round(_mean(recalls), 3),
        "kept_ids": round(_mean([figures["kept_ids"] for figures in measured]), 3),
        "returned": round(_mean([float(figures["returned"]) for figures in measured]), 3),
        "false_problems": round(_mean([figures["false"] for figures in measured]), 2),
        "traces_per_s": round(_mean([figures["traces_per_s"] for figures in measured])),
        "traces": given.traces,
        "noise": given.noise,
        "seeds": seeds,
    }
    print(json.dumps(result))
    bad = (
        result["found"] < 7
        or result["purity"] < 0.9
        or result["kept_ids"] < 1.0
        or result["returned"] < 1.0
    )
    return int(bad)


async def _measure(seed: int, count: int, noise: float) -> dict[str, Any]:
    traffic = Traffic(seed, noise)
    plant_of: dict[str, str] = {}
    score_of: dict[str, Score] = {}

    async def score(recording: TraceRecording) -> Sequence[Score]:
        low = score_of.get(recording.trace.trace_id)
        return () if low is None else (low,)

    looked = 0.0
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/s.db") as store:
        first: dict[str, str] = {}
        returned = False
        for day in range(3):
            begin = BEGIN + day * DAY_S
            now = begin + DAY_S
            traces = traffic.day(count // 3, begin, day, [RETURNS] if day == 1 else [])
            _put(store, traces, now)
            plant_of.update((trace.trace_id, trace.plant) for trace in traces)
            score_of.update((t.trace_id, t.score) for t in traces if t.score is not None)
            began = time.process_time()
            await scan(store, now=now, score=score)
            looked += time.process_time() - began
            named = _named(store, plant_of, now)
            if day == 0:
                first = dict(named)
                if RETURNS in first:
                    store.problems.change(
                        first[RETURNS], "fixed", reason="A release fixed it.", now=now,
                        by="benchmark", fixed_at=now,
                    )  # fmt: skip
        named = _named(store, plant_of, now)
        if RETURNS in first:
            problem = store.problems.get(first[RETURNS])
            returned = problem is not None and problem.state == "returned"
        purities, recalls = {}, {}
        right = total = 0
        for name, id in named.items():
            members = {o.trace_id for o in store.problems.occurrences(id, limit=10**6)}
            planted = {trace_id for trace_id, plant in plant_of.items() if plant == name}
            right, total = right + len(members & planted), total + len(members)
            purities[name] = len(members & planted) / len(members)
            recalls[name] = len(members & planted) / len(planted)
        worst = reports(store, now=now)[0][:TOP]
        for report in worst:
            print(
                f"  seed {seed}: {report.occurrences:4d}  {report.share:.3f} ×"
                f" {report.loss:.2f}  {report.problem.state:9} {report.problem.title[:90]}",
                file=sys.stderr,
            )
        print(f"  purities {_rounded(purities)}\n  recalls {_rounded(recalls)}", file=sys.stderr)
        return {
            "purity": right / max(total, 1),
            "purities": purities,
            "recalls": recalls,
            "kept_ids": _mean(
                [float(_plant(store, id, plant_of) == name) for name, id in first.items()]
            ),
            "returned": returned,
            "false": float(len(worst) - len(named)),
            "traces_per_s": count / looked,
        }


def _put(store: Store, traces: Sequence[TrafficTrace], now: float) -> None:
    for start in range(0, len(traces), 200):
        some = traces[start : start + 200]
        store.spans.put([record for trace in some for record in trace.records])
        store.feedback.add([item for trace in some for item in trace.feedback], now)


def _named(store: Store, plant_of: dict[str, str], now: float) -> dict[str, str]:
    """Id of the problem among the ten worst that holds most of each planted one."""
    named: dict[str, tuple[int, str]] = {}
    for report in reports(store, now=now)[0][:TOP]:
        if plant := _plant(store, report.problem.id, plant_of):
            of_plant = report.occurrences, report.problem.id
            named[plant] = max(named.get(plant, (0, "")), of_plant)
    return {plant: id for plant, (_, id) in named.items()}


def _plant(store: Store, id: str, plant_of: dict[str, str]) -> str:
    """The planted problem that most traces of a problem belong to; empty for none."""
    members = store.problems.occurrences(id, limit=10**6)
    return Counter(plant_of[member.trace_id] for member in members).most_common(1)[0][0]


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    assert AGENT
    raise SystemExit(main())
