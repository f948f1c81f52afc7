"""The ship stage: the release of a proved candidate."""

from __future__ import annotations

import time
from pathlib import Path

from ratchet.autopilot.adapters import AdapterFolder
from ratchet.autopilot.code_sandbox import release_tests, repository_of
from ratchet.autopilot.improve_run import ImproveRun
from ratchet.autopilot.model_card import write_model_card
from ratchet.autopilot.proof_stage import told
from ratchet.autopilot.pull_requests import problem_of, propose_release, text_options
from ratchet.autopilot.release_notes import release_notes
from ratchet.autopilot.trainable import ADAPTERS
from ratchet.ship import activate, find_literal, literal_text, make_patch, ship
from ratchet.types import Adapter, Candidate, Decision, Model, RatchetError, Release, ShipError


def ship_candidate(work: ImproveRun) -> Release:
    """Make the release of the proved candidate: a branch, or at run time."""
    experiment = work.store.experiments.get(work.run.experiment_id)
    assert experiment is not None
    assert experiment.decision is not None
    candidate = work.store.candidates.get(work.run.best_id)
    reasons = _unpatchable(work, candidate)
    for adapter in _trained(work.baseline, candidate).values():
        write_model_card(
            AdapterFolder(work.project.state / ADAPTERS).verified(adapter),
            adapter,
            work.dataset,
            experiment.decision,
            experiment.evidence_path,
        )
    if reasons:
        release = activate(
            work.store,
            agent=work.project.agent_name,
            repo=work.project.root,
            baseline=work.baseline,
            candidate=candidate,
            decision=experiment.decision,
            evidence_path=Path(experiment.evidence_path),
            experiment_id=experiment.id,
            out_dir=work.project.state / "releases",
            now=time.time(),
            reasons=reasons,
            notes=release_notes(work.store, work.run),
        )
        return _released(work, release, experiment.decision)
    release = ship(
        repo=work.project.root,
        baseline=work.baseline,
        candidate=candidate,
        declarations=work.agent.declarations,
        decision=experiment.decision,
        evidence_path=Path(experiment.evidence_path),
        experiment_id=experiment.id,
        out_dir=work.project.state / "releases",
        now=time.time(),
        tests=release_tests(work.project),
        agent_entry=work.agent.spec.entry,
        notes=release_notes(work.store, work.run),
        **text_options(work.project, experiment.id, work.dataset, problem_of(work.store, work.run)),
    )
    return _released(work, release, experiment.decision)


def _unpatchable(work: ImproveRun, candidate: Candidate) -> dict[str, str]:
    """Why resources cannot be patched, by name; then they are released at run time.

    Trained weights are in no source file. The prompts of an agent in another language may
    stand in none, in several, or in a form that does not hold the new text.
    """
    trained = _trained(work.baseline, candidate)
    if trained:
        return dict.fromkeys(trained, "Trained weights are in no source file.")
    names, declared = candidate.changed_from(work.baseline), work.agent.declarations
    in_calls = [name for name in names if declared[name].located_by == "text"]
    if not in_calls:
        return {}
    reasons: dict[str, str] = {}
    root = repository_of(work.project.root)
    for name in in_calls:
        text = literal_text(work.baseline.resources[name])
        assert text is not None
        search = find_literal(root, text)
        if not search.patchable:
            is_model = isinstance(work.baseline.resources[name], Model)
            what = f"the model's name, {text.text}" if is_model else "the prompt"
            reasons[name] = search.sentence(what)
    if not reasons:
        try:
            make_patch(work.baseline, candidate, declared, root)
        except ShipError as error:
            reasons = dict.fromkeys(names, " ".join(filter(None, (error.message, error.hint))))
    return reasons


def _released(work: ImproveRun, release: Release, decision: Decision) -> Release:
    work.store.releases.put(release)
    work.watcher.released(release)
    work.enter("shipped", release_id=release.id, message=told(work, decision))
    propose(work, release)
    return release


def propose(work: ImproveRun, release: Release) -> None:
    """Open the pull request of a branch if the project wants it; a failure is only reported."""
    if not release.branch or not work.project.config.ship.pull_request:
        return
    try:
        propose_release(work.project, work.store, release)
    except RatchetError as error:
        work.watcher.message(
            f"The branch is made, but its pull request could not be opened: {error} Continue with "
            "`ratchet ship`."
        )


def _trained(baseline: Candidate, candidate: Candidate) -> dict[str, Adapter]:
    """Adapters of a candidate that the baseline does not have, by model name."""
    changed = {name: candidate.resources[name] for name in candidate.changed_from(baseline)}
    return {
        name: model.adapter
        for name, model in changed.items()
        if isinstance(model, Model) and model.adapter is not None
    }
