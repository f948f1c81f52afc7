"""An evaluator learned from preferences: people's choices between two texts, and corrections.

A linear model of text features is fitted to pairs, so that the chosen text gets the higher value
(Bradley and Terry 1952, as logistic regression on the difference of features). It is cheap, needs
no language model, and knows only what its features show: words, format and length, not truth. A
project may give it an embedding of texts in place of the words.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ratchet.observe.step_text import text_of
from ratchet.stats.agreement import IntervalEstimate, wilson
from ratchet.types import Feedback, InputError, content_hash
from ratchet.worker.evaluator import FunctionEvaluator, Judgement

HASHED_FEATURES = 1_024
"""Number of hashed features of words and pairs of words."""

SHAPE = ("length", "lines", "bullets", "digits", "questions", "capitals", "overlap", "empty")
"""Features of a text's shape; `overlap` is the share of its words that are also in the input."""

FOLDS = 5
MIN_PAIRS = 50
"""Minimum number of pairs to trust the model, whatever its accuracy."""

RIDGE = 1.0
"""Strength of the penalty on squared weights, relative to a pair's evidence."""

Embed: TypeAlias = Callable[[list[str]], Iterable[Iterable[float]]]
"""Maps texts to vectors of one length, a vector for each text."""

_WORD = re.compile(r"\w+")


class Pair(msgspec.Struct, frozen=True):
    """Two texts for one input, of which a person chose one."""

    input: str
    chosen: str
    rejected: str


