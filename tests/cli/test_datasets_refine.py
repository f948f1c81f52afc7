"""`ratchet datasets refine`: proposals from stored results, accepted into a new version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ratchet.autopilot.project_tasks import project_dataset
from ratchet.store import Store
from ratchet.types import Candidate, Dataset, PromptTemplate, Task
from tests.curate.ranked_results import drawn, ran, tasks_of

if TYPE_CHECKING:
    from tests.cli.conftest import MakeProject, Project


def open_store(project: Project) -> Store:
    folder = project.root / ".ratchet"
    folder.mkdir(exist_ok=True, mode=0o700)
    return Store.open(f"sqlite:///{folder / 'ratchet.db'}")


def fill(project: Project, candidates: int = 12) -> Dataset:
    """Store a dataset of 160 tasks, six with a wrong label, and the results on it."""
    tasks = tasks_of(160)
    for row in range(6):
        tasks[row] = msgspec.structs.replace(tasks[row], expected="north")
    tasks.append(Task("again", tasks[50].input, "east"))
    splits = {t.id: ("train", "train", "val", "test")[n % 4] for n, t in enumerate(tasks)}
    dataset = Dataset(name="sun", tasks=tuple(tasks), splits=splits)  # type: ignore[arg-type]
    names = [Candidate.of({"p": PromptTemplate(text=f"{n}")}) for n in range(candidates)]
    found = [
        (msgspec.structs.replace(r, candidate_id=names[int(r.candidate_id[1:])].id), scores)
        for r, scores, _ in ran(tasks[:-1], drawn(160, candidates))
    ]
    with open_store(project) as store:
        store.datasets.put(dataset)
        for candidate in names:
            store.candidates.put(candidate, 1.0)
        store.rollouts.create([rollout for rollout, _ in found], 1.0)
        store.scores.add([(r.id, score) for r, scores in found for score in scores], 1.0)
    return dataset


@pytest.fixture
def project(make_project: MakeProject) -> Project:
    made = make_project(tasks=3)
    fill(made)
    return made


@pytest.mark.long
def test_wrong_labels_duplicates_and_a_core_set_are_proposed_with_reasons(project: Project) -> None:
    found: dict[str, Any] = project.json("datasets", "refine", "sun")
    assert found["candidates"] == 12
    assert found["evaluator"] == "exact_match"
    grounds = {proposal["ground"] for proposal in found["proposals"]}
    assert {"duplicate", "wrong label", "core set"} <= grounds
    kinds = {p["tasks"][0]: p["kind"] for p in found["proposals"] if p["ground"] == "wrong label"}
    assert len(kinds.keys() & {f"t00{row}" for row in range(6)}) >= 4
    assert kinds["t003"] == "review"  # a test task
    assert kinds["t005"] == "relabel"
    assert found["made"] == []
    assert len(found["estimates"]) == 160

    text = project.ratchet("datasets", "refine", "sun").stdout
    assert "north → east" in text
    assert "The input is the same as that of" in text
    assert "Coverage is unknown: 0 inputs" in text


def test_a_core_set_becomes_a_dataset_of_its_own(project: Project) -> None:
    found: dict[str, Any] = project.json("datasets", "refine", "sun", "--accept", "core-set")
    (made,) = found["made"]
    assert made["dataset"] == "sun-core"
    with open_store(project) as store:
        latest, core = store.datasets.latest("sun"), store.datasets.latest("sun-core")
        assert latest is not None
        assert core is not None
        assert len(core.split("test")) == 40
        assert 10 <= len(core.split("train")) + len(core.split("val")) <= 14
        assert latest.version == found["version"]


def test_the_plot_is_a_png_and_a_page_that_names_tasks(project: Project, tmp_path: Path) -> None:
    png, html = tmp_path / "plots" / "tasks.png", tmp_path / "tasks.html"
    done = project.ratchet("datasets", "refine", "sun", "--png", str(png), "--html", str(html))
    assert done.returncode == 0, done.stderr
    assert png.read_bytes().startswith(b"\x89PNG")
    page = html.read_text()
    assert page.count("<circle") == 160
    assert "t042\nmean score" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["moon"], "The store has no dataset 'moon'."),
        (["sun", "--accept", "zzz"], "'zzz' matches no proposal."),
        (["sun", "--relabel", "t001"], "--relabel 't001' is not TASK=JSON."),
        (["sun", "--relabel", "t001=up"], "is not JSON."),
        (["sun", "--remove", "nowhere"], "no task 'nowhere'"),
        (["sun", "--evaluator", "taste"], "No rollout of 'sun' has a score by 'taste'."),
    ],
)
def test_mistakes_are_one_sentence(project: Project, arguments: list[str], message: str) -> None:
    done = project.ratchet("datasets", "refine", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_what_was_accepted_is_what_the_next_improve_learns_from(make_project: MakeProject) -> None:
    project = make_project(tasks=12)
    lines = [json.dumps({"id": f"t{n}", "input": n % 10, "expected": n % 10}) for n in range(12)]
    project.write("tasks.jsonl", "\n".join(lines) + "\n")
    done = project.ratchet("datasets", "refine", "tasks", "--accept", "duplicates")
    assert "The next ratchet improve uses it." in done.stdout
    from ratchet.autopilot import Project as Opened

    opened = Opened.find(project.root)
    with opened.open_store() as store:
        dataset, said = project_dataset(opened, store=store, needs=())
        assert len(dataset.tasks) == 10
        assert dataset.version == store.datasets.named("tasks").version
    assert f"The tasks are tasks@{dataset.version[:8]}, made from tasks.jsonl. Refined:" in said[0]

    project.write("tasks.jsonl", "\n".join(lines[1:]) + "\n")
    with opened.open_store() as store:
        dataset, said = project_dataset(opened, store=store, needs=())
    assert len(dataset.tasks) == 11, "the file was changed, and counts again"
    assert 'is not used. To use it: dataset = "tasks" under [tasks].' in said[0]
