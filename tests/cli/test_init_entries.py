"""Which function `ratchet init` takes as the entry, and what each of its parameters gets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.test_init_watching import SHOP, repository, upstream
from tests.server.gateway.upstreams import StubUpstream

__all__ = ["upstream"]


class Program(NamedTuple):
    """A program, its words, and the table [agent] that it is wired with."""

    source: str
    words: tuple[str, ...]
    agent: dict[str, Any]
    task_input: Any


QUESTION = "Where is my pan?"

PROGRAMS = {
    "two values that the owner gave are fields, the rest are constants": Program(
        """
        import sys
        from support.agent import ask
        def decide(ticker, date, *, style="calm", limit=3):
            return ask("You say buy or hold.", f"{ticker} on {date}, {style}, {limit}")
        if __name__ == "__main__":
            print(decide(sys.argv[1], sys.argv[2], style="bold"))
        """,
        ("NVDA", "2024-05-10"),
        {
            "entry": "main:decide",
            "arguments": {"ticker": "{input.ticker}", "date": "{input.date}", "style": "bold"},
        },
        {"ticker": "NVDA", "date": "2024-05-10"},
    ),
    "a function that gets the messages is a client, and the command the entry": Program(
        """
        import sys
        from support.agent import ask
        def complete(messages):
            return ask(messages[0]["content"], messages[-1]["content"])
        if __name__ == "__main__":
            rules = {"role": "system", "content": "You answer for the shop."}
            print(complete([rules, {"role": "user", "content": sys.argv[1]}]))
        """,
        (QUESTION,),
        {"entry": None},
        QUESTION,
    ),
    "an object with the input in a field is the input": Program(
        """
        import sys
        from support.agent import ask
        def plan(state):
            return {**state, "plan": ask("You plan the answer.", state["text"])}
        def handle(mail, tone="kind"):
            state = plan({"text": mail["text"]})
            return ask("You answer mails.", state["plan"] + mail["text"])
        if __name__ == "__main__":
            print(handle({"from": "ann", "text": sys.argv[1]}))
        """,
        (QUESTION,),
        {"entry": "main:handle", "arguments": {"mail": "{input}"}},
        {"from": "ann", "text": QUESTION},
    ),
    "a method is run on an object made as in the recorded run": Program(
        """
        import asyncio, sys
        from support.agent import ask
        class Desk:
            def __init__(self, shop, open=True):
                self.shop = shop
            async def urgency(self, question):
                return await asyncio.to_thread(ask, "Say low or high.", question)
            async def answer(self, question):
                task = asyncio.create_task(self.urgency(question))
                said = await asyncio.to_thread(ask, f"You answer for {self.shop}.", question)
                await task
                return said
        if __name__ == "__main__":
            print(asyncio.run(Desk("Blue").answer(sys.argv[1])))
        """,
        (QUESTION,),
        {
            "entry": "main:Desk.answer",
            "arguments": {"question": "{input}"},
            "construct": {"shop": "Blue"},
        },
        QUESTION,
    ),
    "a function that prints and returns nothing is no entry, the one inside is": Program(
        """
        import sys
        from support.agent import ask
        def answer(question):
            return ask("You answer.", question)
        def show(question):
            print(answer(question))
        if __name__ == "__main__":
            show(sys.argv[1])
        """,
        (QUESTION,),
        {"entry": "main:answer", "arguments": {"question": "{input}"}},
        QUESTION,
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_entry_is_derived_from_the_stacks(
    tmp_path: Path, upstream: StubUpstream, what: str
) -> None:
    program = PROGRAMS[what]
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": program.source})
    said = shop.init("--", sys.executable, "main.py", *program.words)
    agent = shop.settings["agent"]
    assert {key: agent.get(key) for key in program.agent} == program.agent
    assert said["input"] == program.task_input
    assert all(finding["holds"] is not False for finding in said["findings"])


def test_a_module_that_runs_the_agent_when_it_is_imported_is_run_as_a_command(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    source = """
        import sys
        from support.agent import ask
        def answer(question):
            return ask("You answer.", question)
        print(answer(sys.argv[1]))
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": source})
    said = shop.init("--", sys.executable, "main.py", QUESTION)
    assert said["mode"] == "command"


def test_functions_that_do_not_enclose_every_call_are_no_entry(
    tmp_path: Path, upstream: StubUpstream
) -> None:
    source = """
        import sys
        from support.agent import ask
        def sort(question):
            return ask("You sort.", question)
        def answer(question):
            return ask("You answer.", question)
        def main():
            sort(sys.argv[1])
            print(answer(sys.argv[1]))
        if __name__ == "__main__":
            main()
    """
    shop = repository(tmp_path, upstream, {**SHOP, "main.py": source})
    said = shop.init("--", sys.executable, "main.py", QUESTION)
    assert said["mode"] == "command"
    assert all(finding["holds"] for finding in said["findings"])
