"""Measures how much dead text `shorten` finds in a prompt, and whether the rest is proved no worse.

    python benchmarks/shorten.py [--quick] [--seeds N] [--real]

The prompt has about 1,500 tokens, 40 % of them dead: sentences, list items and paragraphs that no
answer depends on, in between of the rules. `ratchet improve` with the algorithm `shorten` searches
on train and val tasks and proves the result on test tasks, as in any project.

The agent is a simulator by default: it looks the rule for a ticket's topic up in the prompt, as
that stands, and does what it says; without it, it guesses. One answer in twenty is wrong by chance,
half of them for any prompt, half drawn anew for each prompt. With `--real` it is the example
`support_router`, whose model of half a billion parameters answers on this machine, with house
rules, two examples and dead text in its prompt, which has about 600 tokens then: an answer takes
some ten seconds of two busy cores.

Progress goes to stderr. The last line of stdout is one JSON object:

- agent: `simulator`, or the model's name
- tokens: tokens of the first prompt before, by its characters; dead: those of dead text
- shorter: the least share by which a run's prompt is shorter
- proved: share of the runs that are proved not worse; equal scores are planned to be in 0.8 of them
- lost: rules that are gone, of all runs
- runs: for each seed, the same figures; the verdict, scores on test tasks before and after, and the
  margin that was to be proved; dead_left: share of the dead text that is still there; rollouts of
  all stages; seconds

The exit code is 1 when a run of the simulator is less than 30 % shorter, or fewer than half of the
runs are proved.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.cli.demo import example_folder
from ratchet.learn.shorten.parts import tokens_in
from ratchet.store import Store
from ratchet.types import PromptTemplate

LEAST_SHORTER = 0.3
TIMEOUT_S = 7_200

TOPICS = (
    *(
        "refunds",
        "invoices",
        "passwords",
        "shipping",
        "warranties",
        "recalls",
        "vouchers",
        "returns",
    ),
    *("outages", "manuals", "upgrades", "addresses", "privacy", "complaints", "pricing", "spares"),
    *(
        "pickups",
        "payments",
        "contracts",
        "discounts",
        "newsletters",
        "repairs",
        "damages",
        "orders",
    ),
    *("cancellations", "subscriptions", "feedback", "jobs", "press", "partners"),
    *("leases", "filters"),
)
TEAMS = ("billing", "accounts", "logistics", "repairs", "legal", "sales")

DEAD = (
    "Our company was founded by two friends who could not find a decent kettle anywhere in town.",
    "We believe that every message deserves care, and that care is what sets us apart.",
    "This document has been reviewed by several departments and is updated from time to time.",
    "As always, do your very best, take a deep breath and think of how proud you will be.",
    "The help desk moved to the third floor last spring, where there is a view of the river.",
    "It is worth remembering that customers are people, and that people like to be helped.",
    "Earlier versions of these instructions were shorter, and they have grown over the years.",
    "Please keep in mind that our mission is to be the most loved brand for household appliances.",
    "The colours of our logo stand for warmth, trust and the sound of a boiling kettle.",
    "Many thanks to everybody who has contributed to these guidelines with great passion.",
    "Quality is not an act but a habit, as our founder likes to say at the yearly gathering.",
    "We won a prize for our service some years ago, and the trophy stands at the entrance.",
)
"""Text that no answer depends on."""


def rule(topic: str) -> str:
    team = TEAMS[TOPICS.index(topic) % len(TEAMS)]
    what = f"A ticket that is about {topic} always goes to the team {team}"
    return f"{what}, whatever else it says and whoever wrote it."


def prompt(seed: int) -> tuple[str, list[str]]:
    """A prompt with rules and dead text mixed, and its dead text."""
    draw = random.Random(f"prompt/{seed}")
    rules = [rule(topic) for topic in TOPICS]
    needed = sum(map(len, rules))
    dead: list[str] = []
    while sum(map(len, dead)) < 0.66 * needed:
        dead.append(f"{draw.choice(DEAD)[:-1]}, as note {len(dead) + 1} says.")
    lines = [*rules, *dead]
    draw.shuffle(lines)
    third = len(lines) // 3
    sections = [
        "\n".join(f"- {line}" for line in lines[:third]),
        "\n\n".join(lines[third : 2 * third]),
        " ".join(lines[2 * third :]),
    ]
    head = "You sort the tickets of a shop for household appliances. Answer with a team alone."
    return "\n\n".join([head, "# Rules", *sections]) + "\n", dead


SIMULATOR = '''"""A simulator of an agent: it does what the rule in its prompt says, or guesses."""

import random
import re
from pathlib import Path

import ratchet

SYSTEM = ratchet.prompt("system", {text!r}, engine="plain")


@ratchet.agent
def sort(ticket: str) -> str:
    text = str(SYSTEM)
    if min(random.Random(source).random() for source in (ticket, f"{{ticket}}/{{text}}")) < 0.025:
        return "general"
    topic = ticket.split()[-1]
    found = re.search(rf"about {{topic}} always goes to the team (\\w+)", text)
    return found[1] if found else "general"
'''

SETTINGS = """
[agent]
entry = "agent:sort"

