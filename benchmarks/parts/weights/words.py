"""An agent in plain Python whose model is trained: positive and negative words.

    python benchmarks/parts/weights/words.py [--algorithm NAME] [--words N] [--folder FOLDER]
        [--device DEVICE] [--dtype TYPE]

The agent is a program of the standard library that asks `$OPENAI_BASE_URL`; nothing in it knows of
Ratchet. The words are those of vaderSentiment's lexicon that people rated clearly, split by their
stems. `ratchet improve` trains SmolLM2-135M on the train words, and proves
the trained weights on words that it never saw. The last line of stdout is one JSON object: verdict,
baseline and candidate (accuracy on held-out words), and seconds of everything.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

AGENT = '''
"""Says whether a word is positive or negative. It asks the model at OPENAI_BASE_URL."""

import json
import os
import sys
import urllib.request

task = json.load(sys.stdin)
messages = [
    {"role": "system", "content": "Is the word positive or negative? Answer with one word."},
    {"role": "user", "content": task["input"]},
]
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(
        {"model": "local/smollm2", "messages": messages, "temperature": 0, "max_tokens": 3}
    ).encode(),
    {
        "Content-Type": "application/json",
        "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
    },
)
with urllib.request.urlopen(request, timeout=60) as response:
    print(json.load(response)["choices"][0]["message"]["content"].strip(" .\\n").lower())
'''

CONFIG = """
[agent]
command = "{python} agent.py"
model = "local"
device = "{device}"
dtype = "{dtype}"

[tasks]
file = "tasks.jsonl"
near_duplicates = false
group_by = "metadata.stem"

[tasks.split]
train = 0.45
val = 0.15
test = 0.4

[[evaluators]]
use = "exact_match"

[run]
concurrency = 6

[improve]
algorithm = "{algorithm}"

[improve.options]
{options}

[[guardrails]]
metric = "latency"
off = true
"""

RATE = "learning_rate = 5e-4"

OPTIONS = {
    "sft": f"epochs = 4\n{RATE}",
    "dpo": f"epochs = 4\nrepetitions = 1\n{RATE}",
    "grpo": f"steps = 6\ntasks = 4\nrepetitions = 4\nvalidate_every = 3\n{RATE}",
    "ppo": f"steps = 6\ntasks = 16\nvalidate_every = 3\n{RATE}",
    "auto": 'algorithms = ["few_shot", "sft"]\n\n[improve.budget]\nrollouts = 500',
}
"""Options by algorithm, for some minutes on two cores."""

CLEAR = 1.5
"""Least distance of a word's mean rating from 0; people rated from -4 to 4."""


def words(count: int) -> list[dict[str, Any]]:
    """Tasks of clearly rated words, as many of either kind; the same for the same count."""
    spec = find_spec("vaderSentiment")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The words need a package: pip install vaderSentiment")
    path = Path(spec.submodule_search_locations[0]) / "vader_lexicon.txt"
    rated = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    found = {word: float(mean) for word, mean, *_ in rated if word.isalpha()}
    clear = sorted(word for word, mean in found.items() if abs(mean) >= CLEAR)
    random.Random(0).shuffle(clear)
    kinds = [[w for w in clear if (found[w] > 0) is positive] for positive in (True, False)]
    some = [word for kind in kinds for word in kind[: count // 2]]
    return [
        {
            "id": word,
            "input": word,
            "expected": "positive" if found[word] > 0 else "negative",
            "metadata": {"stem": word[:5]},
        }
        for word in some
    ]


def project(
    root: Path, count: int, algorithm: str, *, device: str = "cpu", dtype: str = "float32"
) -> None:
    """Write the agent, its configuration and its tasks, as a git repository."""
    root.mkdir(parents=True)
    (root / "agent.py").write_text(AGENT, encoding="utf-8")
    config = CONFIG
    for name, value in (
        ("python", shlex.quote(sys.executable)),
        ("device", device),
        ("dtype", dtype),
        ("algorithm", algorithm),
        ("options", OPTIONS[algorithm]),
    ):
        config = config.replace(f"{{{name}}}", value)
    (root / "ratchet.toml").write_text(config, encoding="utf-8")
    lines = [json.dumps(task) for task in words(count)]
    (root / "tasks.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / ".gitignore").write_text(".ratchet/\n__pycache__/\n", encoding="utf-8")
    who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@ratchet.invalid")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "An agent")):
        subprocess.run(["git", "-C", str(root), *who, *arguments], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when the trained weights were promoted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--algorithm", choices=OPTIONS, default="sft")
    parser.add_argument("--folder", type=Path, help="keep the project in this new folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ratchet-words-") as scratch:
        root = options.folder or Path(scratch) / "words"
        project(root, options.words, options.algorithm, device=options.device, dtype=options.dtype)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "ratchet", "improve", "--json"],
            cwd=root, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.returncode
        said = json.loads(done.stdout.splitlines()[-1])
        found = {name: said[name] for name in ("verdict", "baseline", "candidate")}
        print(json.dumps({**found, "seconds": round(time.monotonic() - began, 1)}))
        return 0 if said["verdict"] == "promote" else 1


if __name__ == "__main__":
    sys.exit(main())
