"""A project whose function evolves, and the bad answers that a coach may give about it.

The coach here is no simulator of a model: it answers one thing, whatever it is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests import interpreters
from tests.autopilot.code_project import AGENT
from tests.llm.endpoint import Reaction, Request, answer
from tests.repositories import committed

KEY = "sk-bad-0123456789abcdefghijklmnopqrstuv"

CHECK = "Answer with the word: ready"

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "agent:right"
vouched = true

[tasks.split]
train = 0.25
val = 0.15
test = 0.6

[run]
concurrency = 2
timeout_s = 1
attempts = 1

[sandbox]
memory_mb = 256

[coach]
model = "gpt-4o-mini"
base_url = "{url}"
timeout_s = {timeout_s}
total_s = {total_s}
retries = 1

[improve]
algorithm = "{algorithm}"
{options}

[improve.budget]
{budget}

[[guardrails]]
metric = "latency"
off = true
"""

HEAD = 'def digits(number: int) -> int:\n    """The digits of a number, added up."""\n'

HONEST = f"{HEAD}    return sum(int(digit) for digit in str(number))\n"

React = Callable[[Request], Reaction]


def make_project(
    folder: Path,
    url: str,
    *,
    algorithm: str = "evolve",
    options: str = 'options = { proposers = ["llm"] }',
    budget: str = "rollouts = 200\ndollars = 0.02",
    timeout_s: float = 10.0,
    count: int = 100,
) -> Path:
    """A project in a git repository, committed."""
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    config = CONFIG.format(
        url=url,
        algorithm=algorithm,
        options=options,
        budget=budget,
        timeout_s=timeout_s,
        total_s=2 * timeout_s,
    )
    (folder / "ratchet.toml").write_text(config)
    numbers = [1000 + 7919 * n for n in range(count)]
    lines = [
        json.dumps({"id": f"t{n}", "input": number, "expected": sum(map(int, str(number)))})
        for n, number in enumerate(numbers)
    ]
    (folder / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    return committed(folder)


def run(project: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command of Ratchet in a project."""
    return interpreters.run(
        [sys.executable, "-m", "ratchet", *arguments],
        cwd=project,
        env={**os.environ, "OPENAI_API_KEY": KEY, "COLUMNS": "200", **environ},
        timeout=240,
    )


def bodies(project: Path) -> dict[str, str]:
    """Bodies of functions that parse and do harm, by what they do; `{n}` makes each a new one."""
    return {
        "loops forever": "    while True:\n        number += {n}\n",
        "eats memory": "    held = [bytearray(10**7 + {n})]\n    while True:\n"
        "        held.append(bytearray(10**7))\n",
        "prints megabytes": "    for line in range(10**5):\n        print('x' * 400, {n})\n"
        "    return 0\n",
        "reads the task file": "    import json\n"
        f"    for line in open({str(project / 'tasks.jsonl')!r}):\n"
        "        task = json.loads(line)\n        if task['input'] == number:\n"
        "            return task['expected']\n    return {n}\n",
        "calls os._exit": "    import os\n    os._exit({n} % 2)\n",
        "returns what is no JSON": "    return (value for value in [number, {n}])\n",
        "returns a set": "    return {{number, {n}, object}}\n",
        "raises SystemExit": "    raise SystemExit({n})\n",
        "recurses deeply": "    return digits(number + {n} + 1)\n",
        "imports what is absent": "    import no_such_module_{n}\n    return number\n",
        "writes a file": f"    with open({str(project / 'written')!r}, 'w') as file:\n"
        "        file.write('{n}')\n    return 0\n",
        "forks": "    import os\n    while True:\n        os.fork()\n        number += {n}\n",
    }


def texts() -> dict[str, str]:
    """Answers that hold no function that fits, by what is wrong; `{n}` makes each a new one."""
    return {
        "does not parse": "```python\ndef digits(number: int) -> int:\n    return ({n}\n```",
        "changes the signature": "```python\ndef digits(n: int, base: int = {n}) -> int:\n"
        "    return n\n```",
        "renames the function": "```python\ndef digits_{n}(number: int) -> int:\n"
        "    return number\n```",
        "another format": '{{"thought": "add them up", "steps": ["split", "sum", {n}]}}',
        "another language": "```javascript\nconst digits = (n) => [...`${{n}}`].reduce((a, b) =>"
        " +a + +b, {n});\n```",
        "prose in French": "Il faudrait additionner les chiffres, mais je ne sais pas comment {n}.",
        "refuses": "I'm sorry, but I can't help with that. ({n})",
        "a block that is not there": "<<<<<<< SEARCH\n    return {n} * 7\n=======\n"
        "    return 1\n>>>>>>> REPLACE",
        "the same again": "```python\n{head}    return 0  # nobody has done it yet\n```",
        "null bytes": "```python\n{head}    return {n}\x00\n```",
        "a tower of brackets": "```python\n{head}    return " + "(" * 5000 + "{n}" + "\n```",
    }


class Says:
    """Bad answers in turn, each a little different from those before.

    Args:
        texts: The answers; `{n}` is a number that grows, `{head}` the function's head.
    """

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked = 0

    def __call__(self, request: Request) -> Reaction:
        """What is answered."""
        if CHECK in request.said:
            return answer("ready")
        text = self.texts[self.asked % len(self.texts)]
        self.asked += 1
        return answer(text.format(n=self.asked, head=HEAD))


def code(body: str) -> str:
    """An answer with this body of the function."""
    return f"It adds them up now.\n\n```python\n{{head}}{body}```"
