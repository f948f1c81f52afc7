"""Release commits: write their messages, and recognise them later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from ratchet.ship.config_values import ConfigSlot, ConfigSource, find_value, keys_of
from ratchet.ship.edit import PatchTarget, values_of
from ratchet.ship.headline import headline
from ratchet.ship.literal_patch import (
    TextSlot,
    TextSource,
    holds_edit,
    literal_at,
    read_text_source,
)
from ratchet.ship.repository import Blob, Repository
from ratchet.ship.source_file import SourceFile, read_source
from ratchet.ship.source_slots import SourceSlot, find_slots
from ratchet.source.literals.data_values import same_value
from ratchet.types import Candidate, Decision, PromptTemplate, Release, ShipError
from ratchet.types.interval_text import interval_ends
from ratchet.types.wording import counted

_CANDIDATE = "Ratchet-Candidate"
_BASELINE = "Ratchet-Baseline"
_EXPERIMENT = "Ratchet-Experiment"
_RESOURCE = "Ratchet-Resource"
_ROLLBACK = "Ratchet-Rollback"


FoundSlot: TypeAlias = tuple[
    SourceFile | TextSource | ConfigSource, SourceSlot | TextSlot | ConfigSlot
]
"""A slot and the file that it is in."""


@dataclass(frozen=True)
class SlotChange:
    """A slot that a release commit rewrote."""

    target: PatchTarget
    key: str
    base: FoundSlot
    """Before the commit."""
    commit: FoundSlot
    """After it."""


def release_message(
    baseline: Candidate,
    candidate: Candidate,
    decision: Decision,
    experiment_id: str,
    targets: Sequence[PatchTarget],
) -> str:
    """The release commit's message: the measured gain, and trailers that identify the release."""
    names = ", ".join(dict.fromkeys(_one_line(target.name) for target in targets))
    gain = decision.candidate - decision.baseline
    low, high = interval_ends(*decision.interval, 4)
    subject = headline(names, _one_line(decision.metric), decision)
    runs = f" of means of {decision.repetitions} runs" if decision.repetitions > 1 else ""
    body = (
        f"{_one_line(decision.metric)}: {decision.baseline:.4f} -> {decision.candidate:.4f} over"
        f" {counted(decision.pairs, 'pair')}{runs}.\n"
        f"Gain {gain:+.4f}, interval [{low}, {high}] at level"
        f" {1 - decision.alpha:.4g}.\n"
        f"e-value {decision.e_value:.4g} (needed: {1 / decision.alpha:.4g})."
    )
    trailers = [
        f"{_CANDIDATE}: {candidate.id}",
        f"{_BASELINE}: {baseline.id}",
        f"{_EXPERIMENT}: {_one_line(experiment_id)}",
        *_resource_trailers(targets),
    ]
    return f"{subject}\n\n{body}\n\n" + "\n".join(trailers) + "\n"


def rollback_message(release: Release, targets: Sequence[PatchTarget], note: str) -> str:
    """Message of the rollback commit."""
    names = ", ".join(dict.fromkeys(_one_line(target.name) for target in targets))
    paragraph = f"\n\n{note}" if note else ""
    trailers = [f"{_ROLLBACK}: {release.id}", *_resource_trailers(targets)]
    return (
        f"Roll back {names}\n\nRestores the source from before {release.commit}.{paragraph}\n\n"
        + "\n".join(trailers)
        + "\n"
    )


def is_release_of(
    repository: Repository, commit: str, baseline: Candidate, candidate: Candidate
) -> bool:
    """Whether a commit is a release of this candidate and changes nothing else."""
    trailers = _trailers(repository.message(commit))
    if trailers.get(_CANDIDATE) != [candidate.id] or trailers.get(_BASELINE) != [baseline.id]:
        return False
    if not _is_confined(repository, commit):
        return False
    try:
        changes = changes_of(repository, repository.parents(commit)[0], commit)
    except ShipError:
        return False
    actual = {(c.target.name, c.key): c.commit[1].value for c in changes if not c.target.language}
    texts = {c.target.name: c for c in changes if c.target.language}
    expected = {
        (name, key): value
        for name in candidate.changed_from(baseline)
        if name not in texts
        for key, value in values_of(candidate.resources[name]).items()
        if not same_value(value, values_of(baseline.resources[name]).get(key))
    }
    return (
        actual.keys() == expected.keys()
        and all(_same_ends_aside(actual[k], expected[k]) for k in actual)
        and all(_is_text_of(change, baseline, candidate) for change in texts.values())
    )


def _same_ends_aside(actual: Any, expected: Any) -> bool:
    """Whether values are equal, ignoring white space at the ends of texts, since it may be
    stripped."""
    if isinstance(actual, str) and isinstance(expected, str):
        return actual.strip() == expected.strip()
    return same_value(actual, expected)


