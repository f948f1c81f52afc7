"""The simulated task model: it books rooms by the rules that its prompt states, and by few others.

It asks for the tool that knows rooms, reads what that returned, and answers. A rule that the prompt
does not state it follows by habit on some requests and not on others; a rule that is stated it
follows unless its attention lapses, which happens more often the longer the prompt is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tests.simulator.booking import (
    NONE,
    Request,
    Room,
    equipment_asked,
    read_request,
    read_rooms,
    violations,
)
from tests.simulator.luck import dice, draw
from tests.simulator.reading import Reading, read

MODEL = "simulated-task"

HABITS: Mapping[str, float] = {
    "capacity": 0.75,
    "equipment": 0.6,
    "accessible": 0.6,
    "available": 0.65,
    "buffer": 0.05,
    "distance": 0.45,
    "fit": 0.35,
    "near": 0.25,
    "none": 0.4,
    "format": 0.8,
}
"""How often a rule is followed that nobody stated."""
DENIED = 0.03
"""How often a rule is followed that the prompt says the opposite of."""
LAPSES = 0.012
"""How often a rule is missed that is stated in full, with noise 1."""
DEMONSTRATED = 0.12
"""Share of its bad habits that a demonstration takes away, up to six of them."""
LONG, DILUTION, MOST_DILUTION = 250, 0.02, 0.25
"""Words from which attention falls, by how much each hundred words, and at most."""


class Answer(NamedTuple):
    """What the model says: a text, or calls of tools with their arguments."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def answer(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    *,
    seed: object,
    noise: float = 1.0,
    must_call: bool = False,
) -> Answer:
    """What the model says next.

    Args:
        messages: The conversation, as chat completions have it.
        tools: Tools that it may ask for.
        seed: Of its luck.
        noise: Factor of how often its attention lapses.
        must_call: Whether it may not answer yet.
    """
    system = "\n".join(text_of(m) for m in messages if m["role"] in ("system", "developer"))
    has_system = any(m["role"] in ("system", "developer") for m in messages)
    users = [text_of(m) for m in messages if m["role"] == "user"]
    prompt = system if has_system else "\n".join(users)
    reading = read(prompt)
    if reading.empty:
        return Answer(_babble(seed, users))
    request = next((r for text in reversed([system, *users]) if (r := read_request(text))), None)
    if request is None:
        return Answer("Which date, what time, and for how many people?")
    said = [text_of(m) for m in messages if m["role"] == "tool"]
    rooms = next((found for text in reversed(said) if (found := _rooms(text))), None)
    if rooms is None and not said and (must_call or not reading.no_tools):
        call = _call(tools, request)
        if call is not None:
            return Answer("", (call,))
    if rooms is None:
        return Answer("I would need to see the rooms to say which one suits.")
    return Answer(_choose(request, rooms, reading, prompt, seed, noise))


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may come in parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(p.get("text", "")) for p in content or [] if isinstance(p, Mapping))


def follows(
    rule: str, request: Request, reading: Reading, prompt: str, seed: object, noise: float
) -> bool:
    """Whether the model follows a rule on a request."""
    habit = draw(seed, "habit", rule, request.text)
    lapse = draw(seed, "lapse", rule, request.text, prompt)
    if rule in reading.denied:
        # Told one thing and its opposite, it does either.
        return lapse < (0.5 if rule in reading.stated else DENIED)
    shown = (1 - DEMONSTRATED) ** min(reading.demonstrations, 6)
    by_habit = habit >= (1 - HABITS[rule]) * shown
    if rule not in reading.stated:
        return by_habit
    dilution = min(max(0, reading.words - LONG) / 100 * DILUTION, MOST_DILUTION)
    heeded = reading.stated[rule] * (1 - noise * (LAPSES + dilution))
    return lapse < heeded or (by_habit and lapse < 0.97)


def _choose(
    request: Request,
    rooms: Sequence[Room],
    reading: Reading,
    prompt: str,
    seed: object,
    noise: float,
) -> str:
    followed = {rule for rule in HABITS if follows(rule, request, reading, prompt, seed, noise)}
    asked = equipment_asked(request, rooms)
    left = [r for r in rooms if not followed.intersection(violations(request, r, asked))]
    luck = dice(seed, "choice", request.text)
    by_size = (lambda r: r.capacity) if "fit" in followed else (lambda r: 0)
    by_distance = (lambda r: r.metres) if "near" in followed else (lambda r: 0)
    keys = [by_distance, by_size] if reading.near_first else [by_size, by_distance]
    careless = {room.id: luck.random() for room in rooms}
    decided = "fit" in followed or "near" in followed

    def order(room: Room) -> tuple[Any, ...]:
        return (*(key(room) for key in keys), room.id if decided else careless[room.id])

    ranked = sorted(left or rooms, key=order)
    chosen = NONE if not left and "none" in followed else ranked[0].id
    if "format" in followed:
        return chosen
    if chosen == NONE:
        return "I am sorry, I did not find anything for that."
    others = [room.id for room in ranked if room.id != chosen]
    if luck.random() < 0.25 or not others:
        return f"I suggest {chosen} for your meeting on {request.date} at {request.clock}."
    return f"{chosen} and {others[0]} would both do; I lean towards {chosen}, as you like."


def _call(
    tools: Sequence[Mapping[str, Any]], request: Request
) -> tuple[str, dict[str, Any]] | None:
    for tool in tools:
        function = tool.get("function", {})
        about = f"{function.get('name', '')} {function.get('description', '')}".lower()
        if re.search(r"room|availab|calendar|booking", about):
            properties = (function.get("parameters") or {}).get("properties") or {}
            arguments = {name: _argument(name, of, request) for name, of in properties.items()}
            required = (function.get("parameters") or {}).get("required") or []
            return function["name"], {
                name: value
                for name, value in arguments.items()
                if value is not None or name in required
            }
    return None


def _argument(name: str, of: Mapping[str, Any], request: Request) -> Any:
    lower = name.lower()
    end = request.start + request.minutes
    values: dict[str, Any] = {
        r"date|day": request.date,
        r"end\b|end_|until|till": f"{end // 60:02d}:{end % 60:02d}",
        r"dur|minutes|length": request.minutes,
        r"attend|people|capac|count|size": request.people,
        r"time|start|from|begin": request.clock,
        r"access|step|wheel": request.step_free,
    }
    value = next((v for pattern, v in values.items() if re.search(pattern, lower)), None)
    kind = of.get("type")
    return str(value) if kind == "string" and value is not None else value


@lru_cache(maxsize=1024)
def _rooms(text: str) -> Sequence[Room]:
    return read_rooms(_json(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _babble(seed: object, users: Sequence[str]) -> str:
    luck = dice(seed, "babble", *users)
    words = ["well", "room", "the", "maybe", "of", "a", "table", "so", "weather", "blue", "and"]
    return " ".join(luck.choice(words) for _ in range(20)) + "."
