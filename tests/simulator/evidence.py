"""What went wrong, as far as the text shows it that a coach is given.

Two kinds of evidence count: words about a failure ("seats 4 of 6 people", "already booked"), and
traces in which a request, the rooms that a tool returned and the answer can be compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from tests.simulator.booking import (
    NONE,
    Request,
    Room,
    equipment_asked,
    read_request,
    read_rooms,
    violations,
)
from tests.simulator.reading import WEAK, said_in, sentences

_GEAR = r"(projector|whiteboard|video|screen|phone|equipment|gear|camera|microphone|\w+board)"

FAILURES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "capacity": r"too small|seats? (only |just )?\d+ (of|but|for|while|when|people)|not enough"
        r" (seats|room|space|capacity)|only \d+ (seats|places)|capacity (of )?\d+ (is|was)? ?(below"
        r"|less|too|<)|(can ?not|can't|could not) (seat|fit|hold)|under-?sized|short of seats",
        "equipment": rf"(ha[sd]|have|with|there (is|was)) no {_GEAR}|lack(s|ed"
        rf"|ing)?\b[^.]{{0,30}}{_GEAR}"
        rf"|missing (the |an? )?{_GEAR}|{_GEAR} (is|was|were|are) missing|without (an? |the"
        rf" )?{_GEAR}"
        rf"|(does|did)(n't| not) have (an? |the )?{_GEAR}",
        "accessible": r"(not|isn't|wasn't|without) (wheelchair[- ])?(accessible|step[- ]free)"
        r"|inaccessible|not reachable|no step[- ]free|no wheelchair",
        "available": r"(already|is|was) (booked|taken|occupied|reserved)|overlaps? (with |a "
        r"|another)"
        r"|double[- ]book|clash(es|ed)|conflicts? with|(is|was) not (free|available)|unavailable"
        r"|(is|was) busy",
        "buffer": r"buffer|turn-?around|back[- ]to[- ]back|min\w* (between|before|after) (it"
        r"|the|a|an"
        r"other|other|two|next|book|meet)|too (close|soon|tight)[^.]{0,20}(booking|meeting|after"
        r"|before)",
        "distance": r"too far|(farther|further) (away )?than|(beyond|exceed\w*|over|past) (the )?"
        r"(allowed |asked |requested |maximum )?(\d+ ?m\b|limit|distance|walk)|(is|was|lies) \d+"
        r" ?m away",
        "fit": r"smaller (free |suitable |valid |fitting )*room|(larger|bigger) than (needed"
        r"|necessary)"
        r"|oversi[sz]ed|too (large|big)|(smallest|tightest)|wast(es|ed|ing)|fewer (spare|empty"
        r"|unused)",
        "near": r"(nearer|closer) (free |suitable |valid |equal |room|one)|(nearest|closest)"
        r" (room|one"
        r"|of)|shorter walk|(is|was) (nearer|closer)",
        "none": r"no room (fits|fitted|qualif|meets|met|satisf|works|is|was)|none (was|is|would"
        r" be|had"
        r" been) (right|expected|correct)|(expected|right|correct)( answer)?( is| was|:)"
        r" ?['\"]?none"
        r"|should (have )?(said|say|answer(ed)?|be|been) ['\"]?none",
        "format": r"(can ?not|could ?n[o']t|can't) be (read|parsed)|names? (several|two|both"
        r"|more than"
        r" one|multiple)|not (just|only) (the|a|one) (id|room)|(just|only) the (room('s)? )?id"
        r"|one (room )?id (was|is) expected|ambiguous|unparse?able",
    }.items()
}
"""Words that speak of a failure, by the rule that would have prevented it."""

_ASKING = re.compile(
    r"\W*(\w+\W{1,4})?(we|it (has|should|is)|one of us|please|there will|not more than)\b"
)
"""How whoever needs a room speaks: what they ask for is no rule."""


def found_in(text: str) -> Counter[str]:
    """How often each rule's absence shows in a text, in failures told, rules stated, and traces."""
    counted: Counter[str] = Counter()
    plain = unescaped(text)
    for sentence in spoken(plain):
        counted.update(failures_in(sentence))
    counted.update(broken_in_traces(plain))
    return counted


@lru_cache(maxsize=65536)
def failures_in(sentence: str) -> frozenset[str]:
    """The rules whose absence a sentence tells of."""
    lower = sentence.lower()
    return frozenset(name for name, pattern in FAILURES.items() if pattern.search(lower))


def advised_in(text: str) -> Counter[str]:
    """How often a text advises each rule: a critique's points, another prompt's rules."""
    counted: Counter[str] = Counter()
    for sentence in spoken(unescaped(text)):
        if _ASKING.match(sentence.lower()):
            continue
        for name, (strength, against) in said_in(sentence).items():
            if strength <= WEAK or against:
                continue
            # How the coach itself is to answer is said in the same words.
            if name != "format" or re.search(r"\b(id|identifier|room)\b", sentence.lower()):
                counted[name] += 1
    return counted


def unescaped(text: str) -> str:
    """A text in which JSON inside of JSON strings can be read."""
    for _ in range(3):
        if '\\"' not in text and "\\n" not in text:
            break
        text = text.replace('\\\\"', '\\"').replace('\\"', '"').replace("\\\\n", "\n")
        text = text.replace("\\n", "\n")
    return text


def spoken(text: str) -> Iterator[str]:
    """The sentences of a text; of data only those in its strings."""
    for sentence in sentences(text):
        if '":' not in sentence:
            yield sentence
            continue
        for part in sentence.split('"'):
            if len(part.split()) > 2:
                yield part


def broken_in_traces(text: str) -> Counter[str]:
    """Rules of common sense that answers broke, where a trace shows request, rooms and answer."""
    counted: Counter[str] = Counter()
    for request, rooms, chosen in episodes(text):
        room = next((room for room in rooms if room.id == chosen), None)
        if room is None:
            continue
        broken = set(violations(request, room, equipment_asked(request, rooms)))
        counted.update(broken - {"buffer"})  # a rule of the house, not of common sense
    return counted


def episodes(text: str) -> Iterator[tuple[Request, list[Room], str]]:
    """Requests with the rooms that a tool returned and the room that was chosen, or `none`."""
    decoder = json.JSONDecoder()
    position = 0
    while (start := re.compile(r'[\[{]\s*"?').search(text, position)) is not None:
        position = start.start() + 1
        if not re.match(r'[\[{]\s*(\{\s*)?"(rooms|room_id|id|name)"', text[start.start() :][:40]):
            continue
        try:
            value, end = decoder.raw_decode(text, start.start())
        except ValueError:
            continue
        rooms = read_rooms(value)
        if len(rooms) < 2:
            continue
        position = end
        request = _nearest_request(text[max(0, start.start() - 3_000) : start.start()])
        if request is not None:
            yield request, rooms, _chosen(text[end : end + 1_200], rooms)


def _nearest_request(before: str) -> Request | None:
    """The last request before a tool's result: its date is looked for from the end."""
    for found in reversed(list(re.finditer(r"\d{4}-\d{2}-\d{2}", before))):
        window = before[max(0, found.start() - 250) : found.end() + 350]
        if (request := read_request(window)) is not None:
            return request
    return None


def _chosen(after: str, rooms: list[Room]) -> str:
    ids = "|".join(re.escape(room.id) for room in rooms)
    found = re.search(rf"\b({ids})\b|[\"'\s]({NONE})[\"'\s.]", after)
    return (found[1] or NONE) if found else ""
