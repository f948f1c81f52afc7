"""The simulated coach: it infers rules from failures and rewrites what it is asked to.

Its rewrites vary and are sometimes useless or harmful, by seeded chances. What it has not been
shown evidence of it cannot state: the rules of the house show only in feedback.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator import code_coach, writing
from tests.simulator.evidence import advised_in, found_in
from tests.simulator.luck import dice
from tests.simulator.reading import STRONG, read
from tests.simulator.shown import Shown, shown
from tests.simulator.task_model import text_of

MODEL = "simulated-coach"

KINDS: Mapping[str, float] = {
    "better": 0.58,
    "useless": 0.13,
    "drops": 0.08,
    "placeholder": 0.06,
    "harmful": 0.05,
    "longer": 0.04,
    "language": 0.03,
    "refuses": 0.02,
    "empty": 0.01,
}
"""What becomes of a rewrite, as shares of all."""
RULES_AT_ONCE = ((1, 0.45), (2, 0.35), (3, 0.2))
"""How many rules a rewrite or a critique takes up, with what chance."""
VAGUE = 0.2
"""How often a rule is stated so weakly that it hardly counts."""
MISTAKEN = 0.05
"""How often a critique's point is wrong."""


def answer(
    messages: Sequence[Mapping[str, Any]],
    response_format: Mapping[str, Any] | None,
    *,
    seed: object,
    turn: object = 0,
) -> str:
    """What the coach says.

    Args:
        messages: The conversation, as chat completions have it.
        response_format: The form that is asked for, if one is.
        seed: Of its luck.
        turn: Tells apart requests with equal content, where sampling is to vary.
    """
    plain = [{"role": m["role"], "content": text_of(m)} for m in messages]
    seen = shown(plain, response_format)
    luck = dice(seed, "coach", turn, json.dumps(plain), json.dumps(response_format))
    if seen.form == "grade":
        return luck.choice(("NOVEL", "NOVEL", "NOT_NOVEL")) + "\nThe two differ in what they say."
    if seen.is_code:
        return code_coach.answer(seen, luck)
    noticed = _notice(seen, luck)
    if seen.form == "critique":
        wrong = luck.random() < MISTAKEN
        text = writing.critique(noticed, luck, VAGUE)
        return f"{text}\n- {luck.choice(writing.HARMFUL)}" if wrong else text
    kind = luck.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "refuses":
        return luck.choice(writing.REFUSALS)
    if seen.form == "json":
        return _json(seen, noticed, kind, luck)
    prompt = rewritten(seen.current, noticed, kind, luck)
    if seen.form == "diff":
        return _diff(seen.current, prompt, luck)
    if seen.form == "fenced":
        lead = luck.choice(("Here is the new version.\n\n", "", "I looked at what failed.\n\n"))
        return f"{lead}{seen.fence}\n{prompt}\n{seen.fence}"
    return prompt


def rewritten(current: str, rules: Sequence[str], kind: str, luck: random.Random) -> str:
    """A rewrite of one kind.

    Args:
        current: The prompt as it is.
        rules: What was noticed to be missing.
        kind: One of `KINDS`.
        luck: Its luck.
    """
    base = current or "You are an assistant that books meeting rooms."
    if kind in ("better", "longer", "placeholder", "drops"):
        base = writing.adding(base, rules, luck, VAGUE) if rules else writing.reworded(base, luck)
    match kind:
        case "useless":
            return f"{base}\n{luck.choice(writing.FLUFF)}"
        case "drops":
            return writing.dropping(base, luck)
        case "placeholder":
            return writing.without_placeholder(base, luck)
        case "harmful":
            return f"{base}\n- {luck.choice(writing.HARMFUL)}"
        case "longer":
            return writing.longer(base, luck)
        case "language":
            return luck.choice(writing.FOREIGN)
        case "empty":
            return ""
        case _:
            return base


