"""Tests that hold for any wording of the prompt. No model is called."""

import asyncio
import unittest
from types import SimpleNamespace
from unittest import mock

import agent
from house_rules import Ticket, routed


class Model:
    """Notes what it is asked, in the place of a client."""

    def __init__(self, **_: object) -> None:
        self.chat = SimpleNamespace(completions=self)

    async def __aenter__(self) -> "Model":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def create(self, **asked: object) -> SimpleNamespace:
        Model.asked = asked
        message = SimpleNamespace(content=' {"team": "sales"}\n')
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


class Agent(unittest.TestCase):
    def test_the_ticket_comes_last_and_the_answer_has_no_space_around_it(self) -> None:
        with mock.patch.object(agent, "AsyncOpenAI", Model):
            answer = asyncio.run(agent.route("Is the kettle in stock?"))
        self.assertEqual(answer, '{"team": "sales"}')
        prompt = Model.asked["messages"][-1]["content"]
        self.assertTrue(prompt.endswith("Input: Is the kettle in stock?\nOutput:"))


class HouseRules(unittest.TestCase):
    def test_a_firm_is_served_one_step_sooner(self) -> None:
        self.assertEqual(routed(Ticket("late", "fan", 12345))["priority"], "P3")
        self.assertEqual(routed(Ticket("late", "fan", 12345, firm=True))["priority"], "P2")

    def test_nothing_is_sooner_than_danger(self) -> None:
        self.assertEqual(routed(Ticket("danger", "fan", 12345, firm=True))["priority"], "P1")

    def test_what_a_ticket_does_not_say_is_null(self) -> None:
        routing = routed(Ticket("login", None, None))
        self.assertIsNone(routing["product"])
        self.assertIsNone(routing["order"])


if __name__ == "__main__":
    unittest.main()
