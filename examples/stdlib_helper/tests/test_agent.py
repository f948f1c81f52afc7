"""The agent: at most ten names, the easy question answered, and no model unless one is named.

It answers under the settings that a test states, whatever the values in the source.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from unittest import mock

from stdlib_helper.agent import answer
from stdlib_helper.cache import documents
from stdlib_helper.scoring import Scorer, rank

from .settings import FULL, PLAIN, stated

EASY = "recursively copy a directory tree"


class AgentTest(unittest.TestCase):
    def setUp(self) -> None:
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("STDLIB_HELPER_MODEL", None)
        self.enterContext(stated(FULL))

    def test_it_names_at_most_ten_documents_each_once(self) -> None:
        names = {document.name for document in documents()}
        for question in ("how do I sort a list of dicts?", "a", "", "file " * 500):
            found = answer(question)
            self.assertLessEqual(len(found), 10)
            self.assertEqual(len(set(found)), len(found))
            self.assertEqual(set(found) - names, set())

    def test_an_easy_question_gets_its_answer(self) -> None:
        self.assertEqual(answer(EASY)[0], "shutil.copytree")
        with stated(PLAIN):
            self.assertIn("shutil.copytree", answer(EASY))

    def test_the_order_is_that_of_the_settings(self) -> None:
        # Each bonus decides one of these.
        for settings in (
            PLAIN,
            FULL,
            PLAIN._replace(exact_name_bonus=10.0),
            PLAIN._replace(coverage_bonus=10.0),
        ):
            scorer = Scorer(settings)
            for question in ("print the sum of a list", EASY):
                found = rank(
                    scorer.candidates(question), settings.exact_name_bonus, settings.coverage_bonus
                )
                with stated(settings):
                    self.assertEqual(answer(question), [entry["name"] for entry in found[:10]])

    def test_the_same_question_gets_the_same_answer(self) -> None:
        first = answer("parse json")
        self.assertTrue(first)
        self.assertEqual(answer("parse json"), first)

    def test_without_a_model_openai_is_never_imported(self) -> None:
        code = (
            "import sys\n"
            "already = 'openai' in sys.modules\n"
            "from stdlib_helper.agent import answer\n"
            "from tests.settings import FULL, stated\n"
            "already = already or 'openai' in sys.modules\n"
            "with stated(FULL):\n"
            "    assert answer('parse json')\n"
            "sys.exit('openai' in sys.modules and not already)"
        )
        finished = self.run_python("-c", code)
        self.assertEqual(finished.returncode, 0, finished.stderr[-500:])

    def test_the_command_prints_five_names_and_their_summaries(self) -> None:
        # `python -m stdlib_helper`, under stated settings.
        code = (
            "import runpy\n"
            "from tests.settings import FULL, stated\n"
            "with stated(FULL):\n"
            "    runpy.run_module('stdlib_helper', run_name='__main__', alter_sys=True)"
        )
        finished = self.run_python("-c", code, EASY)
        self.assertEqual(finished.returncode, 0, finished.stderr[-500:])
        self.assertEqual(len(finished.stdout.splitlines()), 5)
        self.assertIn("shutil.copytree", finished.stdout)

    def test_the_command_without_a_question_says_how_to_ask(self) -> None:
        finished = self.run_python("-m", "stdlib_helper")
        self.assertEqual(finished.returncode, 2)
        self.assertIn("Ask a question", finished.stderr)

    def run_python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
