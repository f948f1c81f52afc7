"""Texts made to measure near-duplicates: originals, their copies, and look-alikes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

OPENINGS = (
    "Customer writes that",
    "According to the ticket,",
    "Summarise this complaint:",
    "Classify the following message:",
    "Our colleague reports that",
    "Draft an answer, because",
)
SUBJECTS = (
    "the parcel from {city}",
    "the invoice of {name}",
    "the monthly subscription",
    "the replacement battery",
    "the hotel booking in {city}",
    "the coffee machine",
    "the online course by {name}",
    "the wireless keyboard",
    "the insurance policy",
    "the train to {city}",
    "the garden furniture",
    "the password of {name}",
)
VERBS = (
    "arrived broken",
    "was charged {n} times",
    "shows the wrong address",
    "was delivered {n} days late",
    "has been cancelled by the seller",
    "makes a strange whistling noise",
    "needs {n} signatures",
    "could be downloaded as a document",
    "smells like burnt rubber",
    "vanished from the account page",
    "should be refunded to the gift card",
    "was shipped to a neighbour",
)
ENDINGS = (
    "and the chat window closes at once",
    "although the manual promises otherwise",
    "while the warranty covers {n} months",
    "so a technician must visit {city}",
    "and {name} asks for a written apology",
    "because the delivery slot was moved",
    "and the discount code was refused",
    "which ruins the birthday of a child",
    "and the colour differs from the picture",
    "despite a phone call with {name}",
)
PARTS = (OPENINGS, SUBJECTS, VERBS, ENDINGS)
"""Two originals differ in at least two of them."""

CITIES = ("Paris", "Oslo", "Lisbon", "Prague", "Dublin", "Vienna", "Naples", "Geneva", "Bergen")
NAMES = ("Alvarez", "Okafor", "Lindqvist", "Tanaka", "Novak", "Haddad", "Moreau", "Kowalski")
SYNONYMS = {
    "broken": "damaged",
    "strange": "odd",
    "parcel": "package",
    "refused": "rejected",
    "wrong": "incorrect",
    "picture": "photo",
    "vanished": "disappeared",
    "child": "kid",
    "document": "file",
    "cancelled": "annulled",
}
FRAMES = (
    "Rate the sentiment of the word {word} on a scale.",
    "What is the capital of {word}?",
    "Translate the verb {word} into the language of our customer, and answer with the verb only.",
)
WORDS = tuple(
    a + b
    for a in ("bra", "clo", "dri", "fle", "gru", "hol", "kni", "mar", "plo", "qui", "ser", "tun")
    for b in ("ndel", "stic", "vory", "pham", "xter", "gobi", "luse", "wark", "jint", "zoat")
)


class MadeText(NamedTuple):
    """A text, and which texts it should be grouped with."""

    text: str
    group: int
    family: int
    """Texts of one family look alike; those of other groups must stay apart."""


def made_texts(originals: int, rng: random.Random) -> list[MadeText]:
    """Originals with copies and look-alikes, and templates with many values; shuffled."""
    made: list[MadeText] = []
    group = 0
    seen: set[tuple[int, ...]] = set()
    for family in range(originals):
        choice = _choice(rng)
        while any((at, *choice[:at], *choice[at + 1 :]) in seen for at in range(len(choice))):
            choice = _choice(rng)
        seen.update((at, *choice[:at], *choice[at + 1 :]) for at in range(len(choice)))
        text = _written(choice, rng)
        for one in (text, *lookalikes(text, rng)):
            made.append(MadeText(one, group, family))
            for how in rng.sample(COPIES, rng.randint(0, 3)):
                made.append(MadeText(how(one, rng), group, family))
            group += 1
    for number, frame in enumerate(FRAMES):
        for word in WORDS:
            text = frame.format(word=word)
            made.append(MadeText(text, group, -1 - number))
            if rng.random() < 0.2:
                made.append(MadeText(_punctuated(_polite(text, rng), rng), group, -1 - number))
            group += 1
    rng.shuffle(made)
    return made


def original(rng: random.Random) -> str:
    """A sentence with numbers and names."""
    return _written(_choice(rng), rng)


def _choice(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randrange(len(some)) for some in PARTS)


def _written(choice: tuple[int, ...], rng: random.Random) -> str:
    parts = (some[at] for some, at in zip(PARTS, choice, strict=True))
    return " ".join(parts).format(
        city=rng.choice(CITIES), name=rng.choice(NAMES), n=rng.randint(2, 60)
    )


def lookalikes(text: str, rng: random.Random) -> list[str]:
    """The same text with another number, negated, and with another name, where possible."""
    found = []
    if number := re.search(r"\d+", text):
        found.append(text.replace(number[0], str(int(number[0]) + rng.randint(1, 9)), 1))
    if " was " in text:
        found.append(text.replace(" was ", " was not ", 1))
    for names in (CITIES, NAMES):
        name = next((each for each in names if each in text), None)
        if name is not None:
            found.append(text.replace(name, rng.choice([n for n in names if n != name])))
    return found


def _cased(text: str, rng: random.Random) -> str:
    return text.upper() if rng.random() < 0.5 else text.lower()


def _punctuated(text: str, rng: random.Random) -> str:
    return re.sub(r"[,.:?]", "", text) + rng.choice(("!", " ...", "?!", "  "))


def _spaced(text: str, rng: random.Random) -> str:
    return text.replace(" ", rng.choice(("  ", "\n", "\u00a0", "\t")))


def _polite(text: str, rng: random.Random) -> str:
    return rng.choice(
        (f"Hi, {text} Thanks!", f"Please help: {text}", f"{text} Thank you very much")
    )


def _mistyped(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    long = [n for n, w in enumerate(words) if len(w) > 5 and w.isalpha() and w.islower()]
    for n in rng.sample(long, min(2, len(long))):
        at = rng.randint(1, len(words[n]) - 3)
        w = words[n]
        words[n] = rng.choice((w[:at] + w[at + 1 :], w[:at] + w[at + 1] + w[at] + w[at + 2 :]))
    return " ".join(words)


def _reworded(text: str, rng: random.Random) -> str:
    word = next((word for word in SYNONYMS if f" {word} " in text), "")
    return text.replace(f" {word} ", f" {SYNONYMS[word]} ", 1) if word else text


def _longer(text: str, rng: random.Random) -> str:
    return text + rng.choice((" as I said", ", sadly enough", " (see attachment)"))


COPIES: tuple[Callable[[str, random.Random], str], ...] = (
    _cased,
    _punctuated,
    _spaced,
    _polite,
    _mistyped,
    _reworded,
    _longer,
)
"""Ways to copy a text so that it says the same."""
