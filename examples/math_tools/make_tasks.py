"""Writes tasks.jsonl: `python make_tasks.py`, or from GSM8K's form: `--data train.jsonl`.

Each kind of problem is a function that draws one with its calculation. The expected answer is the
calculation with its result, of which the evaluator reads the number.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

from calculator import value_of

SEED = 39
TASKS = 240
NAMES = ("Ada", "Ben", "Chloe", "Dev", "Emma", "Femi", "Gita", "Hugo", "Ines", "Jun")
GOODS = ("apples", "pens", "stickers", "cards", "marbles", "cookies", "books", "shells")

Problem = tuple[str, str]
"""A problem in words, and its calculation."""


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Writes tasks.jsonl.")
    parser.add_argument("--data", type=Path, help="a file of GSM8K: question and answer a line")
    data = parser.parse_args().data
    tasks = make_tasks(random.Random(SEED)) if data is None else read_tasks(data)
    lines = "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks)
    Path(__file__).with_name("tasks.jsonl").write_text(lines, encoding="utf-8")


def read_tasks(data: Path) -> list[dict[str, str]]:
    """Problems of a file in GSM8K's form, whose answer ends with `#### NUMBER`."""
    tasks = []
    for number, line in enumerate(data.read_text(encoding="utf-8").splitlines(), 1):
        problem = json.loads(line)
        answer = problem["answer"].rpartition("####")[2].strip().replace(",", "")
        tasks.append({"id": f"gsm8k-{number}", "input": problem["question"], "expected": answer})
    return tasks


def make_tasks(luck: random.Random) -> list[dict[str, str]]:
    """Problems of every kind, no two alike."""
    made: dict[str, str] = {}
    while len(made) < TASKS:
        problem, calculation = KINDS[len(made) % len(KINDS)](luck)
        made.setdefault(problem, f"{calculation} = {value_of(calculation):g}")
    pairs = list(made.items())
    luck.shuffle(pairs)
    return [
        {"id": f"math-{number:03d}", "input": problem, "expected": expected}
        for number, (problem, expected) in enumerate(pairs, 1)
    ]


def shared(luck: random.Random) -> Problem:
    """What is left after some is given away."""
    name, friend = luck.sample(NAMES, 2)
    boxes, each, gift = luck.randint(3, 12), luck.randint(6, 24), luck.randint(2, 17)
    goods = luck.choice(GOODS)
    words = (
        f"{name} has {boxes} boxes with {each} {goods} each and gives {gift} {goods} to {friend}."
    )
    return f"{words} How many {goods} are left?", f"{boxes} * {each} - {gift}"


def bought(luck: random.Random) -> Problem:
    """Change from a note."""
    name, goods = luck.choice(NAMES), luck.choice(GOODS)
    count, price, note = luck.randint(2, 9), luck.randint(2, 11), luck.choice((100, 200))
    words = f"{name} buys {count} {goods} for ${price} each and pays with ${note}."
    return f"{words} How many dollars does {name} get back?", f"{note} - {count} * {price}"


def earned(luck: random.Random) -> Problem:
    """Hours at two rates: what is above 40 hours is paid double."""
    name, rate, hours = luck.choice(NAMES), luck.randint(9, 30), luck.randint(42, 55)
    words = f"{name} earns ${rate} an hour, and twice as much for each hour above 40 in a week."
    question = f"{words} What does {name} earn for {hours} hours in a week?"
    return question, f"40 * {rate} + ({hours} - 40) * {rate} * 2"


def divided(luck: random.Random) -> Problem:
    """Equal parts of two heaps."""
    name, friends, goods = luck.choice(NAMES), luck.randint(3, 9), luck.choice(GOODS)
    first = luck.randint(5, 40)
    second = friends * luck.randint(3, 15) - first % friends
    words = (
        f"{name} has {first} {goods}, buys {second} more and shares all among {friends} friends."
    )
    return f"{words} How many does each friend get?", f"({first} + {second}) / {friends}"


def discounted(luck: random.Random) -> Problem:
    """A price less some percent, and shipping."""
    price, percent, shipping = (
        luck.randrange(40, 400, 20),
        luck.randrange(5, 55, 5),
        luck.randint(3, 9),
    )
    words = f"A coat of ${price} is reduced by {percent} percent. Shipping is ${shipping}."
    return f"{words} How many dollars are paid?", f"{price} * (100 - {percent}) / 100 + {shipping}"


KINDS: tuple[Callable[[random.Random], Problem], ...] = (
    shared,
    bought,
    earned,
    divided,
    discounted,
)


if __name__ == "__main__":
    main()