class PreferenceModel(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted model, as stored in its file."""

    weights: dict[int, float]
    """Weight of each feature, by number."""
    offset: float
    """Value at which the score is 0.5: the median of the fitted texts."""
    pairs: int
    accuracy: IntervalEstimate | None
    """Share of held-out pairs that it orders correctly; ties count half."""
    embedded: int = 0
    """Length of the vectors of the embedding that it was fitted with; 0 for none."""
    longer: float
    """Share of pairs in which the longer text was chosen, the accuracy of length alone."""

    @property
    def doubt(self) -> str:
        """Why it cannot be trusted, in one sentence; empty if it can."""
        if self.pairs < MIN_PAIRS:
            return (
                f"{self.pairs} pairs are too few to trust; it needs {MIN_PAIRS - self.pairs} more."
            )
        if self.accuracy is None or self.accuracy.low <= 0.5:
            return "On held-out pairs it is not better than chance."
        if self.accuracy.value <= max(self.longer, 1.0 - self.longer):
            return "On held-out pairs it is not better than choosing by length."
        return ""

    def value(self, input: str, text: str, embed: Embed | None = None) -> float:
        """A text's score in (0, 1): the probability that it is preferred to a median text.

        Args:
            input: The task's input.
            text: The text.
            embed: The embedding that it was fitted with.

        Raises:
            InputError: It was fitted with another embedding, or this one's result is malformed.
        """
        (text_features,) = features([(input, text)], embed)
        if self.embedded != (text_features.embedded or 0):
            raise InputError(
                f"The model was fitted with {_length(self.embedded)}, but now there is "
                f"{_length(text_features.embedded)}.",
                hint="Fit it again: ratchet align NAME.",
            )
        total = sum(self.weights.get(k, 0.0) * v for k, v in text_features.values.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total - self.offset))))


def pairs_of(feedback: Iterable[Feedback], outputs: Mapping[str, tuple[Any, Any]]) -> list[Pair]:
    """Pairs from preferences and corrections.

    Args:
        feedback: The feedback; other kinds are ignored.
        outputs: Input and output of the rollouts and traces that it is about, by id.
    """
    pairs: dict[str, Pair] = {}
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
            pairs.setdefault(content_hash([pair.input, pair.chosen, pair.rejected]), pair)
    return list(pairs.values())


def fit(pairs: Sequence[Pair], embed: Embed | None = None) -> PreferenceModel:
    """Fit a model, and measure it on held-out pairs by cross-validation.

    Pairs with equal inputs are in the same fold.

    Args:
        pairs: The pairs.
        embed: Embedding to use in place of hashed words; the features of shape stay.

    Raises:
        InputError: There are no pairs, or the embedding's result is malformed.
    """
    if not pairs:
        raise InputError(
            "There are no preferences or corrections to learn from.",
            hint="Add corrections: ratchet feedback ID --correction TEXT.",
        )
    import numpy as np

    texts = [(pair.input, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
    samples = features(texts, embed)
    rows = np.zeros((len(pairs), len(SHAPE) + (samples[0].embedded or HASHED_FEATURES)))
    for number, sample in enumerate(samples):
        for key, value in sample.values.items():
            rows[number // 2, key] += -value if number % 2 else value
    folds = np.array([zlib.crc32((p.input or p.chosen).encode()) % FOLDS for p in pairs])
    hits: list[float] = []
    for fold in range(FOLDS):
        train, test = rows[folds != fold], rows[folds == fold]
        if len(train) and len(test):
            margins = test @ _weights(train)
            hits += [0.5 if abs(m) < 1e-9 else float(m > 0) for m in margins.tolist()]
    weights = _weights(rows)
    nonzero = {k: round(float(w), 6) for k, w in enumerate(weights) if abs(w) > 1e-5}
    model = PreferenceModel(
        weights=nonzero,
        offset=0.0,
        pairs=len(pairs),
        accuracy=(
            IntervalEstimate(sum(hits) / len(hits), *wilson(sum(hits), len(hits)), len(hits))
            if hits
            else None
        ),
        embedded=samples[0].embedded,
        longer=sum(_longer(pair) for pair in pairs) / len(pairs),
    )
    values = sorted(
        sum(nonzero.get(k, 0.0) * v for k, v in sample.values.items()) for sample in samples
    )
    middle = (values[len(values) // 2] + values[(len(values) - 1) // 2]) / 2.0
    return msgspec.structs.replace(model, offset=middle)


class Features(msgspec.Struct, frozen=True):
    """The features of a text."""

    values: dict[int, float]
    """By number, with features of shape last, and without zeros."""
    embedded: int = 0
    """Number of features from an embedding; 0 for hashed words."""


def features(texts: Sequence[tuple[str, str]], embed: Embed | None = None) -> list[Features]:
    """The features of texts.

    Args:
        texts: Each with the input that it answers.
        embed: Embedding to use in place of hashed words.

    Raises:
        InputError: The embedding's result is malformed.
    """
    if embed is None:
        return [
            Features({**_words(text), **_shape(input, text, HASHED_FEATURES)})
            for input, text in texts
        ]
    vectors = _embedded([text for _, text in texts], embed)
    return [
        Features(
            {
                **{number: value for number, value in enumerate(vector) if value},
                **_shape(input, text, len(vector)),
            },
            len(vector),
        )
        for (input, text), vector in zip(texts, vectors, strict=True)
    ]


def _words(text: str) -> dict[int, float]:
    """Hashed words and pairs of words."""
    words = _WORD.findall(text.casefold())
    hashed: dict[int, float] = {}
    grams = {*words, *(f"{a} {b}" for a, b in pairwise(words))}
    scale = 1.0 / math.sqrt(len(grams)) if grams else 0.0
    for gram in grams:
        key = zlib.crc32(gram.encode("utf-8", "replace")) % HASHED_FEATURES
        hashed[key] = hashed.get(key, 0.0) + scale
    return hashed


def _shape(input: str, text: str, first: int) -> dict[int, float]:
    """Features of a text's shape, numbered from `first` on."""
    words = _WORD.findall(text.casefold())
    input_words = set(_WORD.findall(input.casefold()))
    letters = max(1, sum(c.isalpha() for c in text))
    shape = (
        math.log1p(len(text)) / 5.0,
        math.log1p(text.count("\n")) / 2.0,
        math.log1p(len(re.findall(r"^\s*[-*\d]+[.)]?\s", text, re.MULTILINE))) / 2.0,
        math.log1p(sum(c.isdigit() for c in text)) / 3.0,
        math.log1p(text.count("?")),
        sum(c.isupper() for c in text) / letters,
        sum(word in input_words for word in words) / max(1, len(words)),
        float(not text.strip()),
    )
    return {number: value for number, value in enumerate(shape, first) if value}


def _embedded(texts: list[str], embed: Embed) -> list[list[float]]:
    """The texts' vectors, each scaled to length 1."""
    try:
        vectors = [[float(value) for value in vector] for vector in embed(texts)]
    except (TypeError, ValueError) as error:
        raise InputError(f"The embedding did not return lists of numbers: {error}.") from None
    if len(vectors) != len(texts):
        raise InputError(
            f"The embedding returned {len(vectors)} vectors for {len(texts)} texts.",
            hint="It must take a list of texts and return a vector for each.",
        )
    if len({len(vector) for vector in vectors}) > 1 or not vectors[0]:
        raise InputError("The embedding's vectors are empty, or differ in length.")
    lengths = [math.sqrt(math.fsum(value * value for value in vector)) for vector in vectors]
    if not all(map(math.isfinite, lengths)):
        raise InputError("The embedding returned a number that is not finite.")
    return [
        [value / (length or 1.0) for value in vector]
        for vector, length in zip(vectors, lengths, strict=True)
    ]


def _length(embedded: int) -> str:
    return f"an embedding of {embedded} numbers" if embedded else "no embedding"


def preference(*, file: str, embed: str = "", folder: str = ".") -> FunctionEvaluator:
    """A score learned from preferences and corrections by `ratchet align`.

    Args:
        file: The model's file, written by `ratchet align`.
        embed: MODULE:FUNCTION that maps a list of texts to a vector for each.
        folder: Folder that the file is relative to.

    Raises:
        InputError: The file exists and is not a model.
        ConfigError: The function cannot be imported.
    """
    from ratchet.worker.own_evaluator import import_function

    function = import_function(embed, "embedding") if embed else None
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
            f"{path} is not a model of preferences: {error}.",
            hint="Create it again: ratchet align NAME.",
        ) from None
    return PreferenceEvaluator(path, model, function, embed)


class PreferenceEvaluator(FunctionEvaluator):
    """An evaluator that uses a model of preferences.

    Args:
        path: The model's file.
        model: The model; None before it is trained.
        embed: The embedding that it is fitted with; None for hashed words.
        embedding_name: Name of the embedding, for the evaluator's version.
    """

    is_judge = True
    """An experiment may be decided by its scores only with people's labels."""

    def __init__(
        self,
        path: Path,
        model: PreferenceModel | None,
        embed: Embed | None = None,
        embedding_name: str = "",
    ) -> None:
        self.path = path
        self.embed = embed
        self.model = model

        def judge(input: Any, output: Any) -> Judgement:
            if model is None:
                raise InputError(f"{path.name} does not exist yet; create it with ratchet align.")
            return Judgement(model.value(text_of(input), text_of(output), embed), model.doubt)

        options = {
            "model": None if model is None else msgspec.to_builtins(model),
            "embed": embedding_name,
        }
        super().__init__(judge, name="preference", options=options, trusted=embed is None)


def _weights(rows: Any) -> Any:
    """Weights of the least penalised logistic loss, by gradient descent with Nesterov momentum."""
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
