"""Makes a draft of what was not proved: a branch that only a person's merge releases."""

from __future__ import annotations

import time
from pathlib import Path

from ratchet.autopilot.code_sandbox import release_tests
from ratchet.autopilot.project import Project
from ratchet.autopilot.prompt_discovery import recall_prompts
from ratchet.autopilot.pull_requests import problem_of, text_options
from ratchet.autopilot.release_notes import release_notes
from ratchet.ship import ship
from ratchet.store import Store
from ratchet.types import Release, ShipError


def draft_release(project: Project, store: Store) -> Release:
    """Make the branch of the newest candidate that was not proved, or bring its text up to date.

    Args:
        project: The project.
        store: Its store.

    Raises:
        ShipError: Nothing was left unproved, the agent has changed since, or `ship` refuses.
    """
    identity = project.identity()
    label = project.config.agent.label
    run = next(
        (run for run in store.runs.list() if run.project == identity and run.agent == label), None
    )
    if run is None or run.stage != "not_proved":
        ended = "there is no run"
        if run is not None:
            ended = f"the newest run is at {run.stage.replace('_', ' ')!r}"
        raise ShipError(
            f"Only a candidate that was not proved becomes a draft, but {ended}.",
            hint="See: ratchet status.",
        )
    dataset = store.datasets.get(run.dataset_version)
    agent = project.load_agent()
    if agent.prompts_in_calls:
        recall_prompts(store, agent, dataset)
    if project.source_candidate(agent).id != run.baseline_id:
        raise ShipError(
            "The agent has changed since the candidate was compared with it.",
            hint="Compare again: ratchet improve.",
        )
    experiment = store.experiments.get(run.experiment_id)
    assert experiment is not None
    assert experiment.decision is not None
    release = ship(
        repo=project.root,
        baseline=store.candidates.get(run.baseline_id),
        candidate=store.candidates.get(run.best_id),
        declarations=agent.declarations,
        decision=experiment.decision,
        evidence_path=Path(experiment.evidence_path),
        experiment_id=experiment.id,
        out_dir=project.state / "releases",
        now=time.time(),
        tests=release_tests(project),
        agent_entry=agent.spec.entry,
        notes=release_notes(store, run),
        draft=True,
        **text_options(project, experiment.id, dataset, problem_of(store, run)),
    )
    stored_release = store.releases.get(release.id)
    if stored_release is not None:
        return stored_release
    store.releases.put(release)
    return release
