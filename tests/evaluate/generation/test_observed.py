"""Evaluators proposed from an agent's own outputs."""

from __future__ import annotations

import asyncio
import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.generation import (
    KnownOutput,
    ProposedEvaluator,
    contained_evaluator,
    propose_from_data,
    python_module,
    toml_tables,
)
from ratchet.sandbox import function_pool
from ratchet.types import Rollout


def invoice(luck: random.Random) -> KnownOutput:
    items = [
        {
            "name": f"thing {n}",
            "price": luck.randrange(100, 9_000) / 100,
            "quantity": luck.randint(1, 5),
        }
        for n in range(luck.randint(1, 6))
    ]
    start = luck.randint(1, 14)
    given = {"customer": f"C{luck.randint(1000, 9999)}", "items": items}
    output = {
        "total": round(sum(i["price"] * i["quantity"] for i in items), 2),
        "lines": len(items),
        "customer": given["customer"],
        "currency": luck.choice(["EUR", "USD"]),
        "issued": f"2026-03-{start:02d}",
        "due": f"2026-03-{start + luck.randint(1, 14):02d}",
    }
    return KnownOutput(
        input=given, output=json.dumps(output), good=True, duration_s=luck.uniform(1, 2)
    )


@pytest.fixture(scope="module")
def invoices() -> list[KnownOutput]:
    luck = random.Random(1)
    return [invoice(luck) for _ in range(60)]


@pytest.fixture(scope="module")
def proposals(invoices: list[KnownOutput]) -> dict[str, ProposedEvaluator]:
    return {one.name: one for one in propose_from_data(invoices)}


def rollout(example: KnownOutput, **changed: Any) -> Rollout:
    output = example.output
    if changed:
        output = json.dumps(
            {k: v for k, v in (json.loads(output) | changed).items() if v != "gone"}
        )
    return Rollout(id="r", queue="q", candidate_id="c", task_id="t", input=example.input,
                   output=output, expected=example.expected, status="succeeded")  # fmt: skip


def test_relations_between_fields_are_found_and_no_others(
    proposals: dict[str, ProposedEvaluator],
) -> None:
    found = {name for name, one in proposals.items() if one.made_by == "invariant"}
    assert found == {
        "customer_equals_customer",
        "lines_equals_count_of_items",
        "total_equals_sum_of_price_quantity",
        "issued_is_at_most_due",
    }
    assert (
        "output.total equals the sum of price"
        in proposals["total_equals_sum_of_price_quantity"].why
    )


CITIES = ["Oslo", "Rome", "Lima", "Cairo", "Perth"]

DAMAGED = [
    ("customer_equals_customer", {"customer": "C1"}),
    ("lines_equals_count_of_items", {"lines": 99}),
    ("total_equals_sum_of_price_quantity", {"total": 1.0}),
    ("total_equals_sum_of_price_quantity", {"total": "much"}),
    ("total_equals_sum_of_price_quantity", {"total": "gone"}),
    ("issued_is_at_most_due", {"due": "2026-01-01"}),
]


def test_a_relation_accepts_what_it_was_made_of_and_refuses_what_was_damaged(
    invoices: list[KnownOutput], proposals: dict[str, ProposedEvaluator]
) -> None:
    async def verdicts() -> list[tuple[str, list[float | None]]]:
        found = []
        async with function_pool(slots=1) as pool:
            for name, change in DAMAGED:
                evaluator = contained_evaluator(proposals[name], pool)
                both = rollout(invoices[0]), rollout(invoices[0], **change)
                scores = [await evaluator.score(each, lambda _: []) for each in both]
                assert not any(score.error for score in scores)
                found.append((name, [score.value for score in scores]))
        return found

    assert asyncio.run(verdicts()) == [(name, [1.0, 0.0]) for name, _ in DAMAGED]


def test_a_schema_says_what_good_outputs_have_in_common(
    proposals: dict[str, ProposedEvaluator],
) -> None:
    schema = proposals["fits_the_schema"].options["schema"]
    assert set(schema["required"]) == {"total", "lines", "customer", "currency", "issued", "due"}
    assert schema["properties"]["currency"] == {"type": "string", "enum": ["EUR", "USD"]}
    assert schema["properties"]["customer"]["pattern"] == r"^[A-Z]\d{4}$"
    assert schema["properties"]["issued"]["pattern"] == r"^\d{4}-\d{2}-\d{2}$"
    assert schema["properties"]["total"] == {"type": "number", "minimum": 0}


def test_what_is_accepted_becomes_a_module_and_tables_that_load(
    proposals: dict[str, ProposedEvaluator],
    invoices: list[KnownOutput],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = list(proposals.values())
    text = python_module(kept)
    assert text.count("def _equal") == 1
    (tmp_path / "proposed_evaluators.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    tables = tomllib.loads(toml_tables(kept, "proposed_evaluators"))["evaluators"]
    assert len(tables) == len(kept)
    for table in tables:
        options = {key: value for key, value in table.items() if key not in ("use", "name")}
        evaluator = make_evaluator(table["use"], options, name=table.get("name"))
        if "latency" not in table["use"]:
            score = asyncio.run(evaluator.score(rollout(invoices[0]), lambda _: []))
            assert score.value == 1.0, score


@pytest.mark.parametrize(
    ("outputs", "use", "refused"),
    [
        (["yes", "no", "unsure"], "regex", "perhaps"),
        ([f"BK-{n:04d}" for n in range(40)], "regex", "BK-12"),
    ],
)
def test_closed_sets_and_shapes_of_answers_become_expressions(
    outputs: list[str], use: str, refused: str
) -> None:
    examples = [KnownOutput(input=n, output=outputs[n % len(outputs)]) for n in range(40)]
    (one,) = propose_from_data(examples)
    assert one.use == use
    evaluator: Any = make_evaluator(one.use, one.options)
    assert evaluator(output=outputs[0]).value == 1.0
    assert evaluator(output=refused).value == 0.0


@pytest.mark.parametrize(
    ("write", "answer", "use"),
    [
        (str, str, "exact_match"),
        (lambda n: f"The answer is {n}.00", str, "numeric"),
        (lambda n: f"I think it is {CITIES[n % 5]}, or so.", lambda n: CITIES[n % 5], "contains"),
    ],
)
def test_the_strictest_comparison_that_accepts_good_outputs_is_proposed(
    write: Callable[[int], str], answer: Callable[[int], str], use: str
) -> None:
    examples = [
        KnownOutput(input=n, output=write(n), expected=answer(n), good=True)
        for n in range(100, 140)
    ]
    found = [one for one in propose_from_data(examples) if one.made_by == "fields"]
    assert [one.use for one in found] == [use]


def test_bad_outputs_are_not_learned_from(invoices: list[KnownOutput]) -> None:
    bad = [
        KnownOutput(input=each.input, output='{"total": "none"}', good=False) for each in invoices
    ]
    names = {one.name for one in propose_from_data([*invoices, *bad])}
    assert "total_equals_sum_of_price_quantity" in names


def test_a_relation_that_holds_by_chance_is_not_proposed() -> None:
    examples = [
        KnownOutput(input={"limit": 1000}, output={"n": n % 7, "version": 3, "least": 3})
        for n in range(40)
    ]
    assert not [one for one in propose_from_data(examples) if one.made_by == "invariant"]
