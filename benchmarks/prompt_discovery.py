"""Measures how well the prompts of a system of several agents are discovered, and how fast.

    python benchmarks/prompt_discovery.py [--quick]

Each system has six agents with a prompt of about 150 words each: the first half is the same for all
of them, and the second has one slot or two, or none. The calls of a system are discovered with the
agents' names, with their tools alone, and by their texts alone. A template is right when it is the
one that made the texts. For the time there are 1,000 calls with prompts of 6 KB.

Progress goes to stderr. The last line of stdout is one JSON object:

- found: way of telling agents apart → calls of each agent → share of the agents whose template is
  found exactly
- wrong: the same for proposals that are no agent's template, relative to the agents
- seconds: CPU time for 1,000 calls of one agent without a name, and of four with one

The exit code is 1 when a template is wrong although the calls have names.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Sequence

from ratchet.bind.speakers import discover_by_speaker
from ratchet.types import PromptUse

AGENTS = 6
CALLS = (1, 2, 3, 5, 10, 40)
WAYS = ("names", "tools", "texts")
WORDS = re.findall(
    r"\w+",
    "refund policy customer please order item shipping returns window days late early email phone"
    " support contact ticket issue solve quickly slow price cost euro seat flight gate delay meal"
    " luggage lounge member points upgrade cancel rebook partner desk queue agent answer question"
    " polite brief formal source document search result verify number code date city route hotel",
)


class System:
    """Six agents whose prompts begin alike."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shared = f"You are one of several agents.\n{self.sentences(6)}\n"
        self.templates = [self._template(number % 3) for number in range(AGENTS)]

    def sentences(self, count: int) -> str:
        """Random sentences of twelve words."""
        return " ".join(
            f"{' '.join(self.random.choices(WORDS, k=12)).capitalize()}." for _ in range(count)
        )

    def calls(self, count: int, way: str) -> list[PromptUse]:
        """That many calls of each agent."""
        return [
            PromptUse(
                self._filled(template),
                f"agent {'abcdef'[number]}" if way == "names" else "",
                frozenset({f"tool {number}"} if way == "tools" else ()),
            )
            for number, template in enumerate(self.templates)
            for _ in range(count)
        ]

    def _template(self, slots: int) -> str:
        said = [self.sentences(2)]
        for number in range(1, slots + 1):
            said.append(f"The reference is {{slot_{number}}} here.")
            said.append(self.sentences(2))
        return self.shared + " ".join(said)

    def _filled(self, template: str) -> str:
        for number in (1, 2):
            value = f"LL{self.random.randrange(10**5)}"
            template = template.replace(f"{{slot_{number}}}", value)
        return template


def quality(systems: Sequence[System], way: str, count: int) -> tuple[float, float]:
    """Share of the agents whose template is found, and of the proposals that are wrong."""
    right = wrong = 0
    for system in systems:
        proposed = {
            proposal.template.text
            for proposal in discover_by_speaker(system.calls(count, way)).proposals
        }
        right += len(proposed & set(system.templates))
        wrong += len(proposed - set(system.templates))
    agents = AGENTS * len(systems)
    return round(right / agents, 3), round(wrong / agents, 3)


def seconds(speakers: int, repeats: int) -> float:
    """CPU seconds for 1,000 calls of that many agents; the fastest of the repeats."""
    source = System(1)
    documents = [source.sentences(15) for _ in range(40)]
    starts = [f"{source.shared}You are {n}. {source.sentences(40)}" for n in range(speakers)]
    calls = [
        PromptUse(
            f"{starts[number % speakers]}\nToday is 2026-11-{1 + number % 28:02}.\nDocuments:\n"
            + "\n\n".join(source.random.sample(documents, 2)),
            f"agent {'abcd'[number % speakers]}" if speakers > 1 else "",
        )
        for number in range(1_000)
    ]
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        discover_by_speaker(calls)
        taken.append(time.process_time() - began)
    print(
        f"{speakers} agents, {sum(len(use.text) for use in calls) / 1e6:.1f} KB each:"
        f" {min(taken):.2f} s",
        file=sys.stderr,
    )
    return round(min(taken), 3)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    systems = [System(seed) for seed in range(3 if quick else 30)]
    found: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    wrong: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    for way in WAYS:
        for count in CALLS[:4] if quick else CALLS:
            found[way][str(count)], wrong[way][str(count)] = quality(systems, way, count)
        print(f"{way}: found {found[way]}, wrong {wrong[way]}", file=sys.stderr)
    repeats = 1 if quick else 5
    times = {str(speakers): seconds(speakers, repeats) for speakers in (1, 4)}
    print(json.dumps({"found": found, "wrong": wrong, "seconds": times}))
    return int(any(wrong["names"].values()))


if __name__ == "__main__":
    sys.exit(main())
