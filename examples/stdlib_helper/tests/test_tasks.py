"""The tasks are sound: enough of them, no two alike, and every accepted answer exists."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any

from stdlib_helper.cache import documents
from stdlib_helper.documents import exists

FILE = Path(__file__).parent.parent / "tasks.jsonl"


def read_tasks() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


class TasksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.tasks = read_tasks()

    def test_there_are_at_least_400(self) -> None:
        self.assertGreaterEqual(len(self.tasks), 400)

    def test_each_has_an_id_of_its_own_a_question_and_answers(self) -> None:
        for task in self.tasks:
            self.assertEqual(set(task), {"id", "input", "expected"})
            self.assertTrue(task["input"].strip())
            self.assertTrue(task["expected"])
            self.assertEqual(len(set(task["expected"])), len(task["expected"]), task["id"])
        self.assertEqual(len({task["id"] for task in self.tasks}), len(self.tasks))

    def test_no_question_is_asked_twice(self) -> None:
        seen: dict[str, str] = {}
        for task in self.tasks:
            question = " ".join(re.findall(r"\w+", task["input"].lower()))
            self.assertIsNone(seen.get(question), f"{task['id']} repeats it")
            seen[question] = task["id"]

    def test_no_answer_is_primary_for_more_than_three_questions(self) -> None:
        primary = [task["expected"][0] for task in self.tasks]
        self.assertLessEqual(max(primary.count(name) for name in primary), 3)

    @unittest.skipIf(sys.platform == "win32", "some answers exist on Unix only")
    def test_every_accepted_answer_exists_and_is_a_document(self) -> None:
        names = {document.name for document in documents()}
        for task in self.tasks:
            for name in task["expected"]:
                self.assertTrue(exists(name), f"{task['id']}: {name} does not import")
                self.assertTrue(name in names, f"{task['id']}: {name} is no document")
