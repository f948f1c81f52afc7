from __future__ import annotations

from pathlib import Path

from ratchet.autopilot.model_card import CARD, write_model_card
from ratchet.types import Adapter, Dataset, Decision, Task


def test_a_card_states_base_data_recipe_and_proof(tmp_path: Path) -> None:
    tasks = tuple(Task(name, name) for name in "abc")
    dataset = Dataset("words", tasks, {"a": "train", "b": "val", "c": "test"})
    decision = Decision(
        verdict="promote",
        metric="exact_match",
        alpha=0.05,
        pairs=44,
        baseline=0.2,
        candidate=0.9,
        e_value=90.0,
        interval=(0.1, 0.9),
        sentence="Proved better.",
    )
    adapter = Adapter("a" * 64, "base-hash", "tokenizer-hash", {"algorithm": "sft", "steps": 12})
    write_model_card(tmp_path, adapter, dataset, decision, "evidence/e.json")
    text = (tmp_path / CARD).read_text()
    for said in (
        "base-hash",
        "a" * 64,
        "tokenizer-hash",
        dataset.version,
        "1 train, 1 val, 1 test tasks",
        '"steps": 12',
        "Proved better.",
        "evidence/e.json",
    ):
        assert said in text