def _is_text_of(change: SlotChange, baseline: Candidate, candidate: Candidate) -> bool:
    """Whether a literal's change is one that a prompt's patch makes."""
    name = change.target.name
    old, new = baseline.resources.get(name), candidate.resources.get(name)
    source, slot = change.base[0], change.commit[1]
    if not isinstance(old, PromptTemplate) or not isinstance(new, PromptTemplate):
        return False
    if not isinstance(source, TextSource) or not isinstance(slot, TextSlot):
        return False
    return holds_edit(source, slot, change.target, old, new)


def is_rollback_of(repository: Repository, commit: str, release: Release) -> bool:
    """Whether a commit is the rollback of this release and changes nothing else."""
    trailers = _trailers(repository.message(commit))
    return trailers.get(_ROLLBACK) == [release.id] and _is_confined(repository, commit)


def targets_of(repository: Repository, commit: str) -> tuple[PatchTarget, ...]:
    """The resources that a release commit changed, from its trailers.

    Raises:
        ShipError: It is not a release commit.
    """
    resource_lines = _trailers(repository.message(commit)).get(_RESOURCE, [])
    try:
        targets = tuple(PatchTarget(**json.loads(item)) for item in resource_lines)
    except (ValueError, TypeError):
        targets = ()
    if not targets:
        raise ShipError(f"Commit {commit} does not name the resources it changed.")
    return targets


def changes_of(repository: Repository, base: str, commit: str) -> list[SlotChange]:
    """Changes of a release commit, by slot.

    Raises:
        ShipError: The commits do not hold the resources they name.
    """
    changes: list[SlotChange] = []
    for target in targets_of(repository, commit):
        old = slots_at(repository, base, target, target.before)
        new = slots_at(repository, commit, target, target.after)
        for key, (source, slot) in new.items():
            if key in old and not same_value(old[key][1].value, slot.value):
                changes.append(SlotChange(target, key, old[key], (source, slot)))
    if not changes:
        raise ShipError(f"Commit {commit} changes no resource.")
    return changes


def slots_at(
    repository: Repository, commit: str, target: PatchTarget, value: str = ""
) -> dict[str, FoundSlot]:
    """The slots of a resource in a commit, and the file that they are in.

    Args:
        repository: The repository.
        commit: The commit.
        target: The resource.
        value: For a prompt that is known by its text: the literal's fingerprint in that commit.

    Raises:
        ShipError: The file or the declaration is missing.
    """
    data = repository.content(commit, target.file)
    if data is None:
        raise ShipError(
            f"{target.file} is not in commit {commit[:12]}.",
            hint="Check whether it was renamed or moved.",
        )
    if target.language:
        file = read_text_source(data, target.file)
        literal = literal_at(file, value)
        return {literal.key: (file, literal)} if literal else {}
    if target.format:
        config = ConfigSource(data, target.file, target.format)
        value_slot = find_value(config, keys_of(target), target.slot)
        return {target.slot: (config, value_slot)} if value_slot else {}
    source = read_source(data, target.file)
    slots = find_slots(source, target.kind, target.name, target.qualname)
    return {key: (source, slot) for key, slot in slots.items()}


def store_release_commit(
    repository: Repository,
    parent: str,
    blobs: Mapping[str, Blob],
    message: str,
    now: float,
    parents: Sequence[str] = (),
) -> str:
    """Store a commit and check that it changes only these files of `parent`.

    Raises:
        ShipError: It changes others, which one of the user's git filters may cause.
    """
    commit = repository.store_commit(parent, blobs, message, now, parents)
    changed = repository.changed_paths(parent, commit)
    if sorted(changed) != sorted(blobs):
        raise ShipError(f"The commit would change {changed}, not {sorted(blobs)}.")
    return commit


def _is_confined(repository: Repository, commit: str) -> bool:
    parents = repository.parents(commit)
    if len(parents) != 1:
        return False
    try:
        files = {target.file for target in targets_of(repository, commit)}
    except ShipError:
        return False
    return set(repository.changed_paths(parents[0], commit)) == files


def _resource_trailers(targets: Sequence[PatchTarget]) -> list[str]:
    return [f"{_RESOURCE}: {json.dumps(_named_fields(target))}" for target in targets]


def _named_fields(target: PatchTarget) -> dict[str, str | None]:
    """A target's fields, without empty strings: those are of other ways to find a resource."""
    return {name: value for name, value in asdict(target).items() if value != ""}


def _trailers(message: str) -> dict[str, list[str]]:
    trailers: dict[str, list[str]] = {}
    for line in message.splitlines():
        name, separator, value = line.partition(": ")
        if separator and name.startswith("Ratchet-"):
            trailers.setdefault(name, []).append(value.strip())
    return trailers


def _one_line(text: str) -> str:
    return " ".join(text.split())
