"""Applies the refinement proposals that a person or a policy accepts, as a new version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet.curate.refinement.proposals import Ground, RefinementProposal
from ratchet.types import Dataset, InputError, NotFound

CONFIDENT = 0.95
"""Minimum confidence for the policy `confident`."""

POLICIES: dict[str, tuple[Ground, ...]] = {
    "duplicates": ("duplicate",),
    "near-duplicates": ("near-duplicate",),
    "wrong-labels": ("wrong label",),
    "uninformative": ("uninformative",),
    "core-set": ("core set",),
}
"""Grounds of the proposals that a policy accepts."""


def accept(
    dataset: Dataset,
    proposals: Sequence[RefinementProposal],
    *,
    relabel: Mapping[str, Any] | None = None,
    remove: Sequence[str] = (),
) -> Dataset:
    """Apply proposals and a person's own decisions.

    Args:
        dataset: The dataset.
        proposals: Those that were accepted; see `select`.
        relabel: Expected answer by task id, as a person decided.
        remove: Ids of tasks that a person removes.

    Returns:
        The new version, whose parent is this one. Applying nothing returns the dataset itself.

    Raises:
        NotFound: A task id is unknown.
        InputError: No task of a split would be left.
    """
    tasks = {task.id: task for task in dataset.tasks}
    for id in [*(relabel or {}), *remove]:
        if id not in tasks:
            raise NotFound(f"The dataset {dataset.name!r} has no task {id!r}.")
    gone = set(remove)
    answers: dict[str, Any] = {}
    for proposal in proposals:
        if proposal.kind == "remove":
            gone.update(proposal.tasks)
        elif proposal.kind == "relabel":
            answers.update(dict.fromkeys(proposal.tasks, proposal.expected))
    answers.update(relabel or {})
    gone -= (relabel or {}).keys()
    changed = [id for id in answers if id not in gone]
    remaining = tuple(
        msgspec.structs.replace(task, expected=answers[task.id]) if task.id in answers else task
        for task in dataset.tasks
        if task.id not in gone
    )
    if not gone and not changed:
        return dataset
    splits = {task.id: dataset.splits[task.id] for task in remaining}
    for split in dict.fromkeys(dataset.splits.values()):
        if split not in splits.values():
            raise InputError(
                f"No task would be left in the {split} split of {dataset.name!r}.",
                hint="Accept fewer proposals: name their ids.",
            )
    parts = [f"{len(gone)} removed"] if gone else []
    parts += [f"{len(changed)} relabelled"] if changed else []
    return msgspec.structs.replace(
        dataset,
        tasks=remaining,
        splits=splits,
        parent=dataset.version,
        reason=f"Refined: {', '.join(parts)}.",
    )


def core_dataset(dataset: Dataset, proposal: RefinementProposal) -> Dataset:
    """The dataset NAME-core: the tasks of a core set, and all test tasks."""
    core = set(proposal.tasks)
    tasks = tuple(t for t in dataset.tasks if t.id in core or dataset.splits[t.id] == "test")
    return msgspec.structs.replace(
        dataset,
        name=f"{dataset.name}-core",
        tasks=tasks,
        splits={task.id: dataset.splits[task.id] for task in tasks},
        parent=dataset.version,
        reason=f"Core set of {len(core)} train and val tasks of {dataset.name!r}.",
    )


def select(
    proposals: Sequence[RefinementProposal], names: Sequence[str]
) -> list[RefinementProposal]:
    """Select proposals by id or policy.

    Args:
        proposals: All proposals.
        names: Starts of ids; `all`: every removal and relabelling; `confident`: those with a
            confidence of at least `CONFIDENT`; or a key of `POLICIES`.

    Raises:
        NotFound: A name matches nothing, or several ids.
        InputError: The proposal is a question, which cannot be accepted.
    """
    changes = [proposal for proposal in proposals if proposal.kind in ("remove", "relabel")]
    selected: dict[str, RefinementProposal] = {}
    for name in names:
        if name == "all":
            some = changes
        elif name == "confident":
            some = [p for p in changes if p.confidence is not None and p.confidence >= CONFIDENT]
        elif name in POLICIES:
            some = [p for p in proposals if p.ground in POLICIES[name] and p.kind != "review"]
        else:
            some = [_by_id(proposals, name)]
        selected.update((proposal.id, proposal) for proposal in some)
    return list(selected.values())


def _by_id(proposals: Sequence[RefinementProposal], name: str) -> RefinementProposal:
    matching = [proposal for proposal in proposals if name and proposal.id.startswith(name)]
    if len(matching) != 1:
        how = "no proposal" if not matching else f"{len(matching)} proposals"
        raise NotFound(
            f"{name!r} matches {how}.",
            hint=f"Give an id, or one of: all, confident, {', '.join(POLICIES)}.",
        )
    if matching[0].kind == "review":
        raise InputError(
            f"Proposal {matching[0].id} is a question, so accepting it has no effect.",
            hint="Answer it: --relabel TASK=ANSWER, or --remove TASK.",
        )
    return matching[0]
