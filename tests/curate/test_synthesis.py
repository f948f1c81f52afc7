"""Synthetic tasks without a model: from slots, rewordings and boundaries; checked and marked."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from ratchet.curate.synthesis import CoachSolver, Oracle, SolverAgreement, Synthesis, synthesize
from ratchet.curate.synthesis.boundary import BoundaryValues
from ratchet.curate.synthesis.input_schema import infer_schema, loosened
from ratchet.curate.synthesis.sample import Sample
from ratchet.curate.synthesis.slots import find_templates
from ratchet.types import Dataset, InputError, Split, Task

CITIES = ("Paris", "New York", "Rome", "Oslo", "Bern", "Lima")
DAYS = ("Monday", "Friday", "Sunday")


def dataset_of(tasks: list[Task], split: Split = "train") -> Dataset:
    return Dataset(name="d", tasks=tuple(tasks), splits={task.id: split for task in tasks})


def weather(count: int = 6) -> list[Task]:
    """Tasks of one template with two slots, of which the city decides the answer."""
    return [
        Task(
            f"w{number}",
            f"What is the weather in {CITIES[number % len(CITIES)]} on {DAYS[number % 3]}?",
            f"{CITIES[number % len(CITIES)]}: sunny",
        )
        for number in range(count)
    ]


def made(tasks: list[Task], count: int, **options: Any) -> Synthesis:
    return asyncio.run(synthesize(dataset_of(tasks), count, **options))


def test_texts_without_a_common_form_have_no_template() -> None:
    texts = ["Where is my order?", "Cancel it", "The invoice of May shows another sum"]
    assert find_templates([Task(str(n), text) for n, text in enumerate(texts)]) == []


def test_recombined_slots_are_new_inputs_whose_answer_follows_from_a_slot() -> None:
    found = made(weather(), 8, methods=["slots"])
    assert len(found.tasks) == 8
    inputs = {task.input for task in weather()}
    for task in found.tasks:
        assert task.input not in inputs
        city = next(city for city in CITIES if city in task.input)
        assert task.expected == f"{city}: sunny"
        assert task.origin.made == "synthesized"
        assert task.origin.by == "recombined slots"
        assert set(task.origin.sources) <= {f"w{n}" for n in range(6)}


def test_near_copies_of_an_input_are_dropped() -> None:
    class Copies:
        async def draw(self, count: int) -> list[Sample]:
            texts, self.texts = self.texts, []
            return [Sample(input=text, by="coach", sources=(), expected="x") for text in texts]

        texts = ["What is 7 and 9!", "WHAT IS 7, AND 9", "What is 7.9?", "What is 79?"]

    tasks = [Task("a", "What is 7 and 9?", "x")]
    found = made(tasks, 4, methods=["coach"], coach_inputs=Copies())
    assert [task.input for task in found.tasks] == ["What is 7.9?", "What is 79?"]
    assert found.dropped == {"a duplicate": 2}


def test_an_answer_that_a_shared_slot_decides_is_kept() -> None:
    tasks = [
        Task(f"{a}{b}", {"kind": a, "number": b}, a.upper())
        for a, b in [("x", 1), ("x", 2), ("y", 3), ("y", 4)]
    ]
    found = made(tasks, 4, methods=["slots"])
    assert found.tasks
    assert all(task.expected == task.input["kind"].upper() for task in found.tasks)


def test_an_answer_that_depends_on_several_slots_is_not_guessed() -> None:
    tasks = [Task(f"{a}+{b}", f"Add {a} and {b} please", a + b) for a in (1, 2, 5) for b in (3, 4)]
    found = made([*tasks, Task("x", "Add 7 and 9 please", 16)], 5, methods=["slots"])
    assert found.tasks == ()
    assert found.dropped["no answer is known"] > 0
    assert found.ended == "The methods have nothing new to offer."


def test_an_oracle_answers_what_no_method_knows_and_its_failures_drop_samples() -> None:
    def add(text: str) -> int | None:
        words = text.split()
        return None if words[1] == "2" else int(words[1]) + int(words[3])

    tasks = [Task(f"{a}", f"Add {a} and {9 - a} please", 9) for a in range(1, 5)]
    found = made(tasks, 30, methods=["slots", "boundary"], answerer=Oracle(add, "sums:add"))
    assert found.tasks
    for task in found.tasks:
        assert task.expected == add(task.input)
        assert task.origin.by.endswith("; oracle sums:add")
    assert found.dropped["The oracle sums:add has no answer."] > 0
    assert any(reason.startswith("The oracle sums:add fails: ") for reason in found.dropped)


def test_solvers_count_only_where_all_agree() -> None:
    async def sure(inputs: Any) -> list[list[Any]]:
        return [["Yes", "yes "] for _ in inputs]

    async def doubtful(inputs: Any) -> list[list[Any]]:
        return [["yes"] if "Rome" in text else ["no"] for text in inputs]

    tasks = [
        Task(f"{c}{d}", f"Is it warm in {c} on {d}?", "yes" if n % 2 else "no")
        for n, (c, d) in enumerate(zip(CITIES, DAYS * 2, strict=True))
    ]
    both = SolverAgreement({"one": sure, "other": doubtful})
    found = made(tasks, 20, methods=["slots"], answerer=both)
    assert found.tasks
    assert all("Rome" in task.input and task.expected == "Yes" for task in found.tasks)
    assert "3 answers of one and other agree" in found.tasks[0].origin.by
    assert found.dropped["The solvers gave 2 different answers."] > 0


def test_rewordings_keep_the_answer_and_leave_layout_and_echoes_alone() -> None:
    tasks = [
        Task("prose", "Who wrote Hamlet, and when?", "Shakespeare"),
        Task("code", "def f():\n    return 1", "1"),
        Task("echo", "say this again", "say this again"),
    ]
    found = made(tasks, 20, methods=["rewording"])
    assert {task.origin.sources for task in found.tasks} == {("prose",)}
    assert {task.expected for task in found.tasks} == {"Shakespeare"}
    assert "Who  wrote  Hamlet,  and  when?" in {task.input for task in found.tasks}


def test_boundary_values_touch_every_bound_and_fit_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "people": {"type": "integer", "minimum": 1, "maximum": 20},
            "room": {"enum": ["red", "blue"]},
            "notes": {"type": "string", "minLength": 1, "maxLength": 50},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        },
        "required": ["people", "room"],
    }
    tasks = [Task("a", {"people": 3, "room": "red", "notes": "n", "tags": ["t"]})]
    drawn = BoundaryValues(tasks, schema, random.Random(1))
    inputs = [sample.input for sample in asyncio.run(drawn.draw(500))]
    assert {1, 20} <= {value.get("people") for value in inputs}
    assert any("notes" not in value for value in inputs)
    assert any(value.get("tags") == [] for value in inputs)
    assert {len(value["tags"]) for value in inputs if "tags" in value} == {0, 1, 2}
    found = made(tasks, 60, methods=["boundary"], schema=schema)
    valid = Draft202012Validator(schema)
    assert found.tasks
    assert all(valid.is_valid(task.input) for task in found.tasks)


def test_fields_that_the_agent_does_not_need_may_be_missing() -> None:
    tasks = [Task(f"{n}", {"question": f"q{n}", "k": n}) for n in range(4)]
    without = made(tasks, 60, methods=["boundary"])
    assert all("k" in task.input for task in without.tasks)
    optional = made(tasks, 60, methods=["boundary"], optional=["k"])
    assert any("k" not in task.input for task in optional.tasks)
    assert all("question" in task.input for task in optional.tasks)


def test_what_the_agent_does_not_take_is_dropped() -> None:
    tasks = [Task(f"{n}", n) for n in range(5)]
    found = made(tasks, 5, methods=["boundary"], check=lambda value: "no" if value == 2 else "")
    assert all(task.input != 2 for task in found.tasks)
    assert found.dropped


def test_unanswered_tasks_are_kept_only_on_request_where_others_have_answers() -> None:
    assert made(weather(), 10, methods=["boundary"]).tasks == ()
    kept = made(weather(), 10, methods=["boundary"], open_answers=True).tasks
    assert len(kept) >= 5
    assert {task.expected for task in kept} == {None}
    mixed = [*weather(), Task("open", "What is the weather in Bern on Friday?")]
    assert made(mixed, 10, methods=["boundary"]).tasks == ()
    unanswered = [msgspec.structs.replace(task, expected=None) for task in weather()]
    assert made(unanswered, 10, methods=["boundary"]).tasks


def test_no_sample_repeats_a_task_or_another_sample() -> None:
    found = made(weather(), 200, methods=["slots", "rewording", "boundary"], open_answers=True)
    inputs = [task.input for task in found.tasks]
    assert len(inputs) == len(set(inputs))
    assert not {task.input for task in weather()} & set(inputs)
    assert len({task.id for task in found.tasks}) == len(found.tasks)


def test_tasks_come_from_and_go_to_one_split_alone() -> None:
    tasks = weather()
    splits: dict[str, Split] = {t.id: "test" if n >= 4 else "train" for n, t in enumerate(tasks)}
    dataset = Dataset(name="d", tasks=tuple(tasks), splits=splits)
    found = asyncio.run(synthesize(dataset, 12, methods=["slots", "rewording"]))
    sources = {source for task in found.tasks for source in task.origin.sources}
    assert sources <= {"w0", "w1", "w2", "w3"}
    after = found.into(dataset)
    assert after.split("test") == dataset.split("test")
    assert len(after.split("train")) == 4 + len(found.tasks)
    assert after.parent == dataset.version
    assert after.reason.startswith("Synthesized into train: ")


def test_the_same_seed_makes_the_same_tasks() -> None:
    once, again, other = (made(weather(), 9, seed=seed, now=5.0).tasks for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_a_split_without_tasks_is_refused() -> None:
    with pytest.raises(InputError, match="The val split of 'd' has no tasks"):
        asyncio.run(synthesize(dataset_of(weather()), 3, split="val"))


def test_a_coach_without_examples_of_answers_is_refused() -> None:
    with pytest.raises(InputError, match="No task has an expected answer"):
        CoachSolver(None, [Task("a", "x")], {}, random.Random(0))  # type: ignore[arg-type]


def test_a_malformed_schema_is_refused() -> None:
    with pytest.raises(InputError, match="not a JSON schema"):
        made(weather(), 3, schema={"type": "nonsense"})


def test_an_inferred_schema_fits_its_examples_and_knows_bounds_and_choices() -> None:
    values: list[Any] = [{"n": n, "kind": "ab"[n % 2], "also": None} for n in range(10)]
    values.append({"n": 2.5, "kind": "a"})
    schema = infer_schema(values)
    assert schema["properties"]["n"] == {"type": "number", "minimum": 0, "maximum": 9}
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert schema["required"] == ["n", "kind"]
    assert all(Draft202012Validator(schema).is_valid(value) for value in values)
    assert Draft202012Validator(loosened(schema)).is_valid({"n": 99, "kind": "new"})
    assert not Draft202012Validator(loosened(schema)).is_valid({"n": "text", "kind": "a"})
