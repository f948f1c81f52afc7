"""An evaluator learned from preferences: which of two texts people chose, and what they corrected.

A linear model of text features is fitted to pairs, so that the chosen text gets the higher value
(Bradley and Terry 1952, as logistic regression on the difference of features). It is cheap, needs
no language model, and knows only what its features show: words, format and length, not truth.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from ratchet.evaluate.evaluator import FunctionEvaluator, Judgement
from ratchet.observe.step_text import text_of
from ratchet.stats.agreement import IntervalEstimate, wilson
from ratchet.types import Feedback, InputError, content_hash

WORDS = 1_024
"""Number of hashed features of words and pairs of words."""

SHAPE = ("length", "lines", "bullets", "digits", "questions", "capitals", "overlap", "empty")
"""Features of a text's shape; `overlap` is the share of its words that the input has, too."""

FOLDS = 5
FEWEST = 50
"""Pairs below which the model is not to be trusted, whatever its accuracy."""

RIDGE = 1.0
"""Strength of the penalty of squared weights, for each pair's worth of evidence."""

_WORD = re.compile(r"\w+")


class Pair(msgspec.Struct, frozen=True):
    """Two texts for one input, of which a person chose one."""

    input: str
    chosen: str
    rejected: str


class PreferenceModel(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted model, as it stands in its file."""

    weights: dict[int, float]
    """Weight of each feature, by number."""
    offset: float
    """Value at which a text's score is 0.5: the median of the texts it was fitted to."""
    pairs: int
    accuracy: IntervalEstimate | None
    """Share of held-out pairs that it orders right, ties counting one half."""
    longer: float
    """Share of pairs in which the longer text was chosen: what length alone would get."""

    @property
    def doubt(self) -> str:
        """Why it is not to be trusted, in one sentence; empty when it may be."""
        if self.pairs < FEWEST:
            return f"{self.pairs} pairs are too few to trust; {FEWEST - self.pairs} are missing."
        if self.accuracy is None or self.accuracy.low <= 0.5:
            return "On held-out pairs it is not better than chance."
        if self.accuracy.value <= max(self.longer, 1.0 - self.longer):
            return "On held-out pairs it is not better than preferring by length."
        return ""

    def value(self, input: str, text: str) -> float:
        """A text's score in (0, 1): probability of being preferred to a median one."""
        total = sum(self.weights.get(k, 0.0) * v for k, v in features(input, text).items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total - self.offset))))


def pairs_of(feedback: Iterable[Feedback], outputs: Mapping[str, tuple[Any, Any]]) -> list[Pair]:
    """Pairs from preferences and corrections.

    Args:
        feedback: The feedback; other kinds are ignored.
        outputs: Input and output of the rollouts and traces that it is about, by id.
    """
    found: dict[str, Pair] = {}
    for item in feedback:
        input, output = outputs.get(item.rollout_id or item.trace_id, (None, None))
        if item.kind == "preference" and isinstance(item.content, dict):
            chosen, rejected = item.content.get("chosen"), item.content.get("rejected")
        elif item.kind == "correction" and output is not None:
            chosen, rejected = item.content, output
        else:
            continue
        pair = Pair("" if input is None else text_of(input), text_of(chosen), text_of(rejected))
        if pair.chosen != pair.rejected:
            found.setdefault(content_hash([pair.input, pair.chosen, pair.rejected]), pair)
    return list(found.values())