def _notice(seen: Shown, luck: random.Random) -> list[str]:
    """Rules to state, of those that the evidence shows and the prompt does not state firmly yet."""
    already = read(seen.current)
    # What a critique or a better prompt advises counts more than one failure among several.
    weights: Counter[str] = found_in(seen.rest)
    for rule, count in advised_in(seen.rest).items():
        weights[rule] += 2 * count
    missing = {
        rule: weight
        for rule, weight in weights.items()
        if already.stated.get(rule, 0.0) < STRONG or rule in already.denied
    }
    count = luck.choices([n for n, _ in RULES_AT_ONCE], [w for _, w in RULES_AT_ONCE])[0]
    chosen: list[str] = []
    while missing and len(chosen) < count:
        rules = sorted(missing)
        rule = luck.choices(rules, [missing[name] for name in rules])[0]
        chosen.append(rule)
        del missing[rule]
    return chosen


def _diff(current: str, prompt: str, luck: random.Random) -> str:
    """The change as SEARCH/REPLACE blocks; once in a while it does not match, as models' do."""
    old, new = current.splitlines(), prompt.splitlines()
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    # An insertion needs a line to hold on to.
    start = start - 1 if start and start >= len(old) - end else start
    search = old[start : len(old) - end] or old[:1]
    replace = new[start : len(new) - end]
    if not old[start : len(old) - end]:
        replace = [*replace, *search]
    if luck.random() < 0.04 and search:
        search = [f"{search[0]} as before", *search[1:]]
    blocks = ["<<<<<<< SEARCH", *search, "=======", *replace, ">>>>>>> REPLACE"]
    return "I propose one change.\n\n" + "\n".join(blocks)


def _json(seen: Shown, noticed: Sequence[str], kind: str, luck: random.Random) -> str:
    value = _filled(seen.schema or {}, "", seen, noticed, kind, luck)
    text = json.dumps(value, ensure_ascii=False)
    chance = luck.random()
    if chance < 0.03:
        return text[: len(text) // 2]
    return f"```json\n{text}\n```" if chance < 0.15 else text


_TEXT = re.compile(
    r"prompt|template|instruction|rewrit|revis|improved|new|candidate|text|content|value|replac"
)
_PROSE = re.compile(
    r"critique|reason|analys|explan|why|rational|diagnos|summary|thought|note|lesson|change|issue|problem|fix"
)


def _filled(
    schema: Mapping[str, Any],
    name: str,
    seen: Shown,
    noticed: Sequence[str],
    kind: str,
    luck: random.Random,
) -> Any:
    """A value that fits a schema, as far as one can tell from its names what is meant."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return luck.choice(list(schema["enum"]))
    for several in ("anyOf", "oneOf"):
        if schema.get(several):
            return _filled(schema[several][0], name, seen, noticed, kind, luck)
    types = schema.get("type", "object" if "properties" in schema else "string")
    match types[0] if isinstance(types, list) else types:
        case "object":
            properties = schema.get("properties") or {}
            keys = list(properties)
            if {"search", "replace"} <= set(keys):
                block = re.search(
                    r"(?s)SEARCH\n(.*?)\n?=======\n(.*?)\n?>>>>>>>",
                    _diff(seen.current, rewritten(seen.current, noticed, kind, luck), luck),
                )
                assert block is not None
                given = {"search": block[1], "replace": block[2]}
                return given | {
                    key: _filled(properties[key], key, seen, noticed, kind, luck)
                    for key in keys
                    if key not in given
                }
            return {k: _filled(properties[k], k, seen, noticed, kind, luck) for k in keys}
        case "array":
            items = schema.get("items") or {"type": "string"}
            if items.get("type") == "string" and not _TEXT.search(name.lower()):
                return [writing.statement(rule, luck, VAGUE) for rule in noticed]
            return [_filled(items, name, seen, noticed, kind, luck)]
        case "number":
            return round(luck.random(), 2)
        case "integer":
            return luck.randint(0, 10)
        case "boolean":
            return luck.random() < 0.7
        case "null":
            return None
    lower = name.lower()
    if _PROSE.search(lower) and not re.search(r"prompt|template", lower):
        return writing.critique(noticed, luck, VAGUE)
    if _TEXT.search(lower):
        return rewritten(seen.current, noticed, kind, luck)
    return writing.critique(noticed, luck, VAGUE)
