"""Measures `ratchet init` in a large repository: seconds of the look, the wiring and the check.

    python benchmarks/wiring.py [--quick] [--files 50000]

The repository is made of modules without an agent around a small one of `openai`, with a test. The
last line of stdout is one JSON object: `files`, `look_s`, `init_s` (all of `ratchet init --yes`,
the check too) and `verified`, the findings of its check that are verified.

The exit code is 1 when the check does not verify the agent and its prompts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENT = """\
import openai

RULES = "You answer readers of a public library, and you say how long each book may be kept."


def ask(question: str) -> str:
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
    )
    return answer.choices[0].message.content
"""
PER_FOLDER = 100


def make(root: Path, files: int) -> None:
    """Write the repository and commit it."""
    for number in range(files):
        folder = root / f"part{number // (PER_FOLDER * 25)}" / f"group{number // PER_FOLDER}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        text = f'"""Module {number}."""\n\n\ndef value(x):\n    return x * {number}\n' * 3
        (folder / f"module{number}.py").write_text(text)
    (root / "desk.py").write_text(AGENT)
    (root / "requirements.txt").write_text("openai\n")
    (root / "test_desk.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n")
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
        subprocess.run(["git", *words], cwd=root, check=True, env=_environ())


def _environ() -> dict[str, str]:
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "Someone"), ("EMAIL", "someone@example.com"))
    }
    return {**os.environ, **who}


def _ratchet(root: Path, *words: str) -> tuple[float, str]:
    command = [sys.executable, "-m", "ratchet", "init", str(root), *words]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environ())
    print(done.stderr[-2000:], file=sys.stderr, end="")
    return time.perf_counter() - began, done.stdout


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 files, as in CI")
    parser.add_argument("--files", type=int, default=50_000)
    given = parser.parse_args()
    files = 1_000 if given.quick else given.files
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as folder:
        root = Path(folder) / "large"
        make(root, files)
        look_s, _ = _ratchet(root, "--look", "--json")
        init_s, page = _ratchet(root, "--yes", "--python", sys.executable)
    lines = [line.split() for line in page.splitlines()]
    verified = [
        " ".join(words[1:]).partition(":")[0] for words in lines if words[:1] == ["verified"]
    ]
    figures = {"files": files, "look_s": round(look_s, 1), "init_s": round(init_s, 1)}
    print(json.dumps({**figures, "verified": verified, "quick": given.quick}))
    return int(not {"agent", "same prompts", "changed prompts", "tests"} <= set(verified))


if __name__ == "__main__":
    raise SystemExit(main())
