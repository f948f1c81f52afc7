"""A candidate that a person chose to ship: whether it may ship, without any learning.

A run with it has the stages of any other, so its proof is a new experiment of the agent's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple, TypeAlias

from ratchet.autopilot.algorithms import ALGORITHMS
from ratchet.autopilot.experiment import stream_of
from ratchet.autopilot.project import Project
from ratchet.autopilot.run_front import CandidatePlace, RunFront, run_front
from ratchet.autopilot.run_outcome import CHOSEN, outcome_of
from ratchet.learn import Finding, Lab, mean
from ratchet.store import Store
from ratchet.types import Candidate, InputError, Run, kind_of
from ratchet.types.cost import rollout_dollars
from ratchet.types.wording import counted

Goal: TypeAlias = Literal["better", "not worse"]
"""What has to be proved about a candidate."""

MAX_CANDIDATES_NAMED = 3
"""Maximum number of similar candidates named when one is unknown."""


class ProofWanted(NamedTuple):
    """A person's choice."""

    name: str
    """Start of the candidate's id."""
    margin: float | None = None
    """How much lower it may score; None to prove what its scores in learning suggest."""


class ChosenCandidate:
    """The algorithm of a run whose candidate a person chose; it tries no other.

    Args:
        candidate: The candidate.
        goal: What has to be proved of it.
        margin: How much lower it may score, where it has to be no worse; by default the tightest
            margin that the test tasks can prove.
    """

    name = "chosen"

    def __init__(self, candidate: Candidate, goal: Goal, margin: float | None = None) -> None:
        self.candidate = candidate
        self.goal = goal
        self.margin = margin

    @property
    def choice(self) -> dict[str, str | float | None]:
        """The person's choice."""
        return {"candidate": self.candidate.id, "margin": self.margin}

    @property
    def identity(self) -> list[str | float | None]:
        """The settings that the decision depends on."""
        return [self.candidate.id, self.goal, self.margin]

    async def learn(self, lab: Lab) -> Finding:
        """Find the chosen candidate, which goes to the proof whatever its scores in learning.

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
            sentence=f"Candidate {self.candidate.id[:8]} was chosen by a person, so learning is "
            f"skipped. It has to be proved {self.goal}.",
        )


def chosen_candidate(
    project: Project, store: Store, source: Candidate, objective: str, choice: ProofWanted
) -> ChosenCandidate:
    """The candidate that a person names, if it can be proved and shipped, and what to prove.

    With a margin, or where learning saw no gain above the standard error, it has to be no worse:
    what speaks for it is its cost or latency. So it has where the objective, or the algorithm that
    made it, is to save something. Else it has to be better.

    Args:
        project: The project.
        store: Its store.
        source: The agent as it is.
        objective: Name of the objective.
        choice: What a person named.

    Raises:
        InputError: There is none or there are several, it is of another agent, it was learned from
            another source, it is the source, it is a release already, or its proof has ended.
    """
    candidate = named_candidate(project, store, choice.name)
    label = candidate.id[:8]
    if candidate.id == source.id:
        raise InputError(
            f"Candidate {label} is the unchanged agent: there is nothing to ship.",
            hint="See other candidates: ratchet candidates --front",
        )
    for release in store.releases.list(1000):
        if release.candidate_id == candidate.id and not release.draft:
            raise InputError(
                f"Candidate {label} is already proved, as release {release.id[:8]},"
                f" {release.state.replace('_', ' ')}.",
                hint="See: ratchet releases"
                if release.state in ("merged", "active", "rolled_back")
                else f"Open its pull request: ratchet ship {release.id[:8]}",
            )
    _require_of_this_agent(project, store, candidate, source)
    _require_unproved(project, store, candidate, source, objective)
    saving = project.config.objective
    margin = saving.margin if choice.margin is None else choice.margin
    placed = _learned(store, candidate)
    saves = (
        margin is not None
        or saving.minimise is not None
        or (placed is not None and not placed[1].is_better)
        or _made_to_save(store, candidate)
    )
    return ChosenCandidate(candidate, "not worse" if saves else "better", margin)


def level_sentence(level: float) -> str:
    """Sentence on what the proof of a chosen candidate needs.

    Args:
        level: The next level of the agent's stream of experiments.
    """
    return (
        f"Its proof is a new experiment at the next level, {level:.2g}: it needs an e-value of"
        f" {1 / level:.3g}."
    )


def learned_sentence(store: Store, candidate: Candidate) -> str:
    """Sentence on a candidate's scores in learning; empty if it has none."""
    placed = _learned(store, candidate)
    if placed is None:
        return ""
    front, own = placed
    source = front.source
    parts = [f"{front.metric} {own.quality:.3f} (source {source.quality:.3f})"]
    if own.cost_usd is not None and source.cost_usd is not None:
        costs = rollout_dollars(own.cost_usd), rollout_dollars(source.cost_usd)
        parts.append(f"cost {costs[0]} (source {costs[1]})")
    else:
        parts.append("cost unknown")
    if own.latency_s is not None and source.latency_s is not None:
        parts.append(f"latency {own.latency_s:.3g} s (source {source.latency_s:.3g} s)")
    return f"Candidate {candidate.id[:8]} in learning: {', '.join(parts)}."


