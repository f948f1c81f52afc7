"""Tests that hold for any wording and sampling. No model is called."""

import unittest
from types import SimpleNamespace
from unittest import mock

import agent
from make_tasks import tasks


class Completions:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: dict[str, object] = {}

    def create(self, **asked: object) -> SimpleNamespace:
        self.asked = asked
        return SimpleNamespace(choices=[SimpleNamespace(text=" e\n")])


class Agent(unittest.TestCase):
    def setUp(self) -> None:
        self.completions = Completions()
        fake = SimpleNamespace(completions=self.completions)
        patch = mock.patch.object(agent, "client", lambda: fake)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_answer_has_no_space_around_it(self) -> None:
        self.assertEqual(agent.answer("LATIN SMALL LETTER E WITH ACUTE"), "e")

    def test_the_name_comes_last(self) -> None:
        agent.answer("LATIN SMALL LETTER E WITH ACUTE")
        prompt = str(self.completions.asked["prompt"])
        self.assertTrue(prompt.endswith("Input: LATIN SMALL LETTER E WITH ACUTE\nOutput:"))

    def test_every_stop_is_known(self) -> None:
        agent.answer("LATIN SMALL LETTER E WITH ACUTE")
        self.assertIn(self.completions.asked["stop"], agent.STOPS.values())


class Tasks(unittest.TestCase):
    def test_capital_and_small_letters_differ(self) -> None:
        expected = {task["input"]: task["expected"] for task in tasks()}
        self.assertEqual(expected["LATIN CAPITAL LETTER E WITH ACUTE"], "E")
        self.assertEqual(expected["LATIN SMALL LETTER E WITH ACUTE"], "e")


if __name__ == "__main__":
    unittest.main()
