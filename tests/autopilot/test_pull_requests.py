"""What a project's configuration and store make of the pull request of a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.autopilot import Project, read_config
from ratchet.autopilot.pull_requests import forge_settings, live_proofs, text_options
from ratchet.store import Store
from ratchet.types import (
    ConfigError,
    Cycle,
    CycleTransition,
    Dataset,
    Origin,
    Release,
    StageDecision,
    Task,
)

CONFIG = """
[agent]
entry = "agent:answer"

[ship]
"""
RELEASE = Release(
    id="r1",
    experiment_id="e1",
    candidate_id="c1",
    baseline_id="b1",
    state="branched",
    repo="/repo",
    branch="ratchet/a-1",
    base="0",
    commit="1",
    pull_request="/text.md",
    evidence="/evidence.json",
    created_at=1.0,
)
DECISION = StageDecision(
    stage="shadow",
    verdict="pass",
    metric="score",
    alpha=0.05,
    baseline_count=9,
    candidate_count=9,
    baseline=0.5,
    candidate=0.75,
    e_value=30.0,
    needed=20.0,
)
DATASET = Dataset(
    name="d",
    tasks=(
        Task("a", 1),
        Task("b", 2, origin=Origin(made="captured", sources=("trace-1", "trace-2"))),
        Task("c", 3, origin=Origin(made="synthesized", sources=("a",))),
    ),
    splits={"a": "train", "b": "test", "c": "test"},
)


def project(folder: Path, ship: str = "") -> Project:
    path = folder / "ratchet.toml"
    path.write_text(CONFIG + ship)
    return Project(folder, read_config(path))


@pytest.fixture
def store(sqlite_template: Any, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.db"
    path.write_bytes(sqlite_template.read_bytes())
    with Store.open(f"sqlite:///{path}") as opened:
        yield opened


def test_without_keys_everything_is_derived(tmp_path: Path) -> None:
    settings = forge_settings(project(tmp_path))
    assert (settings.remote, settings.max_open, settings.evidence) == ("origin", 2, False)
    assert (settings.forge, settings.app_key) == (None, None)
    assert not any([settings.base, settings.api_url, settings.repository, settings.token_env])
    options = text_options(project(tmp_path), "e" * 32, DATASET)
    assert options == {
        "evidence_shown": "",
        "server_url": "",
        "traces": {"b": "trace-1"},
        "problem": "",
    }


def test_every_key_reaches_the_forge(tmp_path: Path) -> None:
    made = project(
        tmp_path,
        """
        remote = "upstream"
        base = "develop"
        forge = "github"
        api_url = "https://github.acme.org/api/v3"
        repository = "acme/helper"
        app_id = "1"
        app_key = "keys/app.pem"
        labels = ["a"]
        reviewers = ["ada"]
        draft = true
        max_open = 5
        evidence = true
        server_url = "https://ratchet.acme.org"
        """,
    )
    settings = forge_settings(made)
    assert (settings.remote, settings.base, settings.forge) == ("upstream", "develop", "github")
    assert settings.app_key == tmp_path / "keys" / "app.pem"
    assert (settings.labels, settings.reviewers) == (("a",), ("ada",))
    assert (settings.draft, settings.max_open, settings.evidence) == (True, 5, True)
    assert text_options(made, "e" * 32, DATASET) == {
        "evidence_shown": ".ratchet-evidence/eeeeeeeeeeee.json",
        "server_url": "https://ratchet.acme.org",
        "traces": {"b": "trace-1"},
        "problem": "",
    }


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('app_id = "1"', "app_id and app_key together"),
        ('app_id = "1"\napp_key = "k"\ntoken_env = "T"', "either token_env or app_id"),
        ('app_id = "1"\napp_key = "k"\nforge = "gitlab"', "app_id is for GitHub"),
        ('repository = "helper"', "repository"),
        ('forge = "gitea"', "forge"),
        ('token_env = "ghp_secret-token"', "token_env"),
        ("max_open = 0", "max_open"),
    ],
)
def test_keys_that_make_no_sense_are_refused(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        project(tmp_path, keys)


def test_the_live_stages_of_the_same_experiment_belong_to_the_release(
    store: Store, tmp_path: Path
) -> None:
    watch = msgspec.structs.replace(DECISION, stage="watch")
    for name, experiment in (("cycle-1", "e1"), ("cycle-2", "e2")):
        cycle = Cycle(
            id=name,
            agent=name,
            state="capture",
            trigger="Scores fell.",
            started_at=1.0,
            entered_at=1.0,
            updated_at=1.0,
            experiment_id=experiment,
            decisions=(DECISION, watch),
        )
        move = CycleTransition(
            cycle_id=name,
            number=1,
            source="idle",
            target="capture",
            rule="A rule.",
            inputs="digest",
            actor="autopilot",
            at=1.0,
        )
        store.cycles.put(cycle, move)
    made = project(tmp_path)
    (proof,) = live_proofs(made, store, RELEASE)
    assert proof.decision == DECISION
    assert proof.evidence == made.state / "evidence" / "cycle-1-shadow.json"
