"""The card of a released adapter: its base, how it was trained, and the proof."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ratchet.autopilot.adapters import served_name
from ratchet.ship.pull_request import code, fence, proof_section, write_text_file
from ratchet.types import Adapter, Dataset, Decision

CARD = "README.md"
"""Its name in the adapter's folder, where tools that read PEFT's layout look for it."""


def write_model_card(
    folder: Path, adapter: Adapter, dataset: Dataset, decision: Decision, evidence: str
) -> None:
    """Write the card into an adapter's folder.

    Args:
        folder: The adapter's folder.
        adapter: The adapter.
        dataset: The tasks.
        decision: The decision that released it.
        evidence: Path of the evidence file.

    Raises:
        ShipError: It cannot be written.
    """
    splits = ", ".join(f"{len(dataset.split(split))} {split}" for split in ("train", "val", "test"))
    recipe = msgspec.json.format(msgspec.json.encode(adapter.recipe), indent=2).decode()
    parts = [
        "---\nlibrary_name: peft\n---",
        f"# {code(served_name(adapter.hash))}",
        f"A LoRA adapter of the base model with the fingerprint {code(adapter.base)}. Its content"
        f" hash is {code(adapter.hash)}; its tokenizer's is {code(adapter.tokenizer)}.",
        "## Data",
        f"The dataset {code(dataset.name)}, version {code(dataset.version)}: {splits} tasks. It"
        " was trained on the train tasks, chosen by the val tasks, and proved on the test tasks,"
        " which the training never saw.",
        "## Recipe",
        fence(recipe, "json"),
        *proof_section(decision),
        f"The paired scores are in {code(evidence)}; {code('ratchet verify')} recomputes them.",
    ]
    write_text_file(folder / CARD, "\n\n".join(parts) + "\n")
