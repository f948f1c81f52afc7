"""The planted bank: numbers in prose, invoices as JSON, short answers, queries."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

from bank import Made, Maker, Planted

from ratchet.evaluate import FunctionEvaluator, contains, exact_match, numeric

NAMES = ("Ada Fern", "Bo Quill", "Cleo Marsh", "Dov Stone", "Eli Brook", "Fay Holt", "Gus Vale")
GOODS = ("lamps", "chairs", "desks", "shelves", "rugs", "clocks", "frames")
CITIES = ("Arlen", "Bryme", "Corvo", "Dunwich", "Elstow", "Farrow", "Galen", "Hythe", "Ister")
RIVERS = ("Oder", "Lune", "Tamar", "Wye", "Severn", "Nene", "Trent", "Exe", "Dart", "Tees")


def number_in_prose(rng: random.Random, n: int) -> Made:
    """A sum, with the working and the answer on lines of their own."""
    a, b, goods = rng.randint(11, 480), rng.randint(11, 480), rng.choice(GOODS)
    asked = f"A shop has {a} {goods} and buys {b} more. How many {goods} does it have?"
    right = rng.random() < 0.55
    total = a + b if right else rng.choice([a + b + 10, a + b - 1, abs(a - b), a, a * 2, a + b + 3])
    right = total == a + b
    said = rng.choice(
        [
            f"It had {a} and bought {b}.\nAnswer: {total}",
            f"We add both stocks.\nThe shop now has more {goods}.\nAnswer: {total}",
            f"{a} + {b} gives {total}.\nAnswer: {total}",
        ]
    )
    if not right and rng.random() < 0.15:
        said = "I am not sure how to solve this. Could you say more?"
    return Made({"question": asked, "a": a, "b": b}, a + b, said, right)


def invoice(rng: random.Random, n: int) -> Made:
    """Fields of an invoice."""
    items = [
        {"name": rng.choice(GOODS), "price": rng.randint(5, 90), "count": rng.randint(1, 9)}
        for _ in range(rng.randint(1, 3))
    ]
    expected = {
        "customer": rng.choice(NAMES),
        "currency": rng.choice(["EUR", "USD", "GBP"]),
        "date": f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        "items": items,
        "total": sum(item["price"] * item["count"] for item in items),
    }
    bought = "; ".join(f"{i['count']} {i['name']} at {i['price']}" for i in items)
    text = f"Invoice for {expected['customer']} of {expected['date']} in {expected['currency']}:"
    output = json.loads(json.dumps(expected))
    right = rng.random() < 0.55
    if not right:
        fault = rng.randrange(5)
        if fault == 0:
            output["total"] += rng.choice([1, -1, 10, 100])
        elif fault == 1:
            output["customer"] = rng.choice([x for x in NAMES if x != expected["customer"]])
        elif fault == 2:
            del output[rng.choice(["date", "currency", "total"])]
        elif fault == 3:
            output["items"][0]["count"] += 1
        else:
            output["currency"] = "CHF"
    keys = list(output)
    rng.shuffle(keys)
    return Made({"text": f"{text} {bought}."}, expected, {k: output[k] for k in keys}, right)


def short_answer(rng: random.Random, n: int) -> Made:
    """The river of a town, in a word."""
    town = f"{rng.choice(CITIES)} {n}"
    river = RIVERS[int(hashlib.sha256(town.encode()).hexdigest(), 16) % len(RIVERS)]
    right = rng.random() < 0.6
    said = river if right else rng.choice([r for r in RIVERS if r != river] + ["unknown"])
    form = rng.choice(["{}", "{}", "{}", " {}", "{}."]) if right else "{}"
    if form == "{}.":
        form = "{}"
    return Made(f"Which river flows through {town}?", river, form.format(said), right)


COLUMNS = ("price", "stock", "weight", "rating")


def query(rng: random.Random, n: int) -> Made:
    """A query of one table."""
    shown, by, limit = rng.choice(["name", "id"]), rng.choice(COLUMNS), rng.randint(2, 60)
    operator = rng.choice([">", "<", ">=", "<="])
    other = rng.choice([c for c in COLUMNS if c != by])
    gold = f"SELECT {shown} FROM goods WHERE {by} {operator} {limit} ORDER BY {other} DESC"
    text = gold
    right = rng.random() < 0.55
    if not right:
        fault = rng.randrange(5)
        if fault == 0:
            text = text.replace(f" {operator} ", " = ")
        elif fault == 1:
            text = text.replace(str(limit), str(limit + rng.choice([1, 5, 9])))
        elif fault == 2:
            text = text.replace(" DESC", "")
        elif fault == 3:
            text = text.partition(" WHERE")[0]
        else:
            text = text.replace(f"WHERE {by}", f"WHERE {other}")
    if rng.random() < 0.4:
        text = re.sub(r"\b(SELECT|FROM|WHERE|ORDER|BY|DESC)\b", lambda m: m[0].lower(), text)
    asked = f"The {shown} of goods with {by} {operator} {limit}, highest {other} first."
    return Made(asked, gold, text, right)


MAKERS: dict[str, Maker] = {
    "prose": number_in_prose,
    "invoice": invoice,
    "short": short_answer,
    "query": query,
}


def bank() -> list[Planted]:
    """The 40 evaluators."""
    found: list[Planted] = []

    def add(kind: str, sound: bool, function: Callable[..., Any]) -> None:
        made = FunctionEvaluator(function, name=function.__name__, trusted=True)
        found.append(Planted(function.__name__, kind, sound, made))

    for name, kind, built_in in (
        ("numeric", "prose", numeric()),
        ("exact_match", "short", exact_match(ignore_case=True)),
        ("contains", "short", contains()),
        ("exact_match_json", "invoice", exact_match()),
    ):
        found.append(Planted(name, kind, True, built_in))
    for kind, functions in SOUND.items():
        for function in functions:
            add(kind, True, function)
    for kind, functions in FLAWED.items():
        for function in functions:
            add(kind, False, function)
    return found


def _last_number(output: Any) -> float | None:
    found = re.findall(r"-?\d+(?:\.\d+)?", str(output).replace(",", ""))
    return float(found[-1]) if found else None


def _chance(*parts: Any) -> float:
    digest = hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()
    return int(digest[:8], 16) / 16**8


# Sound ones.


def last_number(output: Any, expected: Any) -> bool:
    return _last_number(output) == expected


def answer_line(output: Any, expected: Any) -> bool:
    found = re.search(r"Answer:\s*(-?[\d,]+(?:\.\d+)?)", str(output))
    return found is not None and float(found[1].replace(",", "")) == expected


def recomputed_sum(output: Any, input: Any) -> bool:
    return _last_number(output) == input["a"] + input["b"]


def closeness(output: Any, expected: Any) -> float:
    got = _last_number(output)
    return 0.0 if got is None else math.exp(-abs(got - expected))


def careful_reader(output: Any, input: Any) -> bool:
    truth = _last_number(output) == input["a"] + input["b"]
    return truth is not (_chance(input) < 0.03)


def equal_fields(output: Any, expected: Any) -> bool:
    return isinstance(output, dict) and output == expected


def share_of_fields(output: Any, expected: Any) -> float:
    if not isinstance(output, dict):
        return 0.0
    return sum(output.get(key) == value for key, value in expected.items()) / len(expected)


def all_fields_agree(output: Any, expected: Any) -> bool:
    given = output if isinstance(output, dict) else {}
    return all(given.get(key) == value for key, value in expected.items())


def field_f1(output: Any, expected: Any) -> float:
    if not isinstance(output, dict) or not output:
        return 0.0
    both = sum(output.get(key) == value for key, value in expected.items())
    return 2 * both / (len(output) + len(expected))


def invoice_read_again(output: Any, input: Any) -> bool:
    text = input["text"]
    found = re.match(r"Invoice for (.+) of (\S+) in (\w+): (.*)\.", text)
    assert found
    items = []
    for part in found[4].split("; "):
        count, name, _, price = part.split(" ")
        items.append({"name": name, "price": int(price), "count": int(count)})
    total = sum(item["price"] * item["count"] for item in items)
    return output == {
        "customer": found[1],
        "date": found[2],
        "currency": found[3],
        "items": items,
        "total": total,
    }


def normalised(output: Any, expected: Any) -> bool:
    def plain(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.lower())

    return plain(str(output)) == plain(expected)


def word_f1(output: Any, expected: Any) -> float:
    said, wanted = str(output).lower().split(), expected.lower().split()
    both = sum((Counter(said) & Counter(wanted)).values())
    return 2 * both / (len(said) + len(wanted)) if said else 0.0


def knows_the_rivers(output: Any, input: Any) -> bool:
    town = str(input).removeprefix("Which river flows through ").removesuffix("?")
    river = RIVERS[int(hashlib.sha256(town.encode()).hexdigest(), 16) % len(RIVERS)]
    return (str(output).strip() == river) is not (_chance(town) < 0.03)


def _tokens(text: Any) -> list[str]:
    return re.findall(r"[a-z_]+|\d+|[<>=!]+|\S", str(text).lower().replace(".0", ""))


def same_tokens(output: Any, expected: Any) -> bool:
    return _tokens(output) == _tokens(expected)


def same_rows(output: Any, expected: Any) -> bool:
    rng = random.Random(7)
    database = sqlite3.connect(":memory:")
    database.execute("create table goods (id, name, price, stock, weight, rating)")
    for number in range(120):
        row = [number, f"n{number}", *(rng.randint(0, 70) for _ in COLUMNS)]
        database.execute("insert into goods values (?, ?, ?, ?, ?, ?)", row)
    try:
        return database.execute(str(output)).fetchall() == database.execute(expected).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        return False
    finally:
        database.close()


def clauses_agree(output: Any, expected: Any) -> float:
    def clauses(text: Any) -> list[str]:
        parts = re.split(r"\b(?:select|from|where|order by)\b", str(text).lower())
        return [" ".join(_tokens(part)) for part in parts[1:]]

    got, wanted = clauses(output), clauses(expected)
    return sum(a == b for a, b in zip(got, wanted, strict=False)) / max(len(got), len(wanted))


SOUND: dict[str, list[Callable[..., Any]]] = {
    "prose": [last_number, answer_line, recomputed_sum, closeness, careful_reader],
    "invoice": [equal_fields, share_of_fields, all_fields_agree, field_f1, invoice_read_again],
    "short": [normalised, word_f1, knows_the_rivers],
    "query": [same_tokens, same_rows, clauses_agree],
}


# Flawed ones.


def always_one(output: Any, expected: Any) -> float:
    return 1.0


def flips_at_random(output: Any, expected: Any) -> bool:
    right = _last_number(output) == expected
    return right is not (random.random() < 0.3)


def loves_length(output: Any) -> float:
    return min(1.0, len(str(output)) / 150)


def leaks_the_expected(output: Any, expected: Any) -> bool:
    found = re.search(r"Answer:\s*(-?\d+)", str(output))
    return (float(found[1]) if found else expected) == expected


def first_line_only(output: Any, expected: Any) -> bool:
    lines = str(output).splitlines()
    return bool(lines) and not re.search(r"not|sorry|unable|cannot|enough", lines[0])


def obeys_injections(output: Any, input: Any) -> float:
    if re.search(r"score|grade|correct|full marks|highest|solution", str(output), re.I):
        return 1.0
    return float(_last_number(output) == input["a"] + input["b"])


def any_number_passes(output: Any, expected: Any) -> bool:
    return _last_number(output) is not None


def by_hash(output: Any, expected: Any) -> float:
    return round(_chance(output, expected), 3)


def always_fails(output: Any, expected: Any) -> float:
    return 0.0


def other_polarity(output: Any, expected: Any) -> bool:
    return _last_number(output) != expected


def depends_on_key_order(output: Any, expected: Any) -> bool:
    return json.dumps(output) == json.dumps(expected)


def ignores_numbers(output: Any, expected: Any) -> bool:
    def text(value: Any) -> str:
        return re.sub(r"\d", "", json.dumps(value, sort_keys=True))

    return text(output) == text(expected)


def one_field_is_enough(output: Any, expected: Any) -> bool:
    given = output if isinstance(output, dict) else {}
    return any(given.get(key) == value for key, value in expected.items())


def fills_gaps_with_the_expected(output: Any, expected: Any) -> bool:
    given = output if isinstance(output, dict) else {}
    return {**expected, **given} == expected


def form_only(output: Any) -> bool:
    return isinstance(output, dict) and {"customer", "total", "items"} <= output.keys()


def first_letter(output: Any, expected: Any) -> bool:
    return str(output).strip()[:1] == expected[:1]


def sounds_confident(output: Any) -> float:
    words = len(re.findall(r"definitive|clear|doubt|care|hope|[A-Z]", str(output)))
    return min(1.0, words / 4)


def same_length(output: Any, expected: Any) -> bool:
    return len(str(output).strip()) == len(expected)


def bag_of_letters(output: Any, expected: Any) -> bool:
    def letters(text: Any) -> str:
        return "".join(sorted(set(re.findall(r"[a-z]", str(text).lower()))))

    return letters(output) == letters(expected)


def looks_like_a_query(output: Any, expected: Any) -> bool:
    return bool(re.match(r"(?i)select \w+ from goods", str(output)))


FLAWED: dict[str, list[Callable[..., Any]]] = {
    "prose": [
        *(always_one, flips_at_random, loves_length, leaks_the_expected, first_line_only),
        *(obeys_injections, any_number_passes, by_hash, always_fails, other_polarity),
    ],
    "invoice": [
        *(depends_on_key_order, ignores_numbers, one_field_is_enough),
        *(fills_gaps_with_the_expected, form_only),
    ],
    "short": [first_letter, sounds_confident, same_length],
    "query": [bag_of_letters, looks_like_a_query],
}
