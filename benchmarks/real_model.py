"""Measures what Ratchet learns with a real language model on this machine, and what it promotes.

    python benchmarks/real_model.py [--quick] [--seeds N] [--only letters,words]

The agent of `examples/letter_names` asks SmolLM2-135M (extra `local`), with a question for each
dataset as its instruction. `ratchet improve` then has the algorithm `auto`, which works with
examples in the prompt (FewShot) and with sampling (Tune): there is no coach, for the small model is
none. It is proved on tasks that learning never saw. Nobody made these datasets up for this:

- letters: Latin letters with marks, by their names in Python's Unicode database
- zones: time zones of the system, and the part of the world in each one's name
- words: positive and negative words, as people rated them for the lexicon of vaderSentiment

The negative control is the same with the answers shuffled among the tasks. Then all that can be
learned is the form of an answer, and to give the most frequent one: a promoted candidate that
scores higher than that, by more than three standard errors, is a false promotion.

Progress goes to stderr. The last line of stdout is one JSON object:

- datasets: name → baseline, best: mean score over the seeds, on held-out tasks where an experiment
  was held, else on val tasks; promoted: share of the seeds; calls of the model; seconds of a run;
  by_seed: baseline, best, promoted
- false_promotions: false promotions of the negative control; controls: its runs
- seconds: of everything

The exit code is 1 when there is a false promotion.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
import zoneinfo
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ratchet.cli.demo import example_folder

Pairs = list[tuple[str, str]]

MAX_TASKS = 300
"""Of a dataset; a larger one is sampled, always in the same way."""


QUICK_TASKS = 100

SEEDS, ROLLOUTS = 3, 500
TIMEOUT_S = 1800


def letters() -> Pairs:
    name = re.compile(r"LATIN (CAPITAL|SMALL) LETTER ([A-Z]) WITH .+")
    found = (name.fullmatch(unicodedata.name(chr(code), "")) for code in range(0xC0, 0x250))
    return [(m[0], m[2] if m[1] == "CAPITAL" else m[2].lower()) for m in found if m]


def zones() -> Pairs:
    areas = ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
    named = sorted(zoneinfo.available_timezones())
    return [(zone, zone.split("/")[0]) for zone in named if zone.startswith(areas) and "/" in zone]


def words() -> Pairs:
    spec = find_spec("vaderSentiment")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The dataset words needs a package: pip install vaderSentiment")
    path = Path(spec.submodule_search_locations[0]) / "vader_lexicon.txt"
    rated = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    found = {  # some words are rated twice
        word: "positive" if float(mean) > 0 else "negative"
        for word, mean, *_ in rated
        if word.isalpha() and abs(float(mean)) >= 1.5
    }
    return list(found.items())


TEST_SHARE = 0.4
"""Share of the tasks that a proof may use, by default."""

DATASETS: dict[str, tuple[str, Callable[[], Pairs]]] = {
    "letters": ("Which letter is this?", letters),
    "zones": ("Which part of the world is this time zone in?", zones),
    "words": ("Is the word positive or negative?", words),
}


def project(root: Path, question: str, pairs: Pairs) -> Path:
    """A repository with the agent and these tasks."""
    root.mkdir()
    example = example_folder("letter_names")
    source = (example / "agent.py").read_text(encoding="utf-8")
    (root / "agent.py").write_text(source.replace("Which letter is this?", question))
    config = (example / "ratchet.toml").read_text(encoding="utf-8")
    (root / "ratchet.toml").write_text(config)
    (root / ".gitignore").write_text(".ratchet/\n__pycache__/\n")
    lines = [json.dumps({"input": given, "expected": expected}) for given, expected in pairs]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@ratchet.invalid")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "An agent")):
        subprocess.run(["git", "-C", str(root), *who, *arguments], check=True)
    return root


def improved(root: Path, seed: int, rollouts: int) -> dict[str, Any]:
    """What `ratchet improve` comes to."""
    began = time.monotonic()
    command = [sys.executable, "-m", "ratchet", "improve", "--no-ship", "--json"]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--rollouts", str(rollouts)],
        cwd=root, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"ratchet improve failed:\n{done.stderr[-3000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    held_out = said["baseline"] is not None
    return {
        "baseline": said["baseline" if held_out else "baseline_val"],
        "best": said["candidate" if held_out else "candidate_val"],
        "promoted": said["verdict"] == "promote",
        "held_out": held_out,
        "calls": said["rollouts"],
        "seconds": round(time.monotonic() - began, 1),
    }


def tasks_of(name: str, *, shuffled: bool, most: int = MAX_TASKS) -> Pairs:
    pairs = DATASETS[name][1]()
    if len(pairs) > most:
        pairs = random.Random(0).sample(pairs, most)
    if shuffled:
        answers = [expected for _, expected in pairs]
        random.Random(1).shuffle(answers)
        pairs = [(given, expected) for (given, _), expected in zip(pairs, answers, strict=True)]
    return pairs


def measured(
    folder: Path, name: str, seeds: Sequence[int], rollouts: int, *, shuffled: bool, most: int
) -> list[dict[str, Any]]:
    label = f"{name}{', shuffled answers' if shuffled else ''}"
    pairs, runs = tasks_of(name, shuffled=shuffled, most=most), []
    for seed in seeds:
        root = project(folder / f"{name}-{shuffled}-{seed}", DATASETS[name][0], pairs)
        runs.append(improved(root, seed, rollouts))
        print(f"{label}, seed {seed}: {runs[-1]}", file=sys.stderr)
    return runs


def by_constant(name: str, most: int) -> float:
    """What an agent can score that always gives the most frequent answer, and three errors more."""
    answers = [expected for _, expected in tasks_of(name, shuffled=True, most=most)]
    share = max(map(answers.count, answers)) / len(answers)
    test = TEST_SHARE * len(answers)
    return share + 3 * (share * (1 - share) / test) ** 0.5


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 3) if known else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one dataset, one seed, for CI")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--rollouts", type=int, help=f"{ROLLOUTS} unless --quick")
    parser.add_argument("--only", default=",".join(DATASETS), help="datasets, by comma")
    given = parser.parse_args()
    names = given.only.split(",")
    for name in names:
        if name not in DATASETS:
            parser.error(f"There is no dataset {name!r}; there are {', '.join(DATASETS)}.")
    names = names[:1] if given.quick else names
    seeds = range(1 if given.quick else given.seeds)
    rollouts = given.rollouts or (80 if given.quick else ROLLOUTS)
    most = QUICK_TASKS if given.quick else MAX_TASKS

    began = time.monotonic()
    datasets: dict[str, Any] = {}
    controls: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-real-model-") as made:
        folder = Path(made)
        for name in names:
            runs = measured(folder, name, seeds, rollouts, shuffled=False, most=most)
            datasets[name] = {
                "baseline": mean([run["baseline"] for run in runs]),
                "best": mean([run["best"] for run in runs]),
                "promoted": mean([float(run["promoted"]) for run in runs]),
                "calls": mean([run["calls"] for run in runs]),
                "seconds": mean([run["seconds"] for run in runs]),
                "by_seed": runs,
            }
            shuffled = measured(folder, name, seeds, rollouts, shuffled=True, most=most)
            controls += [{**run, "most": by_constant(name, most)} for run in shuffled]
    wrong = sum(run["promoted"] and run["best"] > run["most"] for run in controls)
    result = {
        "model": "SmolLM2-135M-Instruct Q4_1",
        "algorithm": "auto",
        "datasets": datasets,
        "false_promotions": wrong,
        "controls": len(controls),
        "rollouts": rollouts,
        "seconds": round(time.monotonic() - began, 1),
        "quick": given.quick,
    }
    print(json.dumps(result))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
