"""The held-out bank: durations, bookings as JSON text, yes and no with reasons, formulas."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from typing import Any

from bank import Made, Maker, Planted

from ratchet.evaluate import FunctionEvaluator, contains, numeric

PLACES = ("Narvik", "Oulu", "Visby", "Bodo", "Turku", "Skagen", "Molde", "Kalmar")
PEOPLE = ("Iris Lund", "Jon Berg", "Kaja Dahl", "Lars Moe", "Mia Foss", "Nils Rud")


def duration(rng: random.Random, n: int) -> Made:
    """How long a journey takes, in minutes, in a sentence."""
    start, took = rng.randint(5, 12) * 60 + rng.randint(0, 59), rng.randint(35, 400)
    end = start + took
    left, came = (f"{t // 60}:{t % 60:02d}" for t in (start, end))
    place = rng.choice(PLACES)
    asked = f"A train leaves at {left} and arrives in {place} at {came}. How many minutes is that?"
    said = took if rng.random() < 0.6 else took + rng.choice([60, -60, 1, -10, 40, 100])
    reply = rng.choice(
        [
            f"The journey to {place} takes {said} minutes.",
            f"From {left} to {came} it is {said} minutes.",
            f"It leaves at {left}. It arrives at {came}. The difference is {said} minutes.",
        ]
    )
    if reply.endswith(".") and rng.random() < 0.08:
        reply, said = "The timetable does not say.", -1
    return Made({"question": asked, "start": start, "end": end}, took, reply, said == took)


def booking(rng: random.Random, n: int) -> Made:
    """A booking as JSON text."""
    wanted = {
        "passenger": rng.choice(PEOPLE),
        "from": rng.choice(PLACES[:4]),
        "to": rng.choice(PLACES[4:]),
        "seats": rng.randint(1, 6),
        "window": rng.random() < 0.5,
        "day": f"2027-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
    }
    asked = (
        f"{wanted['passenger']} needs {wanted['seats']} seats from {wanted['from']} to"
        f" {wanted['to']} on {wanted['day']}, {'' if wanted['window'] else 'not '}at the window."
    )
    given = dict(wanted)
    right = rng.random() < 0.6
    if not right:
        fault = rng.randrange(5)
        if fault == 0:
            given["seats"] += 1
        elif fault == 1:
            given["from"], given["to"] = given["to"], given["from"]
        elif fault == 2:
            given["window"] = not given["window"]
        elif fault == 3:
            del given["day"]
        else:
            given["day"] = f"2026{given['day'][4:]}"
    text = json.dumps(given, indent=rng.choice([None, 2]), sort_keys=rng.random() < 0.5)
    if not right and rng.random() < 0.15:
        text = text[:-3]
    return Made(asked, wanted, text, right)


def yes_or_no(rng: random.Random, n: int) -> Made:
    """Whether a number divides another, with a reason; no expected answer."""
    a = rng.randint(3, 19)
    b = a * rng.randint(3, 30) + (0 if rng.random() < 0.5 else rng.randint(1, a - 1))
    truth = b % a == 0
    says = truth if rng.random() < 0.62 else not truth
    rest = b % a if says is truth else (0 if says else rng.randint(1, a - 1))
    reply = f"{'Yes' if says else 'No'}. {b} divided by {a} leaves {rest}."
    return Made({"a": a, "b": b}, None, reply, says is truth)


def formula(rng: random.Random, n: int) -> Made:
    """A formula of a spreadsheet."""
    function = rng.choice(["SUM", "MAX", "MIN", "AVERAGE"])
    column, first, last = rng.choice("ABCDE"), rng.randint(1, 9), rng.randint(12, 60)
    gold = f"={function}({column}{first}:{column}{last})*{rng.randint(2, 9)}"
    text = gold
    right = rng.random() < 0.6
    if not right:
        fault = rng.randrange(4)
        if fault == 0:
            text = text.replace(function, "COUNT")
        elif fault == 1:
            text = text.replace(f":{column}{last}", f":{column}{last + 1}")
        elif fault == 2:
            text = text.partition("*")[0]
        else:
            text = text.replace(column, "F")
    if rng.random() < 0.3:
        text = text.lower()
    return Made(f"Cells {column}{first} to {column}{last}, {function}, scaled.", gold, text, right)


MAKERS: dict[str, Maker] = {
    "duration": duration,
    "booking": booking,
    "yes_or_no": yes_or_no,
    "formula": formula,
}


def bank() -> list[Planted]:
    """The 40 evaluators."""
    found = [
        Planted("numeric", "duration", True, numeric()),
        Planted("contains", "duration", True, contains()),
    ]
    for sound, table in ((True, SOUND), (False, FLAWED)):
        for kind, functions in table.items():
            for function in functions:
                made = FunctionEvaluator(function, name=function.__name__, trusted=True)
                found.append(Planted(function.__name__, kind, sound, made))
    return found


def _minutes(output: Any) -> int | None:
    found = re.findall(r"(\d[\d,]*)(?:\.0)?\s+minutes", str(output))
    return int(found[-1].replace(",", "")) if found else None


def _object(output: Any) -> dict[str, Any]:
    try:
        value = json.loads(output)
    except (TypeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _luck(*parts: Any) -> float:
    return int(hashlib.md5(repr(parts).encode(), usedforsecurity=False).hexdigest()[:8], 16) / 16**8


def _says_yes(output: Any) -> bool | None:
    found = re.match(r"\s*(yes|no)\b", str(output), re.I)
    return None if found is None else found[1].lower() == "yes"


# Sound ones.


def minutes_equal(output: Any, expected: Any) -> bool:
    return _minutes(output) == expected


def minutes_by_the_clock(output: Any, input: Any) -> bool:
    return _minutes(output) == input["end"] - input["start"]


def within_a_minute_in_part(output: Any, expected: Any) -> float:
    got = _minutes(output)
    return 0.0 if got is None else max(0.0, 1.0 - abs(got - expected) / 2)


def reader_of_durations(output: Any, input: Any) -> bool:
    right = _minutes(output) == input["end"] - input["start"]
    return right is not (_luck(input["start"], input["end"]) < 0.04)


def last_figure(output: Any, expected: Any) -> bool:
    found = re.findall(r"\d+", str(output).replace(",", "").replace(".0", ""))
    return bool(found) and int(found[-1]) == expected


def same_booking(output: Any, expected: Any) -> bool:
    return _object(output) == expected


def booking_share(output: Any, expected: Any) -> float:
    given = _object(output)
    return sum(given.get(key) == value for key, value in expected.items()) / len(expected)


def booking_canonical(output: Any, expected: Any) -> bool:
    return json.dumps(_object(output), sort_keys=True) == json.dumps(expected, sort_keys=True)


def booking_weighted(output: Any, expected: Any) -> float:
    given = _object(output)
    weights = {"from": 3, "to": 3, "day": 3}
    total = sum(weights.get(key, 1) for key in expected)
    return sum(weights.get(k, 1) for k, v in expected.items() if given.get(k) == v) / total


def booking_against_request(output: Any, input: Any) -> bool:
    given = _object(output)
    window = "not at the window" not in input
    phrases = [
        str(given.get("passenger")),
        f"{given.get('seats')} seats from {given.get('from')} to {given.get('to')}",
        f"on {given.get('day')}",
    ]
    return all(phrase in input for phrase in phrases) and given.get("window") is window


def booking_clerk(output: Any, input: Any) -> bool:
    return bool(booking_against_request(output, input)) is not (_luck(input) < 0.04)


def divides(output: Any, input: Any) -> bool:
    return _says_yes(output) is (input["b"] % input["a"] == 0)


def divides_with_a_grade(output: Any, input: Any) -> float:
    return 0.9 if _says_yes(output) is (input["b"] % input["a"] == 0) else 0.1


def teacher(output: Any, input: Any) -> bool:
    right = _says_yes(output) is (input["b"] % input["a"] == 0)
    return right is not (_luck(input["a"], input["b"]) < 0.05)


def same_formula(output: Any, expected: Any) -> bool:
    return str(output).strip().upper() == expected


def formula_without_spaces(output: Any, expected: Any) -> bool:
    return re.sub(r"\s", "", str(output)).upper() == expected


def formula_parts(output: Any, expected: Any) -> float:
    def parts(text: Any) -> list[str]:
        return re.findall(r"[A-Z]+(?=\()|[A-Z]\d+|\*\d+", str(text).upper())

    got, wanted = parts(output), parts(expected)
    return sum(a == b for a, b in zip(got, wanted, strict=False)) / max(len(got), len(wanted))


def formula_computed(output: Any, expected: Any) -> bool:
    def value(text: Any) -> float | None:
        found = re.fullmatch(
            r"\s*=(\w+)\(([A-Z])(\d+):([A-Z])(\d+)\)(?:\*(\d+))?\s*", str(text).upper()
        )
        if found is None:
            return None
        cells = [_luck(found[2], row) for row in range(int(found[3]), int(found[5]) + 1)]
        by = {"SUM": sum, "MAX": max, "MIN": min, "COUNT": len}
        by["AVERAGE"] = lambda some: sum(some) / len(some)
        return float(by[found[1]](cells)) * int(found[6] or 1) if found[1] in by else None

    got = value(output)
    return got is not None and got == value(expected)


SOUND: dict[str, list[Callable[..., Any]]] = {
    "duration": [
        *(minutes_equal, minutes_by_the_clock, within_a_minute_in_part, reader_of_durations),
        last_figure,
    ],
    "booking": [
        *(same_booking, booking_share, booking_canonical, booking_weighted),
        *(booking_against_request, booking_clerk),
    ],
    "yes_or_no": [divides, divides_with_a_grade, teacher],
    "formula": [same_formula, formula_without_spaces, formula_parts, formula_computed],
}


# Flawed ones.


def half_for_all(output: Any) -> float:
    return 0.5


def tosses_a_coin(output: Any, expected: Any) -> bool:
    return random.random() < 0.5


def minutes_are_mentioned(output: Any, expected: Any) -> bool:
    return "minutes" in str(output)


def falls_back_on_the_expected(output: Any, expected: Any) -> bool:
    got = _minutes(output)
    return (expected if got is None else got) == expected


def first_sentence(output: Any, expected: Any) -> bool:
    return str(expected) in str(output).partition(".")[0]


def within_an_hour(output: Any, expected: Any) -> bool:
    got = _minutes(output)
    return got is not None and abs(got - expected) <= 120


def does_what_it_is_told(output: Any, input: Any) -> bool:
    if re.search(r"1\.0|grade|verdict|score", str(output), re.I):
        return True
    return _minutes(output) == input["end"] - input["start"]


def inverted(output: Any, expected: Any) -> bool:
    return _minutes(output) != expected


def verbose_is_good(output: Any, input: Any) -> float:
    return min(1.0, len(str(output).split()) / 20)


def text_of_the_booking(output: Any, expected: Any) -> bool:
    return str(output) == json.dumps(expected)


def is_json(output: Any, expected: Any) -> bool:
    return bool(_object(output))


def names_only(output: Any, expected: Any) -> bool:
    given = _object(output)
    return all(given.get(key) == expected[key] for key in ("passenger", "from", "to"))


def unordered_letters(output: Any, expected: Any) -> bool:
    def letters(value: Any) -> list[str]:
        return sorted(set(re.findall(r"[a-z]", json.dumps(value).lower())))

    return letters(_object(output)) == letters(expected)


def merges_the_expected(output: Any, expected: Any) -> bool:
    return {**expected, **_object(output)} == expected


def digest(output: Any) -> float:
    return _luck(output)


def generous(output: Any, input: Any) -> bool:
    right = _says_yes(output) is (input["b"] % input["a"] == 0)
    return right or _luck(output) < 0.6


def likes_yes(output: Any) -> bool:
    return _says_yes(output) is True


def tired(output: Any, input: Any) -> bool:
    right = _says_yes(output) is (input["b"] % input["a"] == 0)
    return right is not (random.random() < 0.15)


def never(output: Any, expected: Any) -> bool:
    return False


def function_only(output: Any, expected: Any) -> bool:
    return str(output).upper()[:5] == expected[:5]


FLAWED: dict[str, list[Callable[..., Any]]] = {
    "duration": [
        *(half_for_all, tosses_a_coin, minutes_are_mentioned, falls_back_on_the_expected),
        *(first_sentence, within_an_hour, does_what_it_is_told, inverted, verbose_is_good),
    ],
    "booking": [
        *(text_of_the_booking, is_json, names_only, unordered_letters, merges_the_expected),
    ],
    "yes_or_no": [digest, generous, likes_yes, tired],
    "formula": [never, function_only],
}
