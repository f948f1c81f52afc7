"""Measures `ratchet init` in a large repository: seconds of the look, and from command to verified.

    python benchmarks/wiring.py [--quick] [--files 50000]

The repository is made of modules without an agent around a small one that asks a model over HTTP.
The simulated model answers. The last line of stdout is one JSON object: `files`, `look_s`, `init_s`
(from the command to the commit), `own_s` (the same without the time that the agent itself ran),
`mode`, and `verified`, the findings that hold.

The exit code is 1 when the wiring is not verified.
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
import json
import os
import sys
import urllib.request

RULES = "You answer readers of a public library, and you say how long each book may be kept."


def ask(question: str) -> str:
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": question}]
    body = json.dumps({"model": "gpt-4o-mini", "messages": messages}).encode()
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    request = urllib.request.Request(f"{base}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]


if __name__ == "__main__":
    print(ask(sys.argv[1]))
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
    command = [sys.executable, "-m", "ratchet", "init", "--json", "--in", str(root), *words]
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
        look_s, _ = _ratchet(root, "--look")
        command = ("--", sys.executable, "desk.py", "How long may I keep it?")
        init_s, printed = _ratchet(root, "--simulated", *command)
    said = json.loads(printed)
    figures = {
        "files": files,
        "look_s": round(look_s, 1),
        "init_s": round(init_s, 1),
        "own_s": round(init_s - said["seconds"] + said["own_seconds"], 1),
        "mode": said["mode"],
        "verified": [finding["name"] for finding in said["findings"] if finding["holds"]],
    }
    print(json.dumps({**figures, "quick": given.quick}))
    return int(len(figures["verified"]) < len(said["findings"]))


if __name__ == "__main__":
    raise SystemExit(main())