[tasks]
file = "tasks.jsonl"
near_duplicates = false

[tasks.split]
train = 0.3
val = 0.2
test = 0.5

[[evaluators]]
use = "exact_match"

[run]
executor = "inline"

[improve]
algorithm = "shorten"

[improve.budget]
rollouts = 2000

[[guardrails]]
metric = "latency"
off = true
"""


def simulated(root: Path, seed: int) -> tuple[str, list[str], list[str]]:
    """A project with the simulator: its prompt, the rules and the dead text in it."""
    text, dead = prompt(seed)
    (root / "agent.py").write_text(SIMULATOR.format(text=text))
    (root / "ratchet.toml").write_text(SETTINGS)
    tasks = [
        {
            "input": f"Ticket {number} of customer {number * 7919 % 1000} is about {topic}",
            "expected": TEAMS[TOPICS.index(topic) % len(TEAMS)],
        }
        for number in range(600)
        for topic in [TOPICS[number % len(TOPICS)]]
    ]
    (root / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return text, [rule(topic) for topic in TOPICS], dead


ROUTER = """You sort the support tickets of a shop for household appliances.
Answer with one JSON object and nothing else. Its keys:
"team": safety, repairs, logistics, billing, accounts or sales,
"priority": how urgent it is,
"product": the kind of appliance that it is about, in one word, or null,
"order": the order number, or null.

# Rules

- Smoke, electric shocks and burning go to safety, with priority P1.
- An appliance that is broken goes to repairs, with priority P2.
- A delivery that is late goes to logistics, with priority P3.
- A wrong charge or invoice goes to billing, with priority P2.
- A refund that has not arrived goes to billing, with priority P3.
- A login or a password goes to accounts, with priority P3.
- A question before buying goes to sales, with priority P4.
- A business customer, such as a café or an office, is served one step sooner: P3 becomes P2.
- The product is a plain noun in small letters; the brand and the model's number are left out.
- The order number is a text of its digits. What a ticket does not say is null.

