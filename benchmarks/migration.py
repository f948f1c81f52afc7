"""Measures moves to another model: how often "no worse" is wrong, and what real models reach.

    python benchmarks/migration.py [--quick] [--real] [--tasks cricket_sql,support_router,formula]
        [--data FOLDER] [--to NAME] [--from NAME] [--journal FILE]

First in simulation: pairs of scores of 0 and 1 whose margin is the one that a run would choose for
so many pairs. Once the new model is worse by exactly the margin, and once both are equal.

With --real, `ratchet migrate` moves examples of this repository from one model on this machine to a
smaller one, with examples in the prompt as the one search that needs no coach. `formula` is a
public task, whose data --data names. A run takes up to an hour and goes into a journal when it
ends; the next start goes on from there. Progress goes to stderr. The last line of stdout is one
JSON object:

- false_not_worse: share of the simulated runs that prove "no worse" of a model that is worse by the
  margin; alpha: what it may be
- power: the same of an equal model
- margins: number of pairs → the margin
- runs: simulated runs of each kind and number of pairs
- tasks: task → old, new_old_prompt, new: mean scores (those of val for new_old_prompt); pairs;
  margin; verdict; at_worst: lower end of the interval; tokens and rollout_s: mean tokens and
  seconds of a rollout of the proof, before and after; seconds of the run

The exit code is 1 when false_not_worse is above alpha by more than two standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.cli.demo import example_folder
from ratchet.prove import Comparison, ExperimentPlan, PairedScore
from ratchet.prove.tasks_needed import provable_margin
from ratchet.store import Store
from ratchet.store.usage import INPUT_TOKENS, OUTPUT_TOKENS

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "public_tasks"
sys.path.insert(0, str(PARTS))

from data import DATASETS, splits  # noqa: E402

ALPHA, DIFFERS = 0.05, 0.15
"""Level, and share of the pairs in which the two models score differently."""

PAIRS, RUNS, QUICK_RUNS = (40, 140, 400), 2_000, 100
TIMEOUT_S = 3 * 3600

ROLLOUTS = 240
"""Of learning: both models on val, and a search for examples."""


def proves(pairs: int, margin: float, gain: float, rng: random.Random) -> bool:
    """Whether one simulated experiment proves a model of this gain no worse."""
    plan = ExperimentPlan(alpha=ALPHA, min_gain=0.0, margin=margin, max_pairs=pairs)
    comparison = Comparison(plan)
    differs = max(DIFFERS, abs(gain))
    won, lost = (differs + gain) / 2, (differs - gain) / 2
    for number in range(pairs):
        drawn = rng.random()
        sides = (0.0, 1.0) if drawn < won else (1.0, 0.0) if drawn < won + lost else (1.0, 1.0)
        if comparison.observe(PairedScore(str(number), *sides)) is not None:
            break
    return comparison.finish() == "promote"


def simulated(runs: int) -> dict[str, Any]:
    rng = random.Random(41)
    margins = {pairs: provable_margin(ALPHA, pairs, DIFFERS) for pairs in PAIRS}
    shares: dict[str, dict[int, float]] = {"false_not_worse": {}, "power": {}}
    for pairs, margin in margins.items():
        for name, gain in (("false_not_worse", -margin), ("power", 0.0)):
            proved = sum(proves(pairs, margin, gain, rng) for _ in range(runs))
            shares[name][pairs] = proved / runs
        print(f"{pairs} pairs: {shares}", file=sys.stderr, flush=True)
    return {
        "alpha": ALPHA,
        "false_not_worse": max(shares["false_not_worse"].values()),
        "power": min(shares["power"].values()),
        "margins": margins,
        "runs": runs,
    }


def project(root: Path, task: str, data: Path | None, old: str) -> None:
    """A repository with the agent of a task, whose model is `old`."""
    if task != "formula":
        shutil.copytree(example_folder(task), root)
        config = (root / "ratchet.toml").read_text()
        lines = [
            f'model = "local:{old}"' if line.startswith('model = "local:') else line
            for line in config.splitlines()
        ]
        text = "\n".join(lines) + "\n"
        text = text.replace("val = 0.05", "val = 0.1").replace("test = 0.65", "test = 0.6")
        (root / "ratchet.toml").write_text(text)
    else:
        assert data is not None
        spec = DATASETS[task]
        parts = splits(spec.load(data))
        root.mkdir(parents=True)
        source = (PARTS / "agent.py").read_text(encoding="utf-8")
        (root / "agent.py").write_text(source.replace("FIRST PROMPT", spec.prompt))
        for name in ("data.py", "evaluators.py"):
            shutil.copy(PARTS / name, root / name)
        tasks = [*parts.train, *parts.val, *parts.test]
        rows = [{"id": t.id, "input": t.input, "expected": t.expected, **t.metadata} for t in tasks]
        (root / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        (root / "ratchet.toml").write_text(
            f'[agent]\nentry = "agent:answer"\nmodel = "local:{old}"\n'
            "[tasks]\nnear_duplicates = false\n[tasks.split]\ntrain = 0.3\nval = 0.1\ntest = 0.6\n"
            f"[[evaluators]]\n{spec.evaluator}\n[run]\nconcurrency = 2\ntimeout_s = 300\n"
            '[improve]\nalgorithm = "few_shot"\noptions = { sets = 2 }\n'
            "[improve.budget]\nrollouts = 120\n"
            '[[guardrails]]\nmetric = "latency"\noff = true\n'
        )
        (root / ".gitignore").write_text(".ratchet/\n__pycache__/\n")
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@ratchet.invalid")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "An agent")):
        subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def move(task: str, data: Path | None, old: str, new: str) -> dict[str, Any]:
    """What one `ratchet migrate` reached."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / task
        project(root, task, data, old)
        command = ["migrate", "--to", f"local:{new}", "--rollouts", str(ROLLOUTS)]
        command += ["--json", "--project", str(root)]
        ended = subprocess.run(
            [sys.executable, "-m", "ratchet", *command],
            cwd=root,
            env={**os.environ, "MAX_TOKENS": str(DATASETS["formula"].max_tokens)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if ended.returncode:
            sys.exit(f"ratchet migrate failed on {task}.")
        said = json.loads(ended.stdout.splitlines()[-1])
        evidence = json.loads(Path(said["evidence"]).read_text()) if said.get("evidence") else {}
        first = next(iter(proposals(root, said["run"])), None)
        sides = [of_rollouts(root, said[side]) for side in ("baseline_id", "candidate_id")]
    decided = evidence.get("decision", {})
    return {
        "old": said["baseline"] if said["baseline"] is not None else said["baseline_val"],
        "new_old_prompt": first,
        "new": said["candidate"] if said["candidate"] is not None else said["candidate_val"],
        "pairs": said["pairs"],
        "margin": decided.get("margin"),
        "at_worst": decided["interval"][0] if decided else None,
        "verdict": said["verdict"] or said["stage"],
        "sentence": said["message"],
        "guardrails": decided.get("guardrails"),
        "tokens": [tokens for tokens, _ in sides],
        "rollout_s": [seconds for _, seconds in sides],
        "seconds": round(time.monotonic() - began),
        "rollouts": said["rollouts"],
    }


def of_rollouts(root: Path, candidate_id: str | None) -> tuple[float | None, float | None]:
    """Mean tokens and mean seconds of the proof's rollouts of a candidate, if there are any."""
    if candidate_id is None:
        return None, None
    with Store.open(f"sqlite:///{root / '.ratchet' / 'ratchet.db'}") as store:
        rollouts, _ = store.rollouts.list(
            candidate_id=candidate_id, purpose="prove", status="succeeded", limit=10_000
        )
        spans = store.spans.of_newest_attempts([rollout.id for rollout in rollouts])
    if not rollouts:
        return None, None
    tokens = sum(
        span.attributes.get(name, 0)
        for of_rollout in spans.values()
        for span in of_rollout
        for name in (INPUT_TOKENS, OUTPUT_TOKENS)
    )
    seconds = math.fsum(rollout.duration_s or 0.0 for rollout in rollouts)
    return round(tokens / len(rollouts), 1), round(seconds / len(rollouts), 3)


def proposals(root: Path, run: str) -> list[float]:
    """Scores of the candidates that learning judged, in order."""
    shown = subprocess.run(
        [sys.executable, "-m", "ratchet", "candidates", "--run", run, "--json", "-C", str(root)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [each["value"] for each in json.loads(shown.stdout)["candidates"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer simulated runs")
    parser.add_argument("--real", action="store_true", help="move real models, too")
    parser.add_argument("--tasks", default="cricket_sql,support_router,formula")
    parser.add_argument("--data", type=Path, help="folder of the public data, for formula")
    parser.add_argument("--from", dest="old", default="qwen2.5-coder-1.5b")
    parser.add_argument("--to", default="qwen2.5-coder-0.5b")
    parser.add_argument("--journal", type=Path, default=ROOT / ".bench" / "migration.jsonl")
    given = parser.parse_args()
    figures = simulated(QUICK_RUNS if given.quick else RUNS)
    tasks: dict[str, Any] = {}
    if given.real:
        given.journal.parent.mkdir(parents=True, exist_ok=True)
        key = [given.old, given.to]
        lines = given.journal.read_text().splitlines() if given.journal.exists() else []
        done = {e["task"]: e for e in map(json.loads, lines) if e["models"] == key}
        for task in given.tasks.split(","):
            if task not in done and (task != "formula" or given.data):
                done[task] = {"task": task, "models": key, **move(task, given.data, *key)}
                with given.journal.open("a") as journal:
                    journal.write(json.dumps(done[task]) + "\n")
            print(json.dumps(done.get(task)), file=sys.stderr, flush=True)
        tasks = done
    figures["tasks"] = tasks
    print(json.dumps(figures))
    error = math.sqrt(ALPHA * (1 - ALPHA) / figures["runs"])
    sys.exit(int(figures["false_not_worse"] > ALPHA + 2 * error))


if __name__ == "__main__":
    main()
