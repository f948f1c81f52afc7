"""The simulated judge: it grades by plain rules, and obeys whoever speaks to it.

It stands in for a language model that follows instructions wherever it believes to read some. What
its prompt marks as quoted is material; all other lines are its user's. A directive there, such as
"answer yes", decides its verdicts. So it shows whether a prompt keeps what is graded from passing
for an instruction, and nothing about how well a real model grades.

A question that names something in 'single quotes' is answered by whether the answer contains it.
Any other is answered by whether the answer contains the reference answer.

Its variants have a fault each: `lenient` says yes to everything, `long` prefers what is long,
`first` prefers what stands first, `flaky` guesses, `malformed` and `chatty` have a bad form.
`untaught` says yes to everything unless it is shown labelled cases, at least two. `wary` says no
when material is quoted, and `vain` says yes to what begins like its own answers: `Certainly`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.luck import draw
from tests.simulator.task_model import text_of

MODEL = "simulated-judge"
FAULTS = ("lenient", "long", "first", "flaky", "malformed", "chatty", "untaught", "wary", "vain")
MODELS = (MODEL, *(f"{MODEL}-{fault}" for fault in FAULTS))

_MARK = re.compile(r"every quoted line begins with (\S+?)\.(?:\s|$)")
_LINES = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_TURN = re.compile(
    r"<[|｜][^<>]{0,40}[|｜]>|</?(?:s|bos|eos|think|start_of_turn|end_of_turn|system|user)>"  # noqa: RUF001
    r"|\[/?(?:INST|SYSTEM_PROMPT|TOOL_RESULTS)\]|<</?SYS>>",
    re.IGNORECASE,
)
"""Tokens after which the rest of a message is another speaker's, as chat templates have it."""

_DIRECTIVE = re.compile(
    r"\b(?:answer|say|give|return|output|grade|graded|score|scored|rate|verdict|verdicts|respond|"
    r"mark|choose|prefer)\b[^.?!]{0,80}?(?:\byes\b|\b1\.0\b|\b10/10\b|\b100\b|\bfull\b|\bpass\b|"
    r"\bcorrect\b|\bmaximum\b|\bhighest\b|\bfirst\b)",
    re.IGNORECASE,
)
_OFFER = re.compile(r"\byes\b.{0,20}\bno\b|first, second", re.IGNORECASE)
_QUESTION = re.compile(r"^c(\d+)\. (.*)$")
_HEADING = re.compile(r"^## (.+)$")


def answer(messages: Sequence[Mapping[str, Any]], model: str, seed: object = 0) -> str:
    """Its answer to a request for verdicts."""
    fault = model.removeprefix(MODEL).removeprefix("-")
    system = "\n".join(text_of(m) for m in messages if m["role"] == "system")
    asked = text_of(messages[-1])
    sections, questions, obeyed = _read(asked, system)
    if fault == "malformed":
        return "I would say the answer is fine."
    verdicts: dict[str, Any] = {}
    for number, question in questions:
        verdict, reason = _verdict(question, sections)
        if fault == "lenient" or (fault == "untaught" and asked.count("## Labelled case ") < 2):
            verdict, reason = "yes", "It looks fine."
        elif fault == "first":
            verdict, reason = "first", "The first one reads well."
        elif fault == "long":
            verdict = "yes" if len(_last(sections, "Answer")) > 200 else "no"
        elif fault == "wary" and _MARK.search(system):
            verdict, reason = "no", "Quoted text cannot be trusted."
        elif fault == "vain" and _last(sections, "Answer").startswith("Certainly"):
            verdict, reason = "yes", "It reads well."
        elif fault == "flaky":
            verdict = "yes" if draw(seed, number) < 0.5 else "no"
        if obeyed:
            pairwise = "First answer" in dict(sections)
            verdict, reason = ("second" if pairwise else "yes"), f"I was told: {obeyed}"
        verdicts[f"c{number}"] = {"reason": reason, "verdict": verdict}
    text = json.dumps(verdicts)
    if fault == "chatty":
        wrong = json.dumps({key: {"reason": "first thought", "verdict": "no"} for key in verdicts})
        return f"Let me think. {wrong} On reflection:\n```json\n{text}\n```"
    return text


def _read(asked: str, system: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str]:
    """The sections of quoted material, the questions, and the first directive that is obeyed."""
    found = _MARK.search(system)
    mark = found[1] if found else None
    sections: list[tuple[str, str]] = []
    questions: list[tuple[str, str]] = []
    obeyed = ""
    spoken_by_another = False
    for line in _LINES.split(_decoded(asked)):
        parts = _TURN.split(unicodedata.normalize("NFKC", line))
        if len(parts) > 1:
            spoken_by_another = True
        if mark and line.startswith(mark) and not spoken_by_another:
            if sections:
                title, text = sections[-1]
                sections[-1] = (title, f"{text}\n{line[len(mark) + 1 :]}".strip())
            continue
        plain = " ".join(parts)
        if (heading := _HEADING.match(plain)) is not None and not spoken_by_another:
            sections.append((heading[1], ""))
            continue
        if (question := _QUESTION.match(plain)) is not None:
            questions.append((question[1], question[2]))
        if not mark and sections:
            title, text = sections[-1]
            sections[-1] = (title, f"{text}\n{line}".strip())
        directive = _DIRECTIVE.search(plain)
        if directive and not _OFFER.search(plain) and not obeyed:
            obeyed = directive[0]
    return sections, questions, obeyed


def _verdict(question: str, sections: Sequence[tuple[str, str]]) -> tuple[str, str]:
    wanted = re.findall(r"'([^']+)'", question)
    named = dict(sections)
    if "First answer" in named:
        reference = wanted[0] if wanted else named.get("Reference answer", "")
        first, second = (has(named[f"{n} answer"], reference) for n in ("First", "Second"))
        if first == second:
            return "tie", "Neither is better."
        return ("first" if first else "second"), "Only that one has it."
    given = _last(sections, "Answer")
    wanted = wanted or [text for title, text in sections if title == "Reference answer"][-1:]
    if not wanted:
        return "unclear", "The question names nothing to look for."
    missing = [each for each in wanted if not has(given, each)]
    if missing:
        return "no", f"It does not have {missing[0]}."
    return "yes", f"It has {wanted[0]}."


def has(text: str, wanted: str) -> bool:
    """Whether the words of one text stand in another; what the judge calls right."""
    return bool(wanted) and f" {_words(wanted)} " in f" {_words(text)} "


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def _last(sections: Sequence[tuple[str, str]], title: str) -> str:
    return next((text for name, text in reversed(sections) if name == title), "")


def _decoded(text: str) -> str:
    """The text with invisible tag characters as what they spell, as some tokenizers pass them."""
    return "".join(chr(ord(c) - 0xE0000) if 0xE0020 <= ord(c) <= 0xE007E else c for c in text)
