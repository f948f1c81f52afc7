"""Tests that hold for any wording of the prompt. No model is called."""

import asyncio
import unittest
from types import SimpleNamespace
from unittest import mock

import agent


class Model:
    """Notes what it is asked, in the place of a client."""

    def __init__(self, **_: object) -> None:
        self.completions = self

    async def __aenter__(self) -> "Model":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def create(self, **asked: object) -> SimpleNamespace:
        Model.asked = asked
        return SimpleNamespace(choices=[SimpleNamespace(text=" COUNT(*) FROM matches\n")])


class Agent(unittest.TestCase):
    def test_the_schema_comes_first_and_the_question_last(self) -> None:
        with mock.patch.object(agent, "AsyncOpenAI", Model):
            query = asyncio.run(agent.write_query("How many matches were there?"))
        self.assertEqual(query, "SELECT COUNT(*) FROM matches")
        prompt = Model.asked["prompt"]
        self.assertTrue(prompt.startswith("CREATE TABLE top_batsmen"))
        self.assertTrue(prompt.endswith("Input: How many matches were there?\nOutput: SELECT"))

    def test_a_query_is_run(self) -> None:
        self.assertEqual(agent.rows("SELECT COUNT(*) FROM matches"), [(360,)])

    def test_the_database_cannot_be_written_to(self) -> None:
        with self.assertRaises(agent.sqlite3.OperationalError):
            agent.rows("DELETE FROM matches")


if __name__ == "__main__":
    unittest.main()