# Examples
"""


def real(root: Path, seed: int, *, quick: bool) -> tuple[str, list[str], list[str]]:
    """The example `support_router` with rules, examples and dead text in its prompt."""
    examples_shown, task_count, rollouts = (2, 40, 60) if quick else (2, 80, 150)
    example = example_folder("support_router")
    draw = random.Random(f"real/{seed}")
    lines = (example / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    tasks = [json.loads(line) for line in lines]
    draw.shuffle(tasks)
    shown, asked = tasks[:examples_shown], tasks[examples_shown:]
    examples = [
        f"Input: {task['input']}\nOutput: {json.dumps(task['expected'], ensure_ascii=False)}"
        for task in shown
    ]
    needed = [*ROUTER.split("\n\n"), *examples]
    dead: list[str] = []
    while sum(map(len, dead)) < 0.66 * sum(map(len, needed)):
        dead.append(f"{draw.choice(DEAD)[:-1]}, as note {len(dead) + 1} says.")
    pieces, left = [needed[0]], list(dead)
    for piece in needed[1:]:
        count = max(1, round(len(dead) / (len(needed) - 1)))
        pieces += [" ".join(left[:count]), piece]
        left = left[count:]
    pieces = [piece for piece in (*pieces, " ".join(left)) if piece]
    text = "\n\n".join(pieces)
    source = (example / "agent.py").read_text(encoding="utf-8")
    before, _, rest = source.partition('    """You sort')
    after = rest.partition('""",\n')[2]
    (root / "agent.py").write_text(
        f'{before}    {text!r},\n    engine="plain",\n{after}'.replace(
            "INSTRUCTION.format()", "str(INSTRUCTION)"
        )
    )
    settings = (example / "ratchet.toml").read_text(encoding="utf-8")
    head = settings.partition("[improve]")[0]
    head = head.replace("train = 0.3", "train = 0.2").replace("val = 0.05", "val = 0.2")
    head = head.replace("test = 0.65", "test = 0.6")
    tail = SETTINGS[SETTINGS.index("[improve]") :].replace("2000", str(rollouts))
    (root / "ratchet.toml").write_text(head + tail)
    rows = [{"input": task["input"], "expected": task["expected"]} for task in asked[:task_count]]
    (root / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = [line for line in ROUTER.splitlines() if line.startswith("- ")]
    return text, rules, dead


def shortened(seed: int, *, is_real: bool, quick: bool) -> dict[str, Any]:
    """What `ratchet improve` comes to in a new project."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        text, rules, dead = real(root, seed, quick=quick) if is_real else simulated(root, seed)
        (root / ".gitignore").write_text(".ratchet/\n__pycache__/\n")
        who = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@ratchet.invalid")
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "An agent")):
            subprocess.run(["git", "-C", folder, *who, *arguments], check=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "ratchet", "improve", "--no-ship", "--json"]
        done = subprocess.run(
            [*command, "--seed", str(seed)],
            cwd=root, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"ratchet improve failed:\n{done.stderr[-3000:]}")
        said = json.loads(done.stdout.splitlines()[-1])
        with Store.open(f"sqlite:///{root}/.ratchet/ratchet.db") as store:
            best = store.candidates.get(said["candidate_id"] or said["baseline_id"])
        (template,) = best.resources.values() or (PromptTemplate(text, "plain"),)
        assert isinstance(template, PromptTemplate)
        evidence = json.loads(Path(root, said["evidence"]).read_text()) if said["evidence"] else {}
    print(f"seed {seed}: {said['message']}", file=sys.stderr)
    return {
        "shorter": round(1 - tokens_in(template.text) / tokens_in(text), 3),
        "tokens": [tokens_in(text), tokens_in(template.text)],
        "dead_tokens": sum(map(tokens_in, dead)),
        "verdict": said["verdict"],
        "before": said["baseline"],
        "after": said["candidate"],
        "margin": evidence.get("plan", {}).get("margin"),
        "pairs": said["pairs"],
        "lost": sum(rule not in template.text for rule in rules),
        "dead_left": round(sum(line in template.text for line in dead) / len(dead), 3),
        "rollouts": said["rollouts"],
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--real", action="store_true", help="a real model on this machine")
    options = parser.parse_args()
    seeds = 1 if options.quick or options.real else options.seeds
    runs = [shortened(seed, is_real=options.real, quick=options.quick) for seed in range(seeds)]
    least = min(run["shorter"] for run in runs)
    proved = sum(run["verdict"] == "promote" for run in runs) / len(runs)
    result = {
        "agent": "qwen2.5-coder-0.5b" if options.real else "simulator",
        "tokens": runs[0]["tokens"][0],
        "dead": runs[0]["dead_tokens"],
        "shorter": least,
        "proved": round(proved, 3),
        "lost": sum(run["lost"] for run in runs),
        "runs": runs,
    }
    print(json.dumps(result))
    return 0 if options.real or (proved >= 0.5 and least >= LEAST_SHORTER) else 1


if __name__ == "__main__":
    sys.exit(main())