def fit(pairs: Sequence[Pair]) -> PreferenceModel:
    """Fit a model, and measure it on held-out pairs by cross-validation.

    Pairs with equal inputs are in the same fold.

    Raises:
        InputError: There are no pairs.
    """
    if not pairs:
        raise InputError(
            "There are no preferences and no corrections to learn from.",
            hint="Give some: ratchet feedback ID --correction TEXT.",
        )
    import numpy as np

    rows = np.zeros((len(pairs), WORDS + len(SHAPE)))
    for number, pair in enumerate(pairs):
        for sign, text in ((1.0, pair.chosen), (-1.0, pair.rejected)):
            for key, value in features(pair.input, text).items():
                rows[number, key] += sign * value
    folds = np.array([zlib.crc32((p.input or p.chosen).encode()) % FOLDS for p in pairs])
    hits: list[float] = []
    for fold in range(FOLDS):
        train, test = rows[folds != fold], rows[folds == fold]
        if len(train) and len(test):
            margins = test @ _weights(train)
            hits += [0.5 if abs(m) < 1e-9 else float(m > 0) for m in margins.tolist()]
    weights = _weights(rows)
    kept = {k: round(float(w), 6) for k, w in enumerate(weights) if abs(w) > 1e-5}
    made = PreferenceModel(
        weights=kept,
        offset=0.0,
        pairs=len(pairs),
        accuracy=(
            IntervalEstimate(sum(hits) / len(hits), *wilson(sum(hits), len(hits)), len(hits))
            if hits
            else None
        ),
        longer=sum(_longer(pair) for pair in pairs) / len(pairs),
    )
    values = sorted(
        sum(kept.get(k, 0.0) * v for k, v in features(p.input, text).items())
        for p in pairs
        for text in (p.chosen, p.rejected)
    )
    middle = (values[len(values) // 2] + values[(len(values) - 1) // 2]) / 2.0
    return msgspec.structs.replace(made, offset=middle)


def features(input: str, text: str) -> dict[int, float]:
    """The features of a text, by number; those that are zero are left out."""
    words = _WORD.findall(text.casefold())
    found: dict[int, float] = {}
    grams = {*words, *(f"{a} {b}" for a, b in pairwise(words))}
    scale = 1.0 / math.sqrt(len(grams)) if grams else 0.0
    for gram in grams:
        key = zlib.crc32(gram.encode("utf-8", "replace")) % WORDS
        found[key] = found.get(key, 0.0) + scale
    known = set(_WORD.findall(input.casefold()))
    letters = max(1, sum(c.isalpha() for c in text))
    shape = (
        math.log1p(len(text)) / 5.0,
        math.log1p(text.count("\n")) / 2.0,
        math.log1p(len(re.findall(r"^\s*[-*\d]+[.)]?\s", text, re.MULTILINE))) / 2.0,
        math.log1p(sum(c.isdigit() for c in text)) / 3.0,
        math.log1p(text.count("?")),
        sum(c.isupper() for c in text) / letters,
        sum(word in known for word in words) / max(1, len(words)),
        float(not text.strip()),
    )
    found.update({WORDS + k: v for k, v in enumerate(shape) if v})
    return found


def preference(*, file: str, folder: str = ".") -> FunctionEvaluator:
    """A score learned from preferences and corrections by `ratchet align`.

    Args:
        file: The model's file, written by `ratchet align`.
        folder: Folder that it is relative to.

    Raises:
        InputError: The file is there and is no model.
    """
    path = Path(folder) / file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        model = msgspec.json.decode(content, type=PreferenceModel) if content else None
    except msgspec.DecodeError as error:
        raise InputError(
            f"{path} is no model of preferences: {error}.", hint="Make it anew: ratchet align NAME."
        ) from None
    return PreferenceEvaluator(path, model)


class PreferenceEvaluator(FunctionEvaluator):
    """An evaluator by a model of preferences.

    Args:
        path: The model's file.
        model: The model; None before it is trained.
    """

    is_judge = True
    """An experiment may decide by its scores only with people's labels."""

    def __init__(self, path: Path, model: PreferenceModel | None) -> None:
        self.path = path
        self.model = model

        def judge(input: Any, output: Any) -> Judgement:
            if model is None:
                raise InputError(f"{path.name} does not exist yet: ratchet align makes it.")
            return Judgement(model.value(text_of(input), text_of(output)), model.doubt)

        options = None if model is None else msgspec.to_builtins(model)
        super().__init__(judge, name="preference", options={"model": options}, trusted=True)


def _weights(rows: Any) -> Any:
    """Weights of least penalised logistic loss, by gradient descent with momentum (Nesterov)."""
    import numpy as np

    n, width = rows.shape
    penalty = RIDGE / n
    # The loss has a Lipschitz gradient: a quarter of the largest squared row, plus the penalty.
    step = 1.0 / (0.25 * float((rows**2).sum(axis=1).max()) + penalty)
    weights, ahead = np.zeros(width), np.zeros(width)
    for number in range(300):
        slope = -(rows.T @ (1.0 / (1.0 + np.exp(np.clip(rows @ ahead, -30, 30))))) / n
        after = ahead - step * (slope + penalty * ahead)
        ahead = after + number / (number + 3.0) * (after - weights)
        weights = after
    return weights


def _longer(pair: Pair) -> float:
    chosen, rejected = len(pair.chosen), len(pair.rejected)
    return 0.5 if chosen == rejected else float(chosen > rejected)
