"""How the simulated coach writes: rules in words of its own, prompts that state them or not."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence

from tests.simulator.reading import WEAK, read, said_in

STATEMENTS: Mapping[str, Sequence[str]] = {
    "capacity": (
        "The room must have at least as many seats as there are people.",
        "Only choose a room whose capacity is enough for everybody who attends.",
        "Rule out every room that is too small for the group.",
    ),
    "equipment": (
        "The room must have all the equipment that the request asks for.",
        "Check that every requested item of equipment is in the room; discard rooms that lack one.",
        "Never suggest a room which is missing required equipment.",
    ),
    "accessible": (
        "If step-free access is needed, only accessible rooms qualify.",
        "When somebody uses a wheelchair or asks for step-free access, the room must be"
        " accessible.",
        "Exclude rooms that are not accessible whenever the request requires accessibility.",
    ),
    "available": (
        "The room has to be free for the whole duration: reject any overlap with a booking.",
        "Compare the start and the end of the meeting with each booking and drop rooms that"
        " overlap.",
        "Do not choose a room that is already booked at any point of the requested time.",
    ),
    "buffer": (
        "Leave at least 10 minutes between the meeting and any booking before or after it.",
        "Keep a turnaround of ten minutes before and after other bookings.",
        "A gap of 10 minutes to the neighbouring bookings is required.",
    ),
    "distance": (
        "If the request limits the distance, never exceed that maximum distance.",
        "The walk must be within the distance limit that the request states.",
        "Reject rooms that are too far away for the limit in the request.",
    ),
    "fit": (
        "Among the rooms that qualify, choose the smallest.",
        "Pick the qualifying room with the fewest spare seats.",
        "Prefer the tightest fit: the lowest sufficient capacity wins.",
    ),
    "near": (
        "If several rooms tie, take the nearest one.",
        "Break ties in capacity by the shortest walk.",
        "Among equally good rooms, choose the closest one.",
    ),
    "none": (
        "If no room meets every condition, answer none.",
        'When nothing fits, reply "none" instead of suggesting a compromise.',
        "If no room qualifies, the answer is: none.",
    ),
    "format": (
        "Answer with the room id only.",
        "Reply with exactly one room id and nothing else.",
        "Return just the id of the room, without any explanation.",
    ),
}

VAGUE: Mapping[str, str] = {
    "capacity": "Keep the room's capacity in mind.",
    "equipment": "Pay attention to the equipment.",
    "accessible": "Be mindful of accessibility.",
    "available": "Take the bookings into account.",
    "buffer": "Try to leave a buffer between meetings.",
    "distance": "Consider the distance where possible.",
    "fit": "Ideally choose the smallest room.",
    "near": "If possible, prefer a closer room.",
    "none": "Consider saying that there is none if you find no suitable room.",
    "format": "Try to answer with only the room id.",
}

HARMFUL = (
    "Prefer the largest room, people like space.",
    "Always suggest a room, even if none is a perfect match.",
    "Explain your reasoning step by step and list all the options.",
    "Do not worry about the equipment, it can be brought along.",
    "Ignore the distance, people can walk.",
    "Don't check the calendar twice, availability does not matter much.",
)

FLUFF = (
    "Be careful and precise in everything you do.",
    "Your work is important to the people who rely on it.",
    "Read what you are given with great care.",
    "Remember to be polite and professional at all times.",
    "Take a deep breath before you begin.",
    "High quality results are expected from you.",
    "Think about what a seasoned office manager would say.",
)

FOREIGN = (
    "Du bist ein Assistent und hilfst Leuten, ein Zimmer zu finden. Sei sorgfältig und höflich.",
    "Eres un asistente que ayuda a reservar una sala. Sé amable y cuidadoso con cada detalle.",
    "Vous êtes un assistant qui aide à réserver une salle. Soyez attentif et courtois.",
)

REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I cannot assist with rewriting this prompt.",
)

PLACEHOLDER = re.compile(r"(?<!\{)\{\{?[ \w.]+\}?\}(?!\})")


def statement(rule: str, luck: random.Random, vague: float) -> str:
    """A sentence that states a rule, vaguely in a share of all cases."""
    return VAGUE[rule] if luck.random() < vague else luck.choice(STATEMENTS[rule])


def adding(prompt: str, rules: Collection[str], luck: random.Random, vague: float) -> str:
    """A prompt that states further rules; what it said weakly or wrongly of them goes."""
    lines = [line for line in prompt.splitlines() if not _is_in_the_way(line, rules)]
    added = [statement(rule, luck, vague) for rule in rules]
    bulleted = any(re.match(r"\s*[-*]\s", line) for line in lines)
    if bulleted or len(added) > 1 or luck.random() < 0.5:
        added = [f"- {sentence}" for sentence in added]
    return "\n".join([*lines, *added]).strip()


def _is_in_the_way(line: str, rules: Collection[str]) -> bool:
    """Whether a line says nothing but something weak or wrong of rules that are to be stated."""
    said = said_in(line)
    in_the_way = {name for name, (strength, against) in said.items() if against or strength <= WEAK}
    return bool(said) and set(said) <= in_the_way & set(rules) and not PLACEHOLDER.search(line)


def dropping(prompt: str, luck: random.Random) -> str:
    """A prompt without one of its lines that state rules; the same when it has none."""
    lines = prompt.splitlines()
    stating = [
        n for n, line in enumerate(lines) if read(line).stated and not PLACEHOLDER.search(line)
    ]
    if not stating:
        return prompt
    gone = luck.choice(stating)
    return "\n".join(line for n, line in enumerate(lines) if n != gone)


def without_placeholder(prompt: str, luck: random.Random) -> str:
    """A prompt in which a placeholder was replaced by words, or by another placeholder."""
    found = PLACEHOLDER.findall(prompt)
    if not found:
        return prompt
    gone = luck.choice(found)
    return prompt.replace(gone, luck.choice(("the company", "{location}", "")))


def longer(prompt: str, luck: random.Random) -> str:
    """A prompt of twice the length that says no more."""
    words = len(prompt.split())
    extra: list[str] = []
    while sum(len(sentence.split()) for sentence in extra) < max(words, 40):
        extra.append(luck.choice(FLUFF))
    return f"{prompt.strip()}\n{' '.join(extra)}"


def reworded(prompt: str, luck: random.Random) -> str:
    """A prompt that says the same in another order of its bullets."""
    lines = prompt.splitlines()
    bullets = [line for line in lines if re.match(r"\s*[-*]\s", line)]
    luck.shuffle(bullets)
    shuffled = iter(bullets)
    return "\n".join(next(shuffled) if re.match(r"\s*[-*]\s", line) else line for line in lines)


def critique(rules: Sequence[str], luck: random.Random, vague: float) -> str:
    """Points of a critique: what the prompt should say."""
    lead = (
        "The prompt does not say this, and it should: ",
        "Missing from the prompt. Add: ",
        "Runs fail because the prompt leaves this open. State: ",
    )
    points = [f"- {luck.choice(lead)}{statement(rule, luck, vague)}" for rule in rules]
    if luck.random() < 0.6 or not points:
        points.append(f"- {luck.choice(FLUFF)}")
    if not rules:
        points.append("- Make the goal clearer and the wording more specific.")
    luck.shuffle(points)
    return "Critique:\n" + "\n".join(points)
