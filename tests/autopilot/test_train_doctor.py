from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.autopilot.tiny_model import write_tiny_model

from ratchet.autopilot import train_doctor
from ratchet.autopilot.train_doctor import check_training
from ratchet.models import ModelUnavailable

pytestmark = pytest.mark.torch

REWRITES = (
    "{% for m in messages[-1:] %}<|{{ m.role }}|>{{ m.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


def test_a_model_that_can_be_trained_passes_every_check(folder: Path) -> None:
    checks = list(check_training(str(folder)))
    assert [check.name for check in checks] == [
        "model",
        "template",
        "tokens",
        "sampler",
        "new weights",
    ]
    assert all(check.passed for check in checks), checks


def test_weights_that_do_not_reach_the_sampler_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = train_doctor._logprobs

    def stale(server: Any, model: str, ids: list[int]) -> list[float]:
        return ask(server, server.name, ids)

    monkeypatch.setattr(train_doctor, "_logprobs", stale)
    failed = [check.name for check in check_training(str(folder)) if not check.passed]
    assert failed == ["new weights"]


def test_a_template_is_needed_and_one_that_rewrites_the_past_is_named(tmp_path: Path) -> None:
    without = write_tiny_model(tmp_path / "without", "")
    *_, last = check_training(str(without))
    assert (last.name, last.passed) == ("template", False)
    rewriting = check_training(str(write_tiny_model(tmp_path / "rewriting", REWRITES)))
    next(rewriting)
    said = next(rewriting)
    assert said.passed
    assert "rewrites" in said.sentence


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="nowhere"):
        next(check_training(str(tmp_path / "nowhere")))


def test_with_fewer_bits_trainer_and_sampler_may_differ_by_more(folder: Path) -> None:
    checks = {check.name: check for check in check_training(str(folder), dtype="bfloat16")}
    assert all(check.passed for check in checks.values()), checks


@pytest.mark.parametrize(
    ("options", "named"), [({"device": "cuda:99"}, "cuda:99"), ({"dtype": "int3"}, "int3")]
)
def test_a_device_or_type_that_is_absent_is_a_sentence(
    folder: Path, options: dict[str, str], named: str
) -> None:
    with pytest.raises(ModelUnavailable, match=named):
        list(check_training(str(folder), **options))
