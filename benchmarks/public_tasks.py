"""Measures what is learned on public tasks with real models, beside the packages gepa and DSPy.

    python benchmarks/public_tasks.py --data FOLDER [--only SYSTEM,…] [--tasks NAME,…]
        [--calls 250] [--seeds 1] [--minutes N] [--journal FILE] [--model NAME] [--small NAME]
        [--served NAME=URL …]

The agent is one call of a model on this machine, whose instruction may be learned. All systems get
the same train and val tasks, the same first prompt, and a budget of calls of the model; ours spends
its proof from it. The coach of all is the larger model, which is a weak one. The test tasks are
seen by no system, and scored by one scorer outside of all (benchmarks/parts/public_tasks/data.py).

A run takes minutes to an hour, so each goes into a journal when it ends, and the next start goes on
from there: first the source, then ours, then the peers, dataset by dataset. Run alone on the
machine. With --served, the models of these names answer elsewhere, on a GPU for instance, and
several of these commands may run at once. Without --data nothing is run. The last line of stdout is
one JSON object of all that the journal has for these calls and models:

- source, score: task → mean and its bootstrap interval; task → system → the same
- gain: task → system → mean of the paired difference to the source, and its interval
- calls, coach_calls, seconds, cpu_s: task → system → of the model, of the coach, of the run, and of
  the system's own processes
- promoted: task → system of ours → whether it was shipped
- found: task → system of ours → the score of its best candidate, proved or not, as peers return
  theirs
- wrong_promotions: shipped ones whose interval of gain lies below 0
- wholly_below: pairs of task and peer where the interval of ours minus the peer lies below 0
- mean_ours, mean_found, mean_best_peer: means over all tasks, of what auto shipped, of what it
  found, and of the peer whose mean is highest; null while one has not run on all
- at_once, machine: calls at once, and the machine's cores
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "public_tasks"
sys.path[:0] = [str(PARTS), str(PARTS.parent)]

from data import DATASETS, PublicTask, Splits, splits  # noqa: E402
from environments import bin_of  # noqa: E402

from ratchet.run.model_relay import Exchange, ModelRelay  # noqa: E402

OURS = ("auto", "few_shot", "apo")
PEERS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "gepa": ("with_gepa.py", (), ("gepa==0.1.4", "openai")),
    "dspy-mipro": ("with_dspy.py", ("mipro",), ("dspy==3.0.4", "openai", "optuna")),
    "dspy-random": ("with_dspy.py", ("random",), ("dspy==3.0.4", "openai", "optuna")),
}
SYSTEMS = ("source", *OURS, *PEERS)
DEFAULT = ("source", "auto", "few_shot", *PEERS)

START_S, RUN_S = 300.0, 4 * 3600.0
AT_ONCE = 4
RESAMPLES = 4_000

CONFIG = """
[agent]
entry = "agent:answer"

[tasks]
file = "tasks.jsonl"
near_duplicates = false

[tasks.split]
train = 0.4
val = 0.2
test = 0.4

[[evaluators]]
{evaluator}

[run]
executor = "async"
concurrency = {at_once}
timeout_s = 600

# Peers compare scores alone.
[[guardrails]]
metric = "latency"
off = true

[improve]
algorithm = "{system}"

[improve.budget]
rollouts = {calls}

[coach]
model = "coach"
base_url = "{coach}"
key_env = ""
timeout_s = 900
total_s = 1800
max_tokens = 800
"""


class Models:
    """The two models by what they do, each behind a relay that counts its calls.

    Args:
        served: Base URL by `task` and `coach`, which may be the same.
    """

    def __init__(self, served: dict[str, str]) -> None:
        self._counting = threading.Lock()
        self.counts = dict.fromkeys(served, 0)
        self.relays = {
            role: ModelRelay({role: url}, ended=partial(self._ended, role), trust_env=False)
            for role, url in served.items()
        }

    def _ended(self, role: str, exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            with self._counting:
                self.counts[role] += 1

    def url(self, role: str) -> str:
        """Where a system reaches a model."""
        return f"{self.relays[role].url}/{role}"


@contextmanager
def served(name: str, log: Path) -> Iterator[str]:
    """A model of this machine, by its base URL with the version."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ratchet", "model", name, "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/models", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        else:
            sys.exit(f"The model {name} is not served:\n{log.read_text()[-2000:]}")
        yield url
    finally:
        process.terminate()
        process.wait()


