"""Writes tasks.jsonl, the same for the same seed: `python make_tasks.py`."""

from __future__ import annotations

import json
import random
from pathlib import Path

from house_rules import Ticket, routed

SEED = 39
TASKS = 400
BRANDS = ("Aero", "Bolt", "Corvo", "Delfin", "Ember", "Flux", "Gala", "Helio")
PRODUCTS = ("kettle", "toaster", "blender", "oven", "fridge", "dishwasher", "dryer", "fan")
WORDS = {
    "danger": (
        "There was smoke coming out of the {}.",
        "My {} gave me an electric shock.",
        "The plug of the {} melted and smells of burning.",
        "Sparks fly when I switch the {} on.",
    ),
    "broken": (
        "The {} does not turn on any more.",
        "My {} stopped working after two weeks.",
        "The {} is dead, no light, no sound.",
        "The {} leaks and cannot be used.",
    ),
    "late": (
        "The {} should have been here last week.",
        "Where is my {}? The tracking page has not changed for days.",
        "I am still waiting for the {}.",
        "The courier never came with the {}.",
    ),
    "charged": (
        "I was charged twice for the {}.",
        "You took the wrong amount from my card for the {}.",
        "My bank statement shows two payments for one {}.",
        "The invoice for the {} is higher than the price in the shop.",
    ),
    "refund": (
        "I sent the {} back and want my money.",
        "When do I get the refund for the {}?",
        "I returned the {} unopened, please pay me back.",
        "The refund for the {} has not arrived.",
    ),
    "question": (
        "Does the {} come in red?",
        "How many watts does the {} have?",
        "Which {} do you recommend for two people?",
        "Is the {} in stock again soon?",
    ),
    "login": (
        "I cannot log in to my account.",
        "The link to reset my password does not work.",
        "My account is locked.",
        "Please change the e-mail address of my account.",
    ),
}
"""What is wrong, in words."""
GREETINGS = ("Hello,", "Hi there.", "Good morning.", "Dear team,", "")
ENDINGS = ("Please help.", "Thanks.", "Best wishes", "Looking forward to your answer.", "")
ORDERS = ("My order is {}.", "Order number {}.", "(order #{})", "It is about order no. {}.")
FIRMS = ("We are a hotel.", "I write for our office.", "We run a café.", "Our company bought it.")


def main() -> None:
    """Write the file."""
    luck = random.Random(SEED)
    tasks: list[dict[str, object]] = []
    seen: set[str] = set()
    while len(tasks) < TASKS:
        ticket = make_ticket(luck)
        text = worded(ticket, luck)
        if text not in seen:
            seen.add(text)
            number = f"ticket-{len(tasks) + 1:03d}"
            tasks.append({"id": number, "input": text, "expected": routed(ticket)})
    lines = "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks)
    Path(__file__).with_name("tasks.jsonl").write_text(lines, encoding="utf-8")


def make_ticket(luck: random.Random) -> Ticket:
    """A random ticket."""
    problem = luck.choice(list(WORDS))
    return Ticket(
        problem,
        product=None if problem == "login" else luck.choice(PRODUCTS),
        order=None if problem in ("login", "question") else luck.randint(10000, 99999),
        firm=luck.random() < 0.2,
    )


def worded(ticket: Ticket, luck: random.Random) -> str:
    """The ticket in words."""
    name = f"{luck.choice(BRANDS)} {luck.randint(2, 9)}00 {ticket.product}"
    parts = [luck.choice(GREETINGS), luck.choice(WORDS[ticket.problem]).format(name)]
    if ticket.order is not None:
        parts.append(luck.choice(ORDERS).format(ticket.order))
    if ticket.firm:
        parts.insert(luck.randint(1, len(parts)), luck.choice(FIRMS))
    parts.append(luck.choice(ENDINGS))
    return " ".join(part for part in parts if part)


if __name__ == "__main__":
    main()
