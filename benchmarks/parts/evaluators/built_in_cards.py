"""The report card of each built-in evaluator, on outputs and labels made for it.

    python benchmarks/parts/evaluators/built_in_cards.py [--quick]

Agents and the people who label are simulated; one label in 25 is wrong. A check of form alone, such
as a length or a schema, is labelled by its form: the card then says how far it notices damage of
the content, and it advises. Cards go to stderr, a line each; the last line printed is one JSON
object:

- built_in_cards: verdict by evaluator; built_in_kappa: agreement with the labels
- built_in_decides: how many decide
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))

import bank_planted as planted
from bank import labels_of

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.report_card import make_card, make_cases
from ratchet.types import ReportCard, Rollout, Span

TASKS = 120
SLOW = frozenset({"code_tests", "sql"})
"""Evaluators that run something for each score: fewer copies of each kind are made."""


@dataclass
class Made:
    """One simulated rollout."""

    input: Any
    expected: Any
    output: Any
    right: bool
    metadata: dict[str, Any] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    """Further fields of the rollout."""


Maker = Callable[[random.Random, int], Made]


def _planted(maker: Any) -> Maker:
    def make(rng: random.Random, n: int) -> Made:
        made = maker(rng, n)
        return Made(made.input, made.expected, made.output, made.right)

    return make


def _said(rng: random.Random, n: int) -> Made:
    made = planted.short_answer(rng, n)
    forms = ("I believe it is the {}.", "The {}, as far as I know.", "{} is the river you mean.")
    return Made(
        made.input, made.expected, rng.choice(forms).format(made.output.strip()), made.right
    )


def _invoice_form(rng: random.Random, n: int) -> Made:
    made = planted.invoice(rng, n)
    output = dict(made.output)
    right = rng.random() < 0.6
    if not right:
        key = rng.choice([each for each in INVOICE["required"] if each in output])
        if rng.random() < 0.5:
            del output[key]
        else:
            output[key] = [output[key]]
    elif not made.right:
        output = dict(made.expected)
    return Made(made.input, None, output, right)


INVOICE: dict[str, Any] = {
    "type": "object",
    "required": ["customer", "currency", "date", "items", "total"],
    "properties": {
        "customer": {"type": "string"},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "date": {"type": "string", "pattern": "^2026-"},
        "items": {"type": "array", "minItems": 1},
        "total": {"type": "number"},
    },
}


def _booking_code(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    code = f"BK-{rng.randint(1000, 9999)}"
    bad = rng.choice([code[:-1], code.replace("-", " "), code.lower(), f"code {n}", ""])
    return Made(f"Book room {n}.", None, code if right else bad, right)


def _towns(rng: random.Random, n: int) -> Made:
    expected = rng.sample(planted.CITIES, 3)
    output = list(expected)
    right = rng.random() < 0.55
    if right:
        rng.shuffle(output)
    elif rng.random() < 0.5:
        output[rng.randrange(3)] = rng.choice([c for c in planted.CITIES if c not in expected])
    else:
        output.pop()
    return Made(f"Towns of region {n}?", expected, output, right)


def _ranking(rng: random.Random, n: int) -> Made:
    found = rng.sample(planted.CITIES, 5)
    right = rng.random() < 0.55
    return Made(f"Best town for {n}?", found[0] if right else found[2], found, right)


BODIES = {True: "n * n + {0}", False: "n * n - {0}"}


def _square(rng: random.Random, n: int) -> Made:
    add = rng.randint(1, 9)
    right = rng.random() < 0.55
    code = f"```python\ndef f(n):\n    return {BODIES[right].format(add)}\n```"
    tests = [f"assert f({k}) == {k * k + add}" for k in (0, 3, 7)]
    return Made(f"Write f(n), the square of n plus {add}.", None, code, right, {"tests": tests})


def _step(number: int, name: str, arguments: dict[str, Any]) -> Span:
    return Span(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        name=name,
        start_ns=number,
        end_ns=number + 1,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
        },
    )


def _calls(rng: random.Random, n: int) -> Made:
    expected = [
        {"name": "find_room", "arguments": {"seats": rng.randint(2, 12)}},
        {"name": "book", "arguments": {"room": f"R{n % 20}", "hour": rng.randint(8, 18)}},
    ]
    made = json.loads(json.dumps(expected))
    right = rng.random() < 0.55
    if not right:
        fault = rng.randrange(4)
        if fault == 0:
            made.reverse()
            made[0]["arguments"]["hour"] += 1
        elif fault == 1:
            made.pop()
        elif fault == 2:
            made.append({"name": "delete_all", "arguments": {}})
        else:
            made[0] = {"name": "list_rooms", "arguments": {}}
    spans = [_step(k, call["name"], call["arguments"]) for k, call in enumerate(made)]
    return Made(f"Book room {n}.", None, "Done.", right, {"tool_calls": expected}, spans)


REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I cannot assist with this request.",
    "Unfortunately, I am unable to do that.",
)


def _helpful(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    town = rng.choice(planted.CITIES)
    answer = (
        f"The museum of {town} opens at {rng.randint(8, 11)} and closes at {rng.randint(16, 20)}."
    )
    return Made(
        f"When does museum {n} open?", None, answer if right else rng.choice(REFUSALS), right
    )


ENGLISH = (
    "The train to {0} leaves from the second platform in the evening.",
    "You can change your booking for {0} until the day before you travel.",
    "There is a small fee if you want to take your bicycle to {0}.",
)
GERMAN = (
    "Der Zug nach {0} fährt am Abend vom zweiten Gleis ab.",
    "Sie können Ihre Buchung nach {0} bis zum Tag vor der Reise ändern.",
    "Für die Mitnahme eines Fahrrads nach {0} fällt eine kleine Gebühr an.",
)


def _tongue(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.55
    wanted = rng.choice(["en", "de"])
    texts = {"en": ENGLISH, "de": GERMAN}[wanted if right else {"en": "de", "de": "en"}[wanted]]
    output = rng.choice(texts).format(rng.choice(planted.CITIES))
    return Made(f"Tell me about trip {n}.", None, output, right, {"language": wanted})


def _brief(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    words = rng.randint(4, 18) if right else rng.randint(31, 80)
    text = " ".join(rng.choice(planted.GOODS) for _ in range(words))
    return Made(f"Name goods of shop {n} in at most 20 words.", None, text, right)


def _private(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    name = rng.choice(planted.NAMES).split()[0].lower()
    leak = rng.choice(
        [f"{name}@mail{n}.example.com", "card 4111 1111 1111 1111", f"192.0.2.{n % 250}"]
    )
    said = f"The order of shop {n} is on its way."
    return Made(f"Where is order {n}?", None, said if right else f"{said} Ask {leak}.", right)


def _grounded(rng: random.Random, n: int) -> Made:
    town, river, length_km = rng.choice(planted.CITIES), rng.choice(planted.RIVERS), 40 + n
    passage = f"The river {river} flows through {town}. It is {length_km} kilometres long."
    right = rng.random() < 0.55
    said = f"The river {river} flows through {town} and is {length_km} kilometres long."
    if not right:
        other = rng.choice([r for r in planted.RIVERS if r != river])
        said = rng.choice([
            said.replace(river, other),
            said.replace(str(length_km), str(length_km + 7)),
            f"{said} Its water is famous for blue salmon and old castles.",
            said.replace("flows", "does not flow"),
        ])  # fmt: skip
    return Made(f"Tell me about the river of {town}.", None, said, right, {"passages": [passage]})


def _failing(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    spans = [_step(k, "look", {"n": k}) for k in range(3)]
    if not right:
        spans[1] = msgspec.structs.replace(spans[1], status="error", message="gone")
    return Made(f"Look at {n}.", None, f"I saw {n}.", right, {}, spans)


def _measured(rng: random.Random, n: int) -> Made:
    right = rng.random() < 0.6
    changes = {"duration_s": 0.5 if right else 3.0, "cost_usd": 0.001 if right else 0.2}
    call = Span(
        trace_id="a" * 32, span_id="1" * 16, name="chat", start_ns=1, end_ns=2,
        attributes={
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "simulated",
            "gen_ai.usage.input_tokens": 100 if right else 9_000,
            "gen_ai.usage.output_tokens": 20,
        },
    )  # fmt: skip
    return Made(f"Say {n}.", None, f"It is {n}.", right, {}, [call], changes)


PURPOSES: dict[str, tuple[dict[str, Any], Maker]] = {
    "exact_match": ({}, _planted(planted.short_answer)),
    "contains": ({}, _said),
    "numeric": ({}, _planted(planted.number_in_prose)),
    "sql": ({}, _planted(planted.query)),
    "json_match": ({"strict": True}, _planted(planted.invoice)),
    "json_schema": ({"schema": INVOICE}, _invoice_form),
    "regex": ({"pattern": r"BK-\d{4}", "full": True}, _booking_code),
    "overlap": ({}, _towns),
    "reciprocal_rank": ({}, _ranking),
    "code_tests": ({}, _square),
    "tool_calls": ({}, _calls),
    "trajectory": ({"arguments": "exact"}, _calls),
    "refusal": ({}, _helpful),
    "language": ({}, _tongue),
    "length": ({"at_most": 20}, _brief),
    "pii_leak": ({}, _private),
    "groundedness": ({}, _grounded),
    "error_rate": ({"of": "tools", "within": 0.0}, _failing),
    "tokens": ({"within": 1_000}, _measured),
    "latency": ({"within": 1.0}, _measured),
    "cost": ({"within": 0.01}, _measured),
}
"""Options, and the maker of outputs, of each built-in evaluator."""


def card_of(use: str, seed: int, tasks: int) -> ReportCard:
    """The card of one."""
    options, maker = PURPOSES[use]
    made = [maker(random.Random(seed * 1_000_003 + n), n) for n in range(tasks)]
    rollouts = [
        msgspec.structs.replace(
            Rollout(
                id=f"r{n:04d}", queue="q", candidate_id="c", task_id=f"t{n}", input=each.input,
                expected=each.expected, output=each.output, metadata=each.metadata,
                status="succeeded", duration_s=0.1,
            ),
            **each.changes,
        )
        for n, each in enumerate(made)
    ]  # fmt: skip
    labels = labels_of(rollouts, [each.right for each in made], seed + [*PURPOSES].index(use))
    spans: dict[str, list[Span]] = {f"r{n:04d}": each.spans for n, each in enumerate(made)}
    return asyncio.run(
        make_card(
            make_evaluator(use, options),
            make_cases(rollouts, labels),
            spans_of=lambda id: spans.get(id, []),
            copies=5 if use in SLOW else 20,
            seed=seed,
        )
    )


def measure(quick: bool, names: Sequence[str] = tuple(PURPOSES)) -> dict[str, Any]:
    """Figures for the benchmark of evaluators.

    Args:
        quick: Fewer tasks, and without the evaluators that run something.
        names: Of which evaluators.
    """
    verdicts: dict[str, str] = {}
    kappas: dict[str, float | None] = {}
    for use in names:
        if quick and use in SLOW:
            continue
        card = card_of(use, 23, 100 if quick else TASKS)
        checks = {check.name: check for check in card.checks}
        shown = [
            f"{name} {checks[name].value:.2f}"
            for name in ("damage", "kappa", "lenient", "injections", "unscored")
            if name in checks and checks[name].value is not None
        ]
        verdicts[use] = card.verdict
        kappa = checks["kappa"].value if "kappa" in checks else None
        kappas[use] = None if kappa is None else round(kappa, 3)
        reason = card.reasons[0] if card.reasons else ""
        print(f"{use:16s} {card.verdict:12s} {', '.join(shown)}. {reason}", file=sys.stderr)
    return {
        "built_in_cards": verdicts,
        "built_in_kappa": kappas,
        "built_in_decides": sum(verdict == "decides" for verdict in verdicts.values()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    print(json.dumps(measure(parser.parse_args().quick)))
