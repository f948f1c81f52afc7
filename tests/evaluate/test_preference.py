"""Preferences: a model that is learned from pairs, and says when it is not to be trusted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.preference import (
    Pair,
    PreferenceEvaluator,
    PreferenceModel,
    fit,
    pairs_of,
)
from ratchet.types import ConfigError, Feedback, InputError
from tests.evaluate.conftest import ended, verdict

ROOMS = ("Elm", "Oak", "Ash", "Fir", "Yew")


def polite(rng: random.Random, n: int, noise: float = 0.0) -> list[Pair]:
    """Pairs in which people choose the polite text, be it longer or shorter."""
    pairs = []
    for number in range(n):
        room, floor = rng.choice(ROOMS), rng.randrange(9)
        kind = f"Gladly: {room} is free, on floor {floor}."
        rude = f"Look it up, {room} is on floor {floor}."
        if number % 2:
            rude += " Or somewhere near that floor."
        if rng.random() < noise:
            kind, rude = rude, kind
        pairs.append(Pair(f"Which room? {number}", kind, rude))
    return pairs


def test_a_clear_preference_is_learned_and_trusted() -> None:
    model = fit(polite(random.Random(1), 80))
    assert model.accuracy is not None
    assert model.accuracy.n == 80
    assert model.accuracy.low > 0.9
    assert 0.3 < model.longer < 0.7
    assert model.doubt == ""
    liked = model.value("Which room?", "Gladly: Elm is free.")
    assert liked > 0.6 > 0.5 > model.value("Which room?", "Look it up.")


def test_noise_is_not_trusted() -> None:
    model = fit(polite(random.Random(2), 80, noise=0.5))
    assert model.accuracy is not None
    assert model.accuracy.low <= 0.5 <= model.accuracy.high
    assert model.doubt == "On held-out pairs it is not better than chance."


def test_few_pairs_are_too_few_to_trust_however_clear_they_are() -> None:
    model = fit(polite(random.Random(3), 12))
    assert model.doubt == "12 pairs are too few to trust; it needs 38 more."
    with pytest.raises(InputError, match="no preferences or corrections"):
        fit([])


def test_pairs_come_from_preferences_and_corrections_once_each() -> None:
    def item(id: str, **fields: object) -> Feedback:
        return Feedback(id=id, **fields)  # type: ignore[arg-type]

    chosen = {"chosen": "Elm", "rejected": "Oak"}
    found = pairs_of(
        [
            item("1", kind="preference", rollout_id="r", content=chosen),
            item("2", kind="preference", rollout_id="r", content=chosen),
            item("3", kind="correction", rollout_id="r", content={"room": "Elm"}),
            item("4", kind="correction", trace_id="unknown", content="Elm"),
            item("5", kind="correction", rollout_id="r", content="Ash"),
            item("6", kind="thumbs", rollout_id="r", value=1.0),
        ],
        {"r": ({"q": 1}, "Ash")},
    )
    assert found == [Pair('{"q":1}', "Elm", "Oak"), Pair('{"q":1}', '{"room":"Elm"}', "Ash")]


def test_the_evaluator_reads_its_model_and_says_its_doubt(tmp_path: Path) -> None:
    options = {"file": "polite.json", "folder": str(tmp_path)}
    untrained = make_evaluator("preference", options)
    assert "polite.json does not exist yet" in verdict(untrained, ended("Elm")).error
    model = fit(polite(random.Random(3), 12))
    (tmp_path / "polite.json").write_bytes(msgspec.json.encode(model))
    trained = make_evaluator("preference", options)
    found = verdict(trained, ended("Gladly: Elm is free, on floor 2."))
    assert found.value is not None
    assert found.value > 0.5
    assert "too few to trust" in found.rationale
    assert trained.version != untrained.version
    assert msgspec.json.decode(msgspec.json.encode(model), type=PreferenceModel) == model
    (tmp_path / "polite.json").write_text("[1]")
    with pytest.raises(ConfigError, match="is not a model of preferences"):
        make_evaluator("preference", options)


GOOD = frozenset(["gladly", "sure", "happily", "course"])


def meaning(texts: list[str]) -> list[list[float]]:
    """An embedding that knows words which the pairs do not have in common."""
    words = [set(text.casefold().replace(":", " ").replace(",", " ").split()) for text in texts]
    return [[float(bool(each & GOOD)), 0.25, float(len(each))] for each in words]


def varied(rng: random.Random, n: int) -> list[Pair]:
    """Pairs whose polite words differ from one input to the next."""
    pairs = []
    for number in range(n):
        polite_word = sorted(GOOD)[number % len(GOOD)]
        rest = " ".join(f"w{rng.randrange(10_000)}" for _ in range(6))
        chosen, rejected = f"{polite_word} {rest}", f"{polite_word[::-1]} {rest}"
        pairs.append(Pair(f"q{number % len(GOOD)}", chosen, rejected))
    return pairs


def test_an_embedding_generalises_to_words_that_no_training_pair_has() -> None:
    pairs = varied(random.Random(5), 80)
    words, embedded = fit(pairs), fit(pairs, meaning)
    assert words.accuracy is not None
    assert embedded.accuracy is not None
    assert embedded.accuracy.value == 1.0
    assert words.accuracy.value < 0.9
    assert (words.embedded, embedded.embedded) == (0, 3)
    liked = embedded.value("q", "of course w1 w2", meaning)
    assert liked > embedded.value("q", "no w9 w1 w2", meaning)


def test_the_evaluator_embeds_by_a_function_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vectors_of_mine.py").write_text(
        "def embed(texts):\n    return [[float('gladly' in t.casefold()), 1.0] for t in texts]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"file": "m.json", "folder": str(tmp_path), "embed": "vectors_of_mine:embed"}
    untrained = make_evaluator("preference", options)
    assert isinstance(untrained, PreferenceEvaluator)
    model = fit(polite(random.Random(3), 60), untrained.embed)
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model))
    trained = make_evaluator("preference", options)
    liked, other = (verdict(trained, ended(text)).value for text in ("Gladly: Elm.", "It is Elm."))
    assert liked is not None
    assert other is not None
    assert liked > other
    plain = make_evaluator("preference", {"file": "m.json", "folder": str(tmp_path)})
    refused = verdict(plain, ended("Elm")).error
    assert "fitted with an embedding of 2 numbers, but now there is no embedding" in refused
    with pytest.raises(ConfigError, match="The embedding 'vectors_of_mine:gone' cannot be loaded"):
        make_evaluator("preference", {**options, "embed": "vectors_of_mine:gone"})


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0]], "returned 1 vectors for 2 texts"),
        ([[1.0], [1.0, 2.0]], "differ in length"),
        ([[], []], "are empty"),
        ([[float("nan")], [1.0]], "is not finite"),
        (["a", "b"], "did not return lists of numbers"),
        (None, "did not return lists of numbers"),
    ],
)
def test_malformed_vectors_are_refused(vectors: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit([Pair("q", "a", "b")], lambda _: vectors)