def project(
    root: Path, dataset: str, system: str, learned: Sequence[PublicTask], **values: Any
) -> None:
    """A repository with the agent and the tasks that systems learn from."""
    root.mkdir(parents=True)
    spec = DATASETS[dataset]
    source = (PARTS / "agent.py").read_text(encoding="utf-8")
    (root / "agent.py").write_text(source.replace("FIRST PROMPT", spec.prompt))
    for name in ("data.py", "evaluators.py"):
        shutil.copy(PARTS / name, root / name)
    config = CONFIG.format(evaluator=spec.evaluator, system=system, at_once=AT_ONCE, **values)
    (root / "ratchet.toml").write_text(config)
    (root / ".gitignore").write_text(".ratchet/\n__pycache__/\n")
    lines = [
        json.dumps({"id": task.id, "input": task.input, "expected": task.expected, **task.metadata})
        for task in learned
    ]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "An agent")


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@ratchet.invalid")
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def answers_of(root: Path, test: Sequence[PublicTask], environ: dict[str, str]) -> list[str]:
    """What the agent of a folder answers."""
    asked, said = root / ".ratchet-asked.json", root / ".ratchet-said.json"
    asked.write_text(json.dumps({"questions": [task.input for task in test], "at_once": AT_ONCE}))
    command = [sys.executable, "agent.py", asked.name, said.name]
    subprocess.run(command, cwd=root, env=environ, check=True, timeout=RUN_S)
    return list(json.loads(said.read_text()))


