"""A candidate that a person chose to ship: whether it may be, and the learning that it takes: none.

A run with it has the stages of any other, so its proof is a new experiment of the agent's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from ratchet.autopilot.experiment import stream_of
from ratchet.autopilot.project import Project
from ratchet.autopilot.run_front import run_front
from ratchet.autopilot.run_outcome import CHOSEN, outcome_of
from ratchet.learn import Finding, Lab, mean
from ratchet.store import Store
from ratchet.types import Candidate, InputError, Run, dollars_text, kind_of
from ratchet.types.wording import counted

NEAR = 3
"""Most candidates that are named where one is unknown."""


class ChosenCandidate:
    """The algorithm of a run whose candidate a person chose: it tries no other.

    Args:
        candidate: The candidate.
        goal: What has to be proved of it: `better`, or `not worse`.
    """

    name = "chosen"

    def __init__(self, candidate: Candidate, goal: str = "better") -> None:
        self.candidate = candidate
        self.goal = goal

    async def learn(self, lab: Lab) -> Finding:
        """Find the chosen candidate, which goes to the proof whatever learning saw of it.

        Raises:
            InputError: The checks or the repository's tests refuse it.
        """
        fault = await lab.check(self.candidate) or await lab.test(self.candidate)
        if fault:
            raise InputError(f"Candidate {self.candidate.id[:8]} cannot be shipped: {fault}")
        baseline_val = mean(await lab.evaluate(lab.baseline, lab.val))
        return Finding(
            best=self.candidate,
            baseline_val=baseline_val,
            best_val=baseline_val,
            proposals=0,
            sentence=f"Candidate {self.candidate.id[:8]} was chosen by a person, so nothing is"
            " learned: it goes to the proof.",
        )


def chosen_candidate(
    project: Project, store: Store, source: Candidate, objective: str, name: str
) -> Candidate:
    """The candidate that a person names, if it can be proved and shipped.

    Args:
        project: The project.
        store: Its store.
        source: The agent as it is.
        objective: Name of the objective.
        name: Start of the candidate's id.

    Raises:
        InputError: There is none or there are several, it is of another agent, it was learned from
            another source, it is the source, it is a release already, or its proof has ended.
    """
    candidate = named_candidate(project, store, name)
    label = candidate.id[:8]
    if candidate.id == source.id:
        raise InputError(
            f"Candidate {label} is the agent as it is: there is nothing to ship.",
            hint="See what else there is: ratchet candidates --front",
        )
    for release in store.releases.list(1000):
        if release.candidate_id == candidate.id and not release.draft:
            raise InputError(
                f"Candidate {label} was proved already: it is release {release.id[:8]},"
                f" {release.state.replace('_', ' ')}.",
                hint="See: ratchet releases"
                if release.state in ("merged", "active", "rolled_back")
                else f"Open its pull request: ratchet ship {release.id[:8]}",
            )
    _require_of_this_agent(project, store, candidate, source)
    _require_unproved(project, store, candidate, source, objective)
    return candidate


def level_sentence(level: float) -> str:
    """Sentence on what the proof of a chosen candidate takes.

    Args:
        level: The next level of the agent's stream of experiments.
    """
    return (
        f"Its proof is a new experiment at the next level, {level:.2g}: it takes an e-value of"
        f" {1 / level:.3g}."
    )


def learned_sentence(store: Store, candidate: Candidate) -> str:
    """Sentence on a candidate's place among others as learning saw it; empty where it has none."""
    queues = store.rollouts.queues_of(candidate.id)
    runs = [run for queue in queues if (run := store.runs.get(queue)) is not None]
    newest = max(runs, key=lambda run: run.created_at, default=None)
    placed = run_front(store, newest, outcome_of(store, newest).metric) if newest else None
    places = {place.candidate_id: place for place in placed.places} if placed else {}
    if placed is None or candidate.id not in places:
        return ""
    own, source = places[candidate.id], placed.source
    parts = [f"{placed.metric} {own.quality:.3f} (source {source.quality:.3f})"]
    if own.cost_usd is not None and source.cost_usd is not None:
        costs = dollars_text(own.cost_usd), dollars_text(source.cost_usd)
        parts.append(f"cost {costs[0]} (source {costs[1]})")
    else:
        parts.append("cost unknown")
    if own.latency_s is not None and source.latency_s is not None:
        parts.append(f"latency {own.latency_s:.3g} s (source {source.latency_s:.3g} s)")
    return f"Candidate {candidate.id[:8]} in learning: {', '.join(parts)}."


