"""What a prompt says about booking rooms, read by meaning from anybody's wording.

A prompt is cut into sentences. Each rule knows the words of its topic, wordings that state it in
full, and wordings that state the contrary. A sentence that names the topic and orders something
states the rule weakly; one that also says what has to hold states it strongly; "ignore",
"does not matter" and the like turn it round; "try to" and "if possible" weaken it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

STRONG, WEAK, HEDGED = 1.0, 0.6, 0.75
"""How firmly a rule is stated: in full, by its topic only; and the factor for a hedge."""


class _Rule(NamedTuple):
    topic: str
    strong: str
    contrary: str = r"(?!)"
    """States the opposite by itself, without a negation."""


_PEOPLE = r"(everyone|everybody|all|each|group|attendee|people|person|participant|party|guest|team)"
_ASKED = r"(ask|request|requir|need|want|specif|mention|listed|demand|necessary)"
_WHOLE = (
    r"(entire|whole|full|complete|throughout|from start|start to (end|finish)|duration|time ?slot"
    r"|period|interval|slot|(requested|given|asked|meeting) time|at that time|the time|requested)"
)

RULES: Mapping[str, _Rule] = {
    "capacity": _Rule(
        r"capacit|\bseats?\b|seating|head ?count|(group|party|room|team) size"
        r"|number of (people|attendees|participants|guests)",
        r"(capacit|seat|chairs|places)\w*[^.]{0,60}(at least|>=|\u2265|(not|no) (less|lower"
        r"|smaller)"
        r"|equal|or more|enough|exceed|suffic|cover|match|meets?\b|greater|for (all|every|each))"
        rf"|(at least|>=|\u2265|enough|sufficient|adequate)[^.]{{0,40}}(capacit|seat|space|chairs"
        rf"|places"
        rf"|as many)|(big|large|spacious|roomy) enough"
        rf"|\b(fit|hold|seat|accommodate|take)s?\b[^.]{{0,30}}{_PEOPLE}"
        r"|too small|(fewer|less) (seats|places|chairs|capacity)|(capacity|seats?) (is|are|of)? ?"
        r"(below|under|less|lower|smaller)",
    ),
    "equipment": _Rule(
        r"equipment|\bgear\b|amenit|facilit|projector|whiteboard|\ba/?v\b",
        rf"(all|every|each|any)( of)?( the)?[^.]{{0,30}}(equipment|items?\b|gear|features?|facilit"
        rf"|amenit|devices?)|(equipment|gear|amenit|facilit|features|devices)[^.]{{0,50}}{_ASKED}"
        rf"|{_ASKED}\w*[^.]{{0,30}}(equipment|gear|amenit|facilit|features|devices)"
        r"|(lack|miss)\w*[^.]{0,40}(equipment|item|gear|feature|facilit|amenit)"
        rf"|(projector|whiteboard|video)[^.]{{0,60}}({_ASKED}|must)",
    ),
    "accessible": _Rule(
        r"accessib|step[- ]free|wheelchair|mobility|disab",
        r"(accessib|step[- ]free|wheelchair|mobility|disab)\w*[^.]{0,80}"
        rf"(\bif\b|when|must|{_ASKED}|only|never|accessible|exclude)"
        rf"|(\bif\b|when|must|{_ASKED}|only|never|exclude|reject)[^.]{{0,80}}"
        r"(accessib|step[- ]free|wheelchair|mobility)",
    ),
    "available": _Rule(
        r"availab|\bbook(ed|ings)\b|(?<!step[- ])\bfree\b|schedule|calendar|reserv|occupied|vacant",
        rf"(?<!step[- ])\b(free|availab\w*|unbooked|unoccupied|vacant|open)\b[^.]{{0,60}}{_WHOLE}"
        r"|overlap\w*[^.]{0,40}(book|meeting|slot|time|reserv|event|request)"
        r"|(book|meeting|reserv|\bno|\bany|reject|avoid|exclude|drop|discard)\w*[^.]{0,40}overlap"
        r"|conflict\w* (with|booking)|clash|collid|double[- ]book"
        r"|(already|currently) (book|taken|reserv|occupied)|existing (book|reserv)"
        r"|(not|isn't|un)[ -]?(booked|taken|reserved|occupied)",
    ),
    "buffer": _Rule(
        r"buffer|turn-?around|change-?over|back[- ]to[- ]back|clean(ing|-?up)|\bgap\b|set-?up time"
        r"|breathing space",
        r"(10|ten)[- ]?(min|')\w*[^.]{0,60}(before|after|between|either side|apart|buffer|gap"
        r"|around"
        r"|free|clear|turn)|(buffer|gap|turn-?around|margin|apart|change-?over|clear)[^.]{0,50}"
        r"(10|ten)[- ]?min",
    ),
    "distance": _Rule(
        r"distance|\bwalk(ing)?\b|\bfar\b|metres|meters",
        r"(distance|\bfar|walk|metre|meter|away)[^.]{0,60}(limit|max|within|no (more|further"
        r"|farther)"
        r"|at most|exceed|not (more|further|farther)|<=|\u2264|bound)"
        r"|(within|at most|max\w*|limit|no (more|further|farther) than|exceed\w*|beyond)[^.]{0,40}"
        r"(distance|walk|metre|meter)|too far",
    ),
    "fit": _Rule(
        r"smallest|tightest|best[- ]fit|oversi[sz]ed|right[- ]si[sz]ed?|size of the room",
        r"smallest|tightest|(least|fewest|lowest) (spare|excess|unused|extra|empty|leftover|surplus"
        r"|number of (spare|unused|empty))|(closest|nearest)( \w+)? (in )?(capacity|size)"
        r"|capacity (that is )?(closest|nearest)|best[- ]fit|minimi[sz]\w*[^.]{0,25}(waste|spare"
        r"|unused"
        r"|excess|empty|capacity)|(lowest|least|minimum|minimal) (sufficient |adequate )?capacity"
        r"|just (big|large) enough|oversi[sz]ed|(larger|bigger) than (is )?(needed|necessary)",
        r"(largest|biggest|roomiest|most spacious|(highest|most|greatest) (capacity|seats))",
    ),
    "near": _Rule(
        r"nearest|closest|nearer|shortest walk|least distance",
        r"(nearest|nearer|closest|closer)(?! (\w+ )?(in )?(capacity|size))|shortest (walk|distance)"
        r"|(least|lowest|smallest|minimum) (walk|distance)|minimi[sz]\w* (the )?(walk|distance)"
        r"|fewest (metres|meters)",
        r"(farthest|furthest|most distant)",
    ),
    "none": _Rule(
        r"no (suitable|such|matching) room|nothing (fits|matches)",
        r"\b(if|when|unless|answer|say|reply|return|respond|output)\b[^.]{0,80}\bnone\b"
        r"|\bnone\b[^.]{0,40}\b(if|when|unless)\b|\bno (\w+ )?room\b[^.]{0,60}(fit|meet|match"
        r"|qualif|satisf|suit|avail|exist|remain"
        r"|works|say|reply|answer)|(nothing|not one)[^.]{0,30}(fit|meet|match|qualif|satisf|remain)"
        r"|cannot be (met|satisfied|fulfilled)",
        r"always (book|pick|choose|name|suggest|give|offer)( \w+){0,2} room|even if (no|none)"
        r"|(closest|nearest) (match|alternative)|never (say|answer|reply)[^.]{0,20}(no|none)",
    ),
    "format": _Rule(
        r"(answer|output|response|reply) format|format of (the|your) (answer|output|reply)"
        r"|\bconcise",
        r"(only|just|nothing (but|except)|exactly|solely|bare)[^.]{0,40}"
        r"\b(id|identifier|room name|room's name|name of the room|room code|room number)\b"
        r"|(answer|reply|respond|output|return|end|finish)\w*[^.]{0,50}(only|just|exactly"
        r"|single|one)"
        r"[^.]{0,40}\b(id|room|name|word|identifier)\b"
        r"|(id|identifier|name)\b[^.]{0,30}(nothing else|and no other|alone|by itself|on its own)"
        r"|(no|without) (any )?(explanation|other (text|words)|commentary|prose|extra (text|words))"
        r"|\b(id|identifier) (only|alone)\b|\bone room id\b|\bid of (one|a single) room\b",
        r"(explain|describe|justify|show) (your|the|every|each)|list (all|the|several|every)"
        r"( \w+){0,2} (candidate|option|alternative|room)|step[- ]by[- ]step|in full sentences"
        r"|mention alternatives|be (friendly|chatty|verbose|detailed)",
    ),
}
"""Rules that a prompt may state, by name."""

_COMPILED = {
    name: _Rule(*(re.compile(part) for part in rule))  # type: ignore[arg-type]
    for name, rule in RULES.items()
}

_DIRECTIVE = re.compile(
    r"\b(must|only|always|never|ensure|make sure|check|verif|require|should|need|ha(s|ve) to|do not"
    r"|don't|choose|pick|select|prefer|exclude|reject|filter|discard|rule out|remove|skip|answer"
    r"|reply|respond|respect|honou?r|consider|satisf|meet|compare|mind|account|attention|leave|keep"
    r"|confirm|avoid|break ties|tie|eliminate|drop|return|output|book\b|use\b|sort|rank|if|when"
    r"|match"
    r"|allow|suggest|take|accept|treat|count|ignore|disregard)"
)
_HEDGE = re.compile(
    r"\b(try|ideally|(if|when|where) (possible|feasible|you can)|keep in mind|mindful|might"
    r"|preferably|be aware|think about|attention to|(in)?to account|reasonable|generally|usually"
    r"|consider(?!ed)|it (would|is) (be )?nice)"
)
_NEGATED = re.compile(
    r"\b(ignor(e|ing)|disregard(ing)?|overlook|neglect|skip (the )?check|no need|don't (check|care"
    r"|worry|bother|consider|mind|apply)|do not (check|care|worry|bother|consider|mind|apply|need)"
    r"|(does|do) ?n[o']t matter|not? (important|relevant|necessary|required|a concern)|irrelevant"
    r"|never (check|consider|mind)|regardless of|unimportant|without (checking|regard))"
)
_DOUBLE = re.compile(
    r"\b(never|not|don't|cannot|can't|without)( \w+){0,3} (ignor|disregard|overlook|neglect|skip|"
    r"without (checking|regard))"
)
_TIE = re.compile(
    r"\b(tie[sd]?\b|among (equal|those|these|them|the)|equally|same (capacity|size)|then)"
)
_CUT = re.compile(r"\n+|(?<=[.!?;])\s+|(?<=[a-z0-9)])\.(?=[A-Z])")
_DEMO = re.compile(
    r"(?im)^\W*(?:example|request|input|user|question|task)\b[^\n]{0,40}:(?=(?:.|\n){0,900}?"
    r"^\W*(?:answer|output|assistant|response|room|expected)\b[^\n]{0,20}:)"
)
_NO_TOOLS = re.compile(
    r"(never|do not|don't|without) (call|calling|use|using|invoke|invoking)( \w+)? tools?\b"
)


class Reading(NamedTuple):
    """What a model takes from a prompt."""

    stated: Mapping[str, float]
    """How firmly each rule is stated, in (0, 1]."""
    denied: frozenset[str]
    """Rules that the prompt says the opposite of."""
    near_first: bool
    """Whether distance decides before size does."""
    demonstrations: int
    words: int
    no_tools: bool

    @property
    def empty(self) -> bool:
        return self.words == 0


@lru_cache(maxsize=4096)
def read(prompt: str) -> Reading:
    """What a prompt says."""
    stated: dict[str, float] = {}
    denied: set[str] = set()
    first: dict[str, int] = {}
    for number, sentence in enumerate(sentences(prompt)):
        for name, (strength, against) in said_in(sentence).items():
            if against:
                denied.add(name)
                continue
            stated[name] = max(stated.get(name, 0.0), strength)
            if name in ("fit", "near"):
                late = 1000 if name == "near" and _TIE.search(sentence.lower()) else 0
                first.setdefault(name, number + late)
    return Reading(
        stated=stated,
        denied=frozenset(denied),
        near_first=first.get("near", 10**6) < first.get("fit", 10**6),
        demonstrations=len(_DEMO.findall(prompt)),
        words=len(prompt.split()),
        no_tools=bool(_NO_TOOLS.search(prompt.lower())),
    )


def sentences(text: str) -> list[str]:
    """A text cut at line breaks and ends of sentences."""
    return [part.strip() for part in _CUT.split(text) if part and part.strip()]


@lru_cache(maxsize=65536)
def said_in(sentence: str) -> Mapping[str, tuple[float, bool]]:
    """By rule: how firmly a sentence states it, and whether it says the opposite."""
    lower = sentence.lower().replace("\u2019", "'")
    found: dict[str, tuple[float, bool]] = {}
    ordered = bool(_DIRECTIVE.search(lower)) or bool(
        re.match(r"\s*([-*\u2022]|\d+[.)])\s", sentence)
    )
    turned = bool(_NEGATED.search(lower)) and not _DOUBLE.search(lower)
    hedge = HEDGED if _HEDGE.search(lower) else 1.0
    for name, rule in _COMPILED.items():
        if rule.contrary.search(lower):  # type: ignore[attr-defined]
            avoided = re.search(r"\b(avoid|never|not|don't|rather than|instead of)\b", lower)
            if avoided and name in ("fit", "near"):
                found[name] = (STRONG * hedge, False)
            elif name != "none" or not turned:
                found[name] = (STRONG, True)
            continue
        if rule.strong.search(lower):  # type: ignore[attr-defined]
            strength = STRONG * hedge
        elif rule.topic.search(lower) and (ordered or turned):  # type: ignore[attr-defined]
            strength = WEAK * hedge
        else:
            continue
        # "Ignore rooms that are too small" is about rooms; "ignore the capacity" is about the rule.
        against = turned and not re.search(
            r"(ignore|disregard|skip|overlook)( \w+){0,2} rooms?", lower
        )
        found[name] = (strength, against)
    return found
