"""Preferences: a model that is learned from pairs, and says when it is not to be trusted."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from ratchet.evaluate import make_evaluator
from ratchet.evaluate.preference import Pair, PreferenceModel, fit, pairs_of
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
    assert model.doubt == "12 pairs are too few to trust; 38 are missing."
    with pytest.raises(InputError, match="no preferences and no corrections"):
        fit([])


def test_what_length_alone_explains_is_not_trusted() -> None:
    rng = random.Random(4)
    words = [f"w{k}" for k in range(400)]
    pairs = [
        Pair(str(n), " ".join(rng.sample(words, 40)), " ".join(rng.sample(words, 12)))
        for n in range(60)
    ]
    model = fit(pairs)
    assert model.longer == 1.0
    assert model.doubt == "On held-out pairs it is not better than preferring by length."


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
    with pytest.raises(ConfigError, match="is no model of preferences"):
        make_evaluator("preference", options)