def named_candidate(project: Project, store: Store, name: str) -> Candidate:
    """The candidate whose id begins so.

    Raises:
        InputError: There is none, or there are several.
    """
    matches = store.candidates.find(name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(candidate.id[: len(name) + 8] for candidate in matches[:NEAR])
        raise InputError(
            f"{name!r} matches {counted(len(matches), 'candidate')}: {listed}"
            f"{', …' if len(matches) > NEAR else ''}.",
            hint="Give more digits.",
        )
    near = _near(project, store, name)
    raise InputError(
        f"There is no release or candidate {name!r}."
        + (f" Candidates near it: {', '.join(near)}." if near else ""),
        hint="List them: ratchet releases, ratchet candidates --front",
    )


def _near(project: Project, store: Store, name: str) -> list[str]:
    """Ids of the newest run's candidates that look like a name; else of those on its front."""
    run = next(iter(_own_runs(project, store.runs.list())), None)
    placed = run_front(store, run, outcome_of(store, run).metric) if run is not None else None
    if placed is None:
        return []
    others = [place for place in placed.places if place.candidate_id != placed.source_id]
    by_start = {place.candidate_id[: len(name)]: place.candidate_id for place in others}
    alike = [by_start[start] for start in get_close_matches(name, by_start, NEAR)]
    on_front = [place.candidate_id for place in others if place.on_front]
    return [candidate_id[:8] for candidate_id in (alike or on_front)[:NEAR]]


def _own_runs(project: Project, runs: Sequence[Run]) -> list[Run]:
    identity, agent = project.identity(), project.config.agent.label
    return [run for run in runs if (run.project, run.agent) == (identity, agent)]


def _require_of_this_agent(
    project: Project, store: Store, candidate: Candidate, source: Candidate
) -> None:
    """Refuse a candidate that was made for another agent, or from another source of this one."""
    label = candidate.id[:8]
    queues = store.rollouts.queues_of(candidate.id)
    runs = [run for queue in queues if (run := store.runs.get(queue)) is not None]
    if runs and not _own_runs(project, runs):
        other = runs[0]
        where = "" if other.project == project.identity() else " of another project"
        raise InputError(
            f"Candidate {label} is of the agent {other.agent}{where}; this one is"
            f" {project.config.agent.label}.",
            hint="Ship it from the folder of its own project.",
        )
    kinds = {name: kind_of(resource) for name, resource in source.resources.items()}
    own_kinds = {name: kind_of(resource) for name, resource in candidate.resources.items()}
    if own_kinds != kinds:
        raise InputError(
            f"Candidate {label} is of another agent: it sets {_listed(own_kinds)}, and this one has"
            f" {_listed(kinds)}.",
            hint="List this agent's: ratchet candidates --front",
        )
    origins = store.candidates.origins(candidate)
    if source.id not in {origin.id for origin in origins}:
        changed = sorted({name for origin in origins for name in source.changed_from(origin)})
        raise InputError(
            f"Candidate {label} was learned from another version of the source:"
            f" {', '.join(changed) or 'the agent'} changed since, and it would undo that.",
            hint="Learn from the source as it is: ratchet improve",
        )


def _require_unproved(
    project: Project, store: Store, candidate: Candidate, source: Candidate, objective: str
) -> None:
    """Refuse a candidate whose held-out scores are known: they must not select what is proved."""
    stream = stream_of(project.identity(), project.config.agent.label, objective)
    for experiment in store.experiments.history():
        is_its_proof = (
            experiment.candidate_id == candidate.id
            and experiment.baseline_id == source.id
            and experiment.stream == stream
            and experiment.decision is not None
        )
        # Its own run, begun by the same command, goes on or tells again how it ended.
        if is_its_proof and store.journal.get(experiment.run_id, CHOSEN) != candidate.id:
            decided = experiment.decision
            assert decided is not None
            raise InputError(
                f"Candidate {candidate.id[:8]} has had its proof, in run {experiment.run_id[:8]}:"
                f" {decided.sentence}",
                hint="Add test tasks, and ratchet improve goes on with it."
                if decided.verdict == "not_proved"
                else "A second try on the same tasks would prove nothing. See others: ratchet"
                " candidates --front",
            )


def _listed(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items())) or "nothing"
