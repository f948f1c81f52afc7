"""The room-booking agent for trainers without Ratchet: same prompt, tool and verdict.

It imports only parts of the example that do not import Ratchet, so it runs in any environment with
the package `openai`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "room_booking"
sys.path.insert(0, str(EXAMPLE))

from openai import AsyncOpenAI  # noqa: E402
from room_booking.rooms import OFFICE, TOOLS, rooms_on  # noqa: E402
from room_booking.verdict import judge  # noqa: E402

MODEL, COACH, GRADER = "simulated-task", "simulated-coach", "simulated-grader"
TURNS = 4
TRIED = "PROMPT_SEARCH_TRIED"
"""Names the file in which it is noted when a prompt was tried."""
Result = TypeVar("Result")


class Booked(NamedTuple):
    """Result of one rollout."""

    task: dict[str, Any]
    answer: str
    score: float
    rationale: str


def job() -> dict[str, Any]:
    """Read this process's job from standard input."""
    found: dict[str, Any] = json.load(sys.stdin)
    return found


def done(prompt: str, began: float) -> None:
    """Print the result, and when it had first been run."""
    found = {"prompt": prompt, "wall_s": time.perf_counter() - began}
    if (file := Path(os.environ[TRIED])).exists():
        times = [json.loads(line) for line in file.read_text().splitlines()]
        first = [at for tried, at in times if tried == prompt]
        found |= {"leads": [(min(first) - began, prompt)]} if first else {}
    print(json.dumps(found), flush=True)


def tried(prompt: str) -> None:
    """Record that a prompt has been run; openevolve does so in several processes."""
    line = json.dumps([prompt, time.perf_counter()]) + "\n"
    with open(os.environ[TRIED], "a") as file:
        file.write(line)


def messages_of(prompt: str, task: dict[str, Any]) -> list[Any]:
    """The conversation's beginning.

    Raises:
        Exception: The prompt does not fit its fields.
    """
    return [
        {"role": "system", "content": prompt.format(office=OFFICE)},
        {"role": "user", "content": task["input"]["request"]},
    ]


def tool_result(call: Any) -> dict[str, Any]:
    """Result of the tool."""
    try:
        date = json.loads(call.function.arguments)["date"]
        content = json.dumps({"date": date, "rooms": rooms_on(date)})
    except (ValueError, LookupError, TypeError) as error:
        content = f"list_rooms needs a date as YYYY-MM-DD ({error})."
    return {"role": "tool", "tool_call_id": call.id, "content": content}


class Agent:
    """The agent with concurrent rollouts, on an event loop in its own thread.

    Args:
        base_url: The simulator.
        concurrency: Rollouts at once.
    """

    def __init__(self, base_url: str, concurrency: int) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=60)
        self._slots = asyncio.Semaphore(concurrency)

    def run(self, prompt: str, tasks: Sequence[dict[str, Any]]) -> list[Booked]:
        """Run a prompt on tasks; results in their order."""

        async def every() -> list[Booked]:
            return await asyncio.gather(*(self._one(prompt, task) for task in tasks))

        booked = self.wait(every())
        tried(prompt)
        return booked

    def coach(self, messages: Sequence[dict[str, str]], temperature: float = 1.0) -> str:
        """Ask the coach."""

        async def ask() -> str:
            completion = await self._client.chat.completions.create(
                model=COACH, messages=list(messages), temperature=temperature
            )
            return completion.choices[0].message.content or ""

        return self.wait(ask())

    def wait(self, what: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _one(self, prompt: str, task: dict[str, Any]) -> Booked:
        async with self._slots:
            try:
                messages = messages_of(prompt, task)
                answer = await self._answer(messages)
            except Exception as error:
                return Booked(task, "", 0.0, f"The agent failed: {type(error).__name__}: {error}")
        return Booked(task, answer, *judge(answer, task["expected"], task))

    async def _answer(self, messages: list[Any]) -> str:
        for _ in range(TURNS):
            completion = await self._client.chat.completions.create(
                model=MODEL, messages=messages, tools=TOOLS, temperature=0
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return (message.content or "").strip()
            messages.append(message.model_dump(exclude_none=True))
            messages += [tool_result(call) for call in message.tool_calls]
        raise RuntimeError(f"The model gave no answer in {TURNS} turns.")