def run_ours(
    root: Path, system: str, dataset: str, split: Splits, models: Models, calls: int, seed: int
) -> dict[str, Any]:
    """One run of `ratchet improve`, and the answers of what it ships, and of its best candidate."""
    project(
        root, dataset, system, [*split.train, *split.val], calls=calls, coach=models.url("coach")
    )
    environ = {
        **os.environ,
        "OPENAI_BASE_URL": models.url("task"),
        "OPENAI_API_KEY": "none",
        "MAX_TOKENS": str(DATASETS[dataset].max_tokens),
    }
    result: dict[str, Any] = {"promoted": False, "found": DATASETS[dataset].prompt}
    if system != "source":
        command = [sys.executable, "-m", "ratchet", "improve", "--json", "--seed", str(seed)]
        ended = subprocess.run(
            command,
            cwd=root,
            env=environ,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        if ended.returncode:
            sys.exit(f"ratchet improve failed:\n{ended.stderr[-3000:]}")
        said = json.loads(ended.stdout.splitlines()[-1])
        result = {key: said[key] for key in ("verdict", "baseline", "candidate", "rollouts")}
        result["promoted"] = said["verdict"] == "promote"
        if result["promoted"]:
            git(root, "checkout", "-q", said["branch"])
        result["found"] = instruction_of(root, said["candidate_id"] or said["baseline_id"])
    before = dict(models.counts)
    result["answers"] = answers_of(root, split.test, environ)
    if not result["promoted"] and result["found"] != DATASETS[dataset].prompt:
        agent = root / "agent.py"
        first = json.dumps(DATASETS[dataset].prompt)
        agent.write_text(agent.read_text().replace(first, repr(result["found"])))
        result["found_answers"] = answers_of(root, split.test, environ)
    result["test_calls"] = models.counts["task"] - before["task"]
    return result


def instruction_of(root: Path, candidate: str) -> str:
    """The text of a candidate's prompt."""
    command = [sys.executable, "-m", "ratchet", "show", candidate, "--json"]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return str(json.loads(shown.stdout)["resources"]["instruction"]["text"])


def run_peer(
    root: Path, system: str, dataset: str, split: Splits, models: Models, calls: int, seed: int
) -> dict[str, Any]:
    """One run of a peer in its own environment."""
    script, arguments, needs = PEERS[system]
    python = bin_of(system.partition("-")[0], *needs) / "python"
    root.mkdir(parents=True)
    job = {
        "dataset": dataset,
        **split._asdict(),
        "task_url": models.url("task"),
        "coach_url": models.url("coach"),
        "calls": calls,
        "seed": seed,
        "at_once": AT_ONCE,
    }
    (root / "job.json").write_text(json.dumps(job))
    command = [str(python), str(PARTS / script), "job.json", "result.json", *arguments]
    with (root / "log").open("w") as log:
        ended = subprocess.run(
            command, cwd=root, stdout=log, stderr=log, timeout=RUN_S, check=False
        )
    if ended.returncode:
        sys.exit(f"{system} failed:\n{(root / 'log').read_text()[-3000:]}")
    return {**json.loads((root / "result.json").read_text()), "test_calls": len(split.test)}


def interval(values: Sequence[float]) -> list[float]:
    """Mean, and the bounds of its 95 % bootstrap interval."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    return [round(value, 4) for value in (statistics.fmean(values), low, high)]


def scores(dataset: str, test: Sequence[PublicTask], answers: Sequence[str]) -> list[float]:
    spec = DATASETS[dataset]
    return [spec.score(answer, task).value for answer, task in zip(answers, test, strict=True)]


def report(runs: list[dict[str, Any]], data: Path) -> dict[str, Any]:
    """The figures of the runs; several seeds of a system are averaged task by task."""
    by_task: dict[str, dict[str, list[float]]] = {}
    found: dict[str, dict[str, list[float]]] = {}
    figures: dict[str, dict[str, dict[str, Any]]] = {
        key: {} for key in ("calls", "coach_calls", "seconds", "cpu_s", "promoted")
    }
    wrong = 0
    for dataset in dict.fromkeys(run["dataset"] for run in runs):
        test = splits(DATASETS[dataset].load(data)).test
        of_system: dict[str, list[list[float]]] = {}
        found_by: dict[str, list[list[float]]] = {}
        for run in (run for run in runs if run["dataset"] == dataset):
            of_system.setdefault(run["system"], []).append(scores(dataset, test, run["answers"]))
            if run["system"] in OURS:
                best = run.get("found_answers", run["answers"])
                found_by.setdefault(run["system"], []).append(scores(dataset, test, best))
            for key, values in figures.items():
                if key in run:
                    values.setdefault(dataset, {})[run["system"]] = run[key]
        by_task[dataset], found[dataset] = (
            {
                system: [statistics.fmean(values) for values in zip(*seeds, strict=True)]
                for system, seeds in by_system.items()
            }
            for by_system in (of_system, found_by)
        )
    gains: dict[str, dict[str, list[float]]] = {}
    below = []
    for dataset, of in by_task.items():
        for system, values in of.items():
            if system != "source" and "source" in of:
                gain = interval([a - b for a, b in zip(values, of["source"], strict=True)])
                gains.setdefault(dataset, {})[system] = gain
                wrong += bool(figures["promoted"].get(dataset, {}).get(system) and gain[2] < 0)
            if system in PEERS and "auto" in of:
                less = interval([a - b for a, b in zip(of["auto"], values, strict=True)])
                below += [[dataset, system]] if less[2] < 0 else []
    mean = {
        system: statistics.fmean(statistics.fmean(of[system]) for of in by_task.values())
        for system in SYSTEMS
        if by_task and all(system in of for of in by_task.values())
    }
    found_means = [statistics.fmean(of["auto"]) for of in found.values() if "auto" in of]
    peers = [mean[system] for system in PEERS if system in mean]
    return {
        "source": {name: interval(of["source"]) for name, of in by_task.items() if "source" in of},
        "score": {
            name: {system: interval(values) for system, values in of.items() if system != "source"}
            for name, of in by_task.items()
        },
        "gain": gains,
        **figures,
        "found": {
            name: {system: interval(values) for system, values in of.items()}
            for name, of in found.items()
        },
        "wrong_promotions": wrong,
        "wholly_below": below,
        "mean_ours": round(mean["auto"], 4) if "auto" in mean else None,
        "mean_found": round(statistics.fmean(found_means), 4) if "auto" in mean else None,
        "mean_best_peer": round(max(peers), 4) if peers else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help="folder of the public data")
    parser.add_argument("--only", default=",".join(DEFAULT), help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--tasks", default=",".join(DATASETS), help=f"of {', '.join(DATASETS)}")
    parser.add_argument("--calls", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0, help="start no run after these")
    parser.add_argument("--journal", type=Path, default=ROOT / ".bench" / "public_tasks.jsonl")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="answers, and coaches all")
    parser.add_argument(
        "--small", default="qwen2.5-coder-0.5b", help="answers where `data.py` says so"
    )
    parser.add_argument(
        "--served",
        nargs="*",
        default=[],
        metavar="NAME=URL",
        help="base URL with the version, of a model that is served already",
    )
    parser.add_argument("--quick", action="store_true", help="without --data: nothing to run")
    given = parser.parse_args()
    if given.data is None:
        print("Public tasks need their data: --data FOLDER. Nothing was run.", file=sys.stderr)
        print(json.dumps({"source": {}, "score": {}, "runs": 0, "quick": given.quick}))
        return
    elsewhere = {name: url for name, _, url in (at.partition("=") for at in given.served)}
    if not all(elsewhere.values()) or not {*elsewhere} <= {given.model, given.small}:
        parser.error(f"--served takes NAME=URL, of {given.model} or {given.small}.")
    systems, datasets = given.only.split(","), given.tasks.split(",")
    if unknown := [*({*systems} - {*SYSTEMS}), *({*datasets} - {*DATASETS})]:
        parser.error(f"There is no {', '.join(unknown)}.")
    # Ended by a signal, it ends the models that it serves.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given.journal.parent.mkdir(parents=True, exist_ok=True)
    given.journal.touch()
    began = time.monotonic()
    same = {
        "calls_allowed": given.calls,
        "model": Path(given.model).name.removesuffix(".gguf"),
        "small": Path(given.small).name.removesuffix(".gguf"),
    }

    def journal() -> list[dict[str, Any]]:
        lines = map(json.loads, given.journal.read_text().splitlines())
        return [run for run in lines if all(run[key] == value for key, value in same.items())]

    with tempfile.TemporaryDirectory(prefix="ratchet-public-tasks-") as made:
        for dataset in datasets:
            spec = DATASETS[dataset]
            split = splits(spec.load(given.data))
            have = {(run["dataset"], run["system"], run["seed"]) for run in journal()}
            todo = [
                (system, seed)
                for system in sorted(systems, key=SYSTEMS.index)
                for seed in range(1 if system == "source" else given.seeds)
                if (dataset, system, seed) not in have
            ]
            if not todo:
                continue
            folder = Path(made) / dataset
            folder.mkdir()
            with ExitStack() as serving:
                answering = given.small if spec.small else given.model
                urls = {
                    name: elsewhere.get(name)
                    or serving.enter_context(served(name, folder / f"model-{number}.log"))
                    for number, name in enumerate(dict.fromkeys((answering, given.model)))
                }
                models = Models({"task": urls[answering], "coach": urls[given.model]})
                for relay in models.relays.values():
                    serving.enter_context(relay)
                for system, seed in todo:
                    if given.minutes and time.monotonic() - began > given.minutes * 60:
                        break
                    models.counts.update(task=0, coach=0)
                    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
                    run = run_peer if system in PEERS else run_ours
                    result = run(
                        folder / f"{system}-{seed}",
                        system, dataset, split, models, given.calls, seed,
                    )  # fmt: skip
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
                    line = {
                        "dataset": dataset, "system": system, "seed": seed, **same, **result,
                        "calls": models.counts["task"] - result.pop("test_calls"),
                        "coach_calls": models.counts["coach"],
                        "seconds": round(time.monotonic() - start, 1),
                        "cpu_s": round(cpu, 1),
                    }  # fmt: skip
                    with given.journal.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    mean = statistics.fmean(scores(dataset, split.test, result["answers"]))
                    print(
                        f"{dataset}, {system}, seed {seed}: {mean:.3f} on"
                        f" {len(split.test)} test tasks, {line['calls']} calls,"
                        f" {line['seconds']:.0f} s",
                        file=sys.stderr, flush=True,
                    )  # fmt: skip
    runs = journal()
    machine = {"cores": os.cpu_count(), "system": platform.platform()}
    print(json.dumps({**report(runs, given.data), "runs": len(runs), **same, "at_once": AT_ONCE,
                      "machine": machine, "quick": given.quick}))  # fmt: skip


if __name__ == "__main__":
    main()
