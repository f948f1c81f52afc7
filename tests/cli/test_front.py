"""The front in the terminal, and `ratchet ship CANDIDATE`: another point of it, proved anew."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ratchet.autopilot import Project as Opened
from ratchet.autopilot.run_front import CandidatePlace, RunFront
from ratchet.cli.front_plot import front_plot, marks
from ratchet.prove import level
from ratchet.types import Candidate, Params, Run, content_hash
from tests.cli.conftest import MakeProject, Project

REFUSED = 2


@pytest.fixture(scope="module")
def searched(improved: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that was improved; tests ship other candidates of it."""
    copy = tmp_path_factory.mktemp("front") / "project"
    return Project(Path(shutil.copytree(improved.root, copy, symlinks=True)))


def places(project: Project) -> list[Any]:
    front: Any = project.json("candidates")["front"]
    return list(front["places"])


def refusal(project: Project, *arguments: str) -> str:
    done = project.ratchet("ship", *arguments)
    assert done.returncode == REFUSED, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_another_candidate_is_proved_at_the_next_level_and_shipped(searched: Project) -> None:
    source, shipped, other = places(searched)[:3]
    assert (source["is_shipped"], shipped["is_shipped"], other["is_shipped"]) == (0, 1, 0)
    label = other["candidate_id"][:8]
    done = searched.ratchet("ship", label)
    assert done.returncode == 0, done.stderr
    assert "Its proof is a new experiment at the next level, 0.013" in done.stdout
    assert f"Candidate {label} in learning: closeness 0.954 (source 0.400), cost" in done.stdout
    assert "was chosen by a person, so learning is skipped" in done.stdout
    assert "Proved better and shipped as a branch" in done.stdout
    assert "No pull request was opened." in done.stdout
    assert f"ratchet/knobs-{label}" in searched.git("branch", "--list", "ratchet/*")
    with Opened.find(searched.root).open_store() as store:
        first, second = store.experiments.history()
        run = store.runs.latest()
        assert run is not None
        learned = store.rollouts.counts(queue=run.id, candidate_id=other["candidate_id"])
        release = store.releases.latest()
    assert second.history == (True,)
    assert (first.alpha, second.alpha) == (level(0.05, ()), level(0.05, (True,)))
    assert second.stream == first.stream
    assert learned
    assert release is not None
    assert "A person chose it from the candidates" in Path(release.pull_request).read_text()
    assert searched.ratchet("verify").returncode == 0
    # It has its place among the candidates of the run that it came from.
    assert [place["is_shipped"] for place in places(searched)[:3]] == [False, True, True]
    again = refusal(searched, label)
    assert "is already proved, as release" in again
    assert f"ratchet ship {release.id[:8]}" in again


def test_a_candidate_that_gains_nothing_is_shipped_once_it_is_proved_no_worse(
    make_project: MakeProject,
) -> None:
    project = make_project()
    source_id = str(project.json("improve", "--no-ship")["baseline_id"])
    with Opened.find(project.root).open_store() as store:
        source = store.candidates.get(source_id)
        knobs = source.resources["knobs"]
        assert isinstance(knobs, Params)
        level_one = source.derive({"knobs": knobs.replace(aim=0.0001)}, algorithm="tune")
        store.candidates.put(level_one, time.time())
        run = store.runs.latest()
        assert run is not None
        ran = store.rollouts.list(queue=run.id, candidate_id=source_id, purpose="learn/")[0]
        copies = [
            msgspec.structs.replace(rollout, id=f"{rollout.id}/copy", candidate_id=level_one.id)
            for rollout in ran
        ]
        store.rollouts.create(copies, time.time())
        for rollout in ran:
            scores = store.scores.of([rollout.id])[rollout.id]
            store.scores.add([(f"{rollout.id}/copy", score) for score in scores], time.time())
    done = project.ratchet("ship", level_one.id[:8])
    assert done.returncode == 0, done.stderr
    assert "It has to be proved not worse" in done.stdout
    assert "A candidate ships if it is proved to score at most" in done.stdout
    assert "Proved no worse and shipped as a branch" in done.stdout
    done = project.ratchet("ship", "--margin", "0.1")
    assert (done.returncode, "--margin is for the proof of a candidate" in done.stderr) == (2, True)


def test_a_candidate_without_a_gain_ships_nothing_and_is_not_tried_twice(
    make_project: MakeProject,
) -> None:
    project = make_project(tasks=120)
    with Opened.find(project.root).open_store() as store:
        opened = Opened.find(project.root)
        source = opened.source_candidate(opened.load_agent())
        knobs = source.resources["knobs"]
        assert isinstance(knobs, Params)
        same = {"knobs": knobs.replace(aim=0.0001)}
        candidate = source.derive(same, algorithm="tune", reason="A nudge.")
        for stored in (source, candidate):
            store.candidates.put(stored, time.time())
    outcome = project.json("ship", candidate.id[:10])
    assert outcome["stage"] == "no_gain"
    assert outcome["candidate_id"] == candidate.id
    assert project.git("branch", "--list", "ratchet/*") == ""
    rollouts = outcome["rollouts"]
    assert project.json("ship", candidate.id[:10])["rollouts"] == rollouts
    with Opened.find(project.root).open_store() as store:
        assert len(store.experiments.history()) == 1


