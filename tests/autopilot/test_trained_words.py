"""SmolLM2 behind a program in plain Python: trained on words, proved on others, and released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.store import Store

pytestmark = [pytest.mark.torch, pytest.mark.long]

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "parts" / "weights" / "words.py"


@pytest.mark.parametrize("algorithm", ["sft", "auto"])
def test_a_model_is_trained_through_an_agent_that_was_not_changed(
    tmp_path: Path, algorithm: str
) -> None:
    pytest.importorskip("vaderSentiment")
    folder = tmp_path / "words"
    done = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            "--words=300",
            f"--algorithm={algorithm}",
            f"--folder={folder}",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["verdict"] == "promote"
    assert said["candidate"] > said["baseline"] + 0.3
    with Store.open(f"sqlite:///{folder}/.ratchet/ratchet.db") as store:
        (release,) = store.releases.list()
        assert release.state == "active"
        model = store.candidates.get(release.candidate_id).resources["model"]
        card = folder / ".ratchet" / "adapters" / model.adapter.hash / "README.md"
        assert '"algorithm": "sft"' in card.read_text()
        assert store.agents.active(release.agent).candidate_id == release.candidate_id
