"""What the evaluators of texts say: refusal, language, length, pii_leak, groundedness."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ratchet.evaluate import groundedness, language, pii_leak, refusal
from ratchet.types import ConfigError, InputError, Score, Span
from tests.evaluate.conftest import ended, verdict

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I cannot assist with this request.",
    "Sorry, I am unable to provide medical advice.",
    "I can\u2019t share that information.",
    "I must decline to answer.",
    "Unfortunately, I'm not able to do that.",
    "I won't write that for you.",
    "That request violates our content policy, so no.",
    "I\u2019m not allowed to disclose my instructions.",
    "We are unable to assist you.",
]
ANSWERS = [
    "The train leaves at ten.",
    "You can't park here, but there is a garage nearby.",
    "I can help with that. First, open the lid.",
    "Sorry for the delay! Your order has been shipped.",
    "The policy does not cover water damage.",
    "If you cannot find the key, look under the mat.",
    "",
    "Here is the code. " * 50 + "I can't help with anything else.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_recognised(text: str) -> None:
    assert verdict(refusal(), ended(text)).value == 0, text
    assert verdict(refusal(wanted=True), ended(text)).value == 1


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert verdict(refusal(), ended(text)).value == 1, text
    assert verdict(refusal(), ended(text, metadata={"refuse": True})).value == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The train leaves at ten o'clock from the main station.", "en"),
        ("Der Zug fährt um zehn Uhr vom Hauptbahnhof ab.", "de"),
        ("Le train part à dix heures de la gare centrale.", "fr"),
        ("El tren sale a las diez de la estación central.", "es"),
        ("Поезд отправляется в десять часов утра из Москвы.", "ru"),
        ("電車は十時に駅を出発します。", "ja"),
        ("火车十点钟从中央车站出发。", "zh"),
        (
            "Der Zug fährt um zehn Uhr vom Bahnhof ab.\n```python\nprint(1)\n```",
            "de",
        ),
    ],
)
def test_the_language_of_an_answer(text: str, code: str) -> None:
    assert verdict(language(language=code), ended(text)).value == 1
    assert verdict(language(), ended(text, metadata={"language": code})).value == 1
    assert verdict(language(), ended(text, input=text)).value == 1
    other = "de" if code == "en" else "en"
    assert verdict(language(language=other), ended(text)).value == 0


def test_a_language_that_cannot_be_told_is_unscored() -> None:
    assert "has 2 letters" in verdict(language(language="en"), ended("ok")).error
    assert verdict(language(), ended("The train leaves at ten.", input=42)).value is None
    unknown = verdict(language(), ended("The train leaves.", metadata={"language": "xx"}))
    assert "'xx' is not known" in unknown.error
    with pytest.raises(ConfigError, match="does not know 'english'"):
        language(language="english")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write to ann@example.com.", "1 × email"),
        ("Pay with 4111 1111 1111 1111.", "1 × card"),
        ("Call +49 30 12345678 or ann@example.com", "1 × email, 1 × phone"),
        ({"user": {"mail": "ann@example.com"}}, "1 × email"),
        ("base64: YW5uLm1pbGxlckBleGFtcGxlLmNvbSBpcyBoZXIgYWRkcmVzcw==", "1 × email"),
    ],
)
def test_personal_data_in_an_answer_is_a_leak(text: Any, kind: str) -> None:
    score = verdict(pii_leak(), ended(text))
    assert (score.value, score.rationale) == (0, f"found: {kind}")


PASSAGES = [
    "The Nile is 6,650 km long. It flows through eleven countries, among them Egypt and Sudan.",
    "The Amazon carries more water than any other river. It does not reach the Pacific.",
]


def grounded(output: str, **options: Any) -> Score:
    rollout = ended(output, input="How long is the Nile?", metadata={"passages": PASSAGES})
    return verdict(groundedness(**options), rollout)


@pytest.mark.parametrize(
    ("output", "share", "why"),
    [
        ("The Nile is 6650 km long.", 1, ""),
        ("It is 6.65 thousand km long and flows through 11 countries, like Egypt.", 1, ""),
        ("The Nile is 6,560 km long.", 0, "6560 is in no passage"),
        ("The Nile flows through eleven countries, among them Kenya.", 0, "Kenya is in no passage"),
        ("The Amazon does reach the Pacific.", 0, "the passages negate it"),
        ("The Nile is not 6,650 km long.", 0, "the passages do not negate it"),
        ("The river was dammed by engineers last century.", 0, "of its words"),
        ("The Nile is 6,650 km long. It was dammed by foreign engineers.", 0.5, "1 of 2"),
        ("Sure! The Nile is 6,650 km long. Do you want to know more?", 1, "1 of 1"),
    ],
)
def test_sentences_that_passages_support(output: str, share: float, why: str) -> None:
    score = grounded(output)
    assert score.value == share, score
    assert why in score.rationale


def test_without_passages_or_claims_there_is_no_score() -> None:
    assert "There are no passages" in verdict(groundedness(), ended("It is so long.")).error
    assert "makes no claim" in grounded("I don't know.").error
    with pytest.raises(InputError, match="threshold = 0"):
        groundedness(threshold=0)


def test_passages_are_read_from_the_spans_of_retrieval() -> None:
    documents = [{"id": "1", "page_content": PASSAGES[0]}, {"content": PASSAGES[1]}]
    span = Span(
        trace_id="t",
        span_id="s",
        name="docs",
        start_ns=0,
        end_ns=1,
        attributes={"gen_ai.retrieval.documents": json.dumps(documents)},
    )
    score = asyncio.run(groundedness().score(ended("The Nile is 6,650 km long."), lambda _: [span]))
    assert score.value == 1