def test_what_cannot_be_shipped_is_refused_with_the_way_on(searched: Project) -> None:
    source, shipped, *_, last = places(searched)
    assert "is the unchanged agent" in refusal(searched, source["candidate_id"])
    unknown = f"{last['candidate_id'][:6]}zz"
    said = refusal(searched, unknown)
    assert f"There is no release or candidate {unknown!r}" in said
    assert f"Similar candidates: {last['candidate_id'][:8]}" in said
    assert "Similar candidates" in refusal(searched, "zzzzzzzz")  # those on the front
    assert "has no release yet" in refusal(searched, last["candidate_id"], "--dry-run")
    now = time.time()
    with Opened.find(searched.root).open_store() as store:
        original = store.candidates.get(source["candidate_id"])
        knobs = original.resources["knobs"]
        assert isinstance(knobs, Params)
        renamed = Candidate.of({"dials": knobs})
        old = Candidate.of({"knobs": knobs.replace(aim=0.25)})
        outdated = old.derive({"knobs": knobs.replace(aim=0.3)}, algorithm="tune")
        foreign = original.derive({"knobs": knobs.replace(aim=0.35)}, algorithm="tune")
        tried = original.derive({"knobs": knobs.replace(aim=0.4)}, algorithm="tune")
        for candidate in (renamed, old, outdated, foreign, tried):
            store.candidates.put(candidate, now)
        other = Run(
            id=content_hash("other"),
            agent="helper:answer",
            seed=0,
            stage="learn",
            created_at=1.0,
            updated_at=1.0,
        )
        store.runs.put(other)
        shared = store.rollouts.list(candidate_id=shipped["candidate_id"], limit=1)[0][0]
        theirs = msgspec.structs.replace(
            shared, id="theirs", queue=other.id, candidate_id=foreign.id
        )
        store.rollouts.create([theirs], now)
        proof = store.experiments.history()[0]
        decision = proof.decision
        assert decision is not None
        ended = msgspec.structs.replace(
            proof,
            id="ended",
            candidate_id=tried.id,
            history=(True, True, True),
            decision=msgspec.structs.replace(decision, verdict="no_gain", sentence="No gain."),
        )
        store.experiments.put(ended)
    said = refusal(searched, tried.id)
    assert f"was already compared on test tasks, in run {proof.run_id[:8]}: No gain." in said
    said = refusal(searched, renamed.id)
    assert "to another agent: it sets dials (params), but this agent has knobs (params)" in said
    assert "from another version of the source: knobs changed since" in refusal(
        searched, outdated.id
    )
    assert "belongs to the agent helper:answer; this project's agent is agent:answer" in refusal(
        searched, foreign.id
    )


def test_the_front_is_shown_as_a_plot_and_a_table(searched: Project) -> None:
    done = searched.ratchet("candidates", "--front", "--run", str(newest_learned(searched)))
    assert done.returncode == 0, done.stderr
    for said in ("◆  source", "★  ", "on the front", "ran fewer than half of the tasks"):
        assert said in done.stdout
    assert "Each number is a mean over the" in done.stdout


def newest_learned(project: Project) -> str:
    with Opened.find(project.root).open_store() as store:
        return next(run.id for run in store.runs.list() if run.stage == "shipped")


def place(id: str, quality: float, cost: float | None, **more: Any) -> CandidatePlace:
    return CandidatePlace(
        candidate_id=id, tasks=20, quality=quality, cost_usd=cost, latency_s=1.0, **more
    )


FRONT = RunFront(
    metric="exact_match",
    tasks=20,
    source_id="source",
    places=(
        place("source", 0.5, 0.010),
        place("best", 0.9, 0.012, on_front=True, is_shipped=True),
        place("cheap", 0.6, 0.002, on_front=True, letter="a"),
        place("behind", 0.4, 0.011),
        place("unpriced", 0.8, None, on_front=True, letter="b"),
        place("little", 0.5, 0.001, is_known=False),
    ),
)


@pytest.mark.parametrize("width", [30, 60, 100, 240])
def test_a_plot_fits_its_width_and_holds_each_candidate_at_its_place(width: int) -> None:
    text = front_plot(FRONT, width)
    lines = text.splitlines()
    grid = [line.partition("│")[2] for line in lines if "│" in line]
    assert max(len(line) for line in lines if "│" in line or "└" in line) <= min(width, 100)
    at = {
        mark: (row, line.index(mark)) for row, line in enumerate(grid) for mark in line.strip(" ")
    }
    assert set(at) == {"◆", "★", "a", "·"}
    assert at["★"][0] < at["a"][0] < at["◆"][0] < at["·"][0]
    assert at["a"][1] < at["◆"][1] < at["·"][1] < at["★"][1]
    assert "cost unknown: 1 candidate, below" in text
    assert marks(FRONT)["unpriced"] == "b"
    assert "little" not in marks(FRONT)