def _made_to_save(store: Store, candidate: Candidate) -> bool:
    """Whether a candidate or an ancestor is from an algorithm that saves without scoring worse."""
    seen, waiting = {candidate.id}, [candidate.id]
    while waiting:
        made = store.candidates.get(waiting.pop())
        if getattr(ALGORITHMS.get(made.algorithm), "goal", "better") == "not worse":
            return True
        new = store.candidates.known(made.parents) - seen
        seen |= new
        waiting += new
    return False


def _learned(store: Store, candidate: Candidate) -> tuple[RunFront, CandidatePlace] | None:
    """A candidate's place in learning; None if it ran on no tasks there.

    That of the newest run that learned: what proofs of it run must not change it.
    """
    runs = [
        run
        for queue in store.rollouts.queues_of(candidate.id)
        if (run := store.runs.get(queue)) is not None and not store.journal.get(run.id, CHOSEN)
    ]
    newest = max(runs, key=lambda run: run.created_at, default=None)
    front = run_front(store, newest, outcome_of(store, newest).metric) if newest else None
    if front is None:
        return None
    own = next((place for place in front.places if place.candidate_id == candidate.id), None)
    return None if own is None else (front, own)


def named_candidate(project: Project, store: Store, name: str) -> Candidate:
    """The candidate whose id begins with this.

    Raises:
        InputError: There is none, or there are several.
    """
    matches = store.candidates.find(name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(
            candidate.id[: len(name) + 8] for candidate in matches[:MAX_CANDIDATES_NAMED]
        )
        raise InputError(
            f"{name!r} matches {counted(len(matches), 'candidate')}: {listed}"
            f"{', …' if len(matches) > MAX_CANDIDATES_NAMED else ''}.",
            hint="Give more digits.",
        )
    near = _near(project, store, name)
    raise InputError(
        f"There is no release or candidate {name!r}."
        + (f" Similar candidates: {', '.join(near)}." if near else ""),
        hint="List them: ratchet releases, ratchet candidates --front",
    )


def _near(project: Project, store: Store, name: str) -> list[str]:
    """Ids of the newest run's candidates that resemble a name; otherwise those on its front."""
    run = next(iter(_own_runs(project, store.runs.list())), None)
    placed = run_front(store, run, outcome_of(store, run).metric) if run is not None else None
    if placed is None:
        return []
    others = [place for place in placed.places if place.candidate_id != placed.source_id]
    by_start = {place.candidate_id[: len(name)]: place.candidate_id for place in others}
    alike = [by_start[start] for start in get_close_matches(name, by_start, MAX_CANDIDATES_NAMED)]
    on_front = [place.candidate_id for place in others if place.on_front]
    return [candidate_id[:8] for candidate_id in (alike or on_front)[:MAX_CANDIDATES_NAMED]]


def _own_runs(project: Project, runs: Sequence[Run]) -> list[Run]:
    identity, agent = project.identity(), project.config.agent.label
    return [run for run in runs if (run.project, run.agent) == (identity, agent)]


def _require_of_this_agent(
    project: Project, store: Store, candidate: Candidate, source: Candidate
) -> None:
    """Refuse a candidate made for another agent, or from another version of this one."""
    label = candidate.id[:8]
    queues = store.rollouts.queues_of(candidate.id)
    runs = [run for queue in queues if (run := store.runs.get(queue)) is not None]
    if runs and not _own_runs(project, runs):
        other = runs[0]
        where = "" if other.project == project.identity() else " of another project"
        raise InputError(
            f"Candidate {label} belongs to the agent {other.agent}{where}; this project's agent is"
            f" {project.config.agent.label}.",
            hint="Ship it from its own project's folder.",
        )
    kinds = {name: kind_of(resource) for name, resource in source.resources.items()}
    own_kinds = {name: kind_of(resource) for name, resource in candidate.resources.items()}
    if own_kinds != kinds:
        raise InputError(
            f"Candidate {label} belongs to another agent: it sets {_listed(own_kinds)}, but this "
            "agent has"
            f" {_listed(kinds)}.",
            hint="List this agent's: ratchet candidates --front",
        )
    origins = store.candidates.origins(candidate)
    if source.id not in {origin.id for origin in origins}:
        changed = sorted({name for origin in origins for name in source.changed_from(origin)})
        raise InputError(
            f"Candidate {label} was learned from another version of the source:"
            f" {', '.join(changed) or 'the agent'} changed since, and shipping it would undo that.",
            hint="Learn from the current source: ratchet improve",
        )


def _require_unproved(
    project: Project, store: Store, candidate: Candidate, source: Candidate, objective: str
) -> None:
    """Refuse a candidate whose held-out scores are known: they must not select it for proof."""
    stream = stream_of(project.identity(), project.config.agent.label, objective)
    for experiment in store.experiments.history():
        is_its_proof = (
            experiment.candidate_id == candidate.id
            and experiment.baseline_id == source.id
            and experiment.stream == stream
            and experiment.decision is not None
        )
        # Its own run, begun by the same command, goes on or tells again how it ended.
        chosen = store.journal.get(experiment.run_id, CHOSEN, {})
        if is_its_proof and chosen.get("candidate") != candidate.id:
            decided = experiment.decision
            assert decided is not None
            raise InputError(
                f"Candidate {candidate.id[:8]} was already compared on test tasks, in run "
                f"{experiment.run_id[:8]}:"
                f" {decided.sentence}",
                hint="Add test tasks, and ratchet improve will continue with it."
                if decided.verdict == "not_proved"
                else "A second try on the same tasks would prove nothing. See other candidates: "
                "ratchet"
                " candidates --front",
            )


def _listed(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items())) or "nothing"
