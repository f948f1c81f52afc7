"""Evaluator of the language that the output is written in."""

from __future__ import annotations

import functools
import re
from typing import Any

from ratchet.llm.answer_text import answer_text, without_code
from ratchet.types import ConfigError, InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, Unscored

MIN_LETTERS = 20
"""Minimum number of letters to detect a language."""

MIN_PROBABILITY = 0.6
"""Minimum probability; below it the language counts as unknown."""

_MOST = 5_000
_ADDRESS = re.compile(r"https?://\S+|(?<!\S)[^\s@]{1,100}@\S+")


def language(*, language: str | None = None) -> FunctionEvaluator:
    """1 if the output is in a language, ignoring code blocks, addresses and URLs.

    The model is that of py3langid: naive Bayes over n-grams of bytes.

    Args:
        language: The language's code of two letters; by default that of the task's metadata
            `language`, or else the input's language.

    Raises:
        ConfigError: py3langid is not installed, or does not know the language.
    """
    languages = _identifier().labels
    if language is not None and language not in languages:
        raise ConfigError(
            f"The evaluator 'language' does not know {language!r}.",
            hint=f"It knows {', '.join(sorted(languages))}.",
        )

    def judge(output: Any, input: Any, metadata: dict[str, Any]) -> Judgement:
        wanted = language or metadata.get("language")
        if wanted is None:
            wanted, _ = _told(input, "input")
        elif wanted not in languages:
            raise InputError(f"The task's language {wanted!r} is not known.")
        detected, probability = _told(output, "output")
        note = f"{detected} with probability {probability:.2f}, expected {wanted}"
        if detected != wanted and probability < MIN_PROBABILITY:
            raise Unscored(f"The output's language is uncertain: {note}.")
        return Judgement(float(detected == wanted), note)

    return FunctionEvaluator(judge, name="language", options={"language": language})


def _told(value: Any, name: str) -> tuple[str, float]:
    """The language of a value, and its probability."""
    text = _ADDRESS.sub(" ", without_code(answer_text(value)[:_MOST]))
    letters = sum(map(str.isalpha, text))
    # A letter of Chinese or Japanese says as much as several of an alphabet.
    if letters < MIN_LETTERS and not any("\u3040" <= mark <= "\ud7a3" for mark in text):
        raise Unscored(f"The {name} has {letters} letters; detecting its language needs 20.")
    language, probability = _identifier().classify(text.encode("utf-8", "ignore").decode())
    return str(language), float(probability)


@functools.cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise ConfigError(
            "The evaluator 'language' needs the package py3langid.",
            hint="Install it: pip install 'agent-ratchet[language]'",
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
