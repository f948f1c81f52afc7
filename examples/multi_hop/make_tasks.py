"""Writes paragraphs.json and tasks.jsonl: `python make_tasks.py`.

`--data hotpot.json` takes a file in HotpotQA's form instead. The graph is invented: people work
for firms, firms are in towns, towns lie on rivers. A question needs two of its paragraphs.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEED = 39
TASKS = 240
FIRST = "Anna Boris Clara David Elena Farid Greta Henry Irina Jonas Karin Luis Maria Niels Olga"
LAST = "Abel Brandt Costa Duval Eriks Falk Gruber Holm Ivers Jansen Keller Lund Meyer Novak"
FIRM = "Alto Brisk Cobalt Delta Ember Fjord Granite Harbor Indigo Juniper Krypton Lumen Meridian"
TRADE = "Foods Motors Tools Textiles Optics"
TOWN = "Ald Bran Car Dun Els Fair Glen Hart Ivy Kings"
ENDING = "bury ford ham ton"
RIVER = "Arno Blyth Calder Derwent Esk Forth Ganges Hull"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Writes paragraphs.json and tasks.jsonl.")
    parser.add_argument("--data", type=Path, help="a JSON file in HotpotQA's form")
    data = parser.parse_args().data
    luck = random.Random(SEED)
    paragraphs, tasks = from_graph(luck) if data is None else from_hotpot(data)
    (HERE / "paragraphs.json").write_text(
        json.dumps(paragraphs, ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
    )
    lines = "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks)
    (HERE / "tasks.jsonl").write_text(lines, encoding="utf-8")


def task(number: int, question: str, answer: str, titles: list[str]) -> dict[str, Any]:
    """A task; the tool calls are the paragraphs to be read."""
    reads = [{"name": "read", "arguments": {"title": title}} for title in titles]
    return {"id": f"hop-{number:03d}", "input": question, "expected": answer, "tool_calls": reads}


def from_hotpot(data: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Paragraphs and questions of HotpotQA: `context`, `supporting_facts`, `question`, `answer`."""
    paragraphs: dict[str, str] = {}
    tasks = []
    for number, asked in enumerate(json.loads(data.read_text(encoding="utf-8")), 1):
        paragraphs |= {title: "".join(sentences) for title, sentences in asked["context"]}
        titles = list(dict.fromkeys(title for title, _ in asked["supporting_facts"]))
        tasks.append(task(number, asked["question"], asked["answer"], titles))
    return paragraphs, tasks


def from_graph(luck: random.Random) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Paragraphs and questions of an invented graph."""
    towns = luck.sample([f"{a}{b}" for a in TOWN.split() for b in ENDING.split()], 30)
    firms = luck.sample([f"{a} {b}" for a in FIRM.split() for b in TRADE.split()], 50)
    people = luck.sample([f"{a} {b}" for a in FIRST.split() for b in LAST.split()], 120)
    paragraphs: dict[str, str] = {}
    river, size, town_of, founded = {}, {}, {}, {}
    for town in towns:
        river[town], size[town] = luck.choice(RIVER.split()), luck.randint(12, 480) * 1000
        paragraphs[town] = f"A town on the river {river[town]} with {size[town]} inhabitants."
    for firm in firms:
        town_of[firm], founded[firm] = luck.choice(towns), luck.randint(1880, 2015)
        paragraphs[firm] = f"A company in {town_of[firm]}, founded in {founded[firm]}."
    questions = []
    for person in people:
        firm = luck.choice(firms)
        paragraphs[person] = f"Born in {luck.randint(1950, 1999)}, an engineer who works at {firm}."
        questions += [
            (f"In which town does {person} work?", town_of[firm], [person, firm]),
            (
                f"When was the company founded that {person} works at?",
                str(founded[firm]),
                [person, firm],
            ),
        ]
    for firm in firms:
        town = town_of[firm]
        questions += [
            (f"On which river is the town of {firm}?", river[town], [firm, town]),
            (f"How many inhabitants has the town of {firm}?", str(size[town]), [firm, town]),
        ]
    luck.shuffle(questions)
    chosen = enumerate(questions[:TASKS], 1)
    return paragraphs, [task(number, *question) for number, question in chosen]


if __name__ == "__main__":
    main()
