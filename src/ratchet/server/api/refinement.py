"""Changes to a dataset: proposals from results or a synthesis, and a person's own edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from ratchet.server.api.datasets import NewTask, task_of
from ratchet.server.api.fields import JsonObject, Request
from ratchet.server.http_problems import HttpProblem
from ratchet.server.routes import DEVELOP, READ, RouteGroup
from ratchet.server.services import Services
from ratchet.store import Store
from ratchet.types import Dataset, InputError, Split, Task, content_hash
from ratchet.types.wording import counted

if TYPE_CHECKING:
    from ratchet.curate.refinement import Refinement

group = RouteGroup("datasets")

TaskId = Annotated[str, Meta(min_length=1, max_length=500)]
ProposalId = Annotated[str, Meta(min_length=4, max_length=100)]


class EditedTask(Request, frozen=True, kw_only=True):
    """The new content of a task; its split stays."""

    id: TaskId
    input: Any
    expected: Any = None
    metadata: JsonObject = {}


class DatasetChanges(Request, frozen=True, kw_only=True):
    """Changes that together make a new version."""

    version: Annotated[str, Meta(min_length=1, max_length=100)]
    """The version to change, which must be the latest."""
    accept: Annotated[list[ProposalId], Meta(max_length=1000)] = []
    """Ids of proposals."""
    edit: Annotated[list[EditedTask], Meta(max_length=1000)] = []
    """Tasks with another input, answer or metadata."""
    remove: Annotated[list[TaskId], Meta(max_length=1000)] = []
    """Ids of tasks."""
    add: Annotated[list[NewTask], Meta(max_length=1000)] = []
    """New tasks, such as those that a synthesis proposed."""
    split: Split = "train"
    """Split of the new tasks."""


class DatasetChanged(msgspec.Struct, frozen=True):
    """The dataset after the changes."""

    version: str
    before: str
    """The previous version; publish it again to undo the changes."""
    reason: str
    """What was changed, in a sentence."""


class ProposedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change that the results propose, or one question to a person."""

    id: str
    kind: str
    """`remove`, `relabel`, `review` (a question) or `core set`."""
    ground: str
    """The kind of finding, such as `duplicate` or `wrong label`."""
    tasks: list[str]
    reason: str
    expected: Any = None
    """The new answer of a relabelled task."""
    confidence: float | None = None
    """Probability that the change is right; null when unknown."""


SHOWN_TRACES = 50
"""Maximum number of traces listed for a kind of live input."""


class LiveCluster(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of live input."""

    words: list[str]
    """Words that distinguish it."""
    live: float
    """Share of the live inputs that are of this kind."""
    tasks: int
    """Number of the dataset's tasks of this kind."""
    gap: bool
    """Whether the dataset has too few tasks of this kind."""
    of_tasks: list[int]
    """Indexes of the dataset's tasks of this kind."""
    inputs: int = 0
    """Number of live inputs of this kind."""
    traces: list[str] = []
    """The newest traces with an input of this kind."""


class LiveCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The dataset compared with live traffic."""

    inputs: int
    """Number of live inputs."""
    distance: float
    """Difference between the shares of traffic and dataset: 0 identical, 1 disjoint (total
    variation)."""
    drift: float
    """Difference between the older and the newer half of the traffic (total variation)."""
    drift_p: float
    clusters: list[LiveCluster]
    """The most frequent first."""


class DatasetRefinement(msgspec.Struct, frozen=True, kw_only=True):
    """What the results of all candidates say about a dataset."""

    version: str
    evaluator: str
    candidates: int
    """Number of candidates that were scored."""
    proposals: list[ProposedChange]
    coverage: LiveCoverage | None
    """Null when there are too few live inputs."""
    notes: list[str]
    """What could not be determined, and why."""


@group.route("GET", "/v1/datasets/{name}/refinement", READ)
async def refine_dataset(server: Services, name: str) -> DatasetRefinement:
    """Get what the results of all candidates say about the latest version of a dataset.

    As `ratchet datasets refine`: duplicates, contradictions, likely wrong labels, tasks that no
    longer tell candidates apart, a core set, and how well it covers live traffic.
    """

    def read() -> DatasetRefinement:
        refinement, traces = _refined(server.store, latest_of(server.store, name))
        answer = msgspec.convert(msgspec.to_builtins(refinement), DatasetRefinement)
        if refinement.coverage is None or answer.coverage is None:
            return answer
        clusters = [
            msgspec.structs.replace(
                answer_cluster,
                inputs=len(cluster.of_live),
                traces=[traces[place] for place in reversed(cluster.of_live[-SHOWN_TRACES:])],
            )
            for answer_cluster, cluster in zip(
                answer.coverage.clusters, refinement.coverage.clusters, strict=True
            )
        ]
        coverage = msgspec.structs.replace(answer.coverage, clusters=clusters)
        return msgspec.structs.replace(answer, coverage=coverage)

    try:
        return await server.in_thread(read)
    except InputError as error:
        raise HttpProblem(422, error.message, field="name") from None


@group.route("POST", "/v1/datasets/{name}/changes", DEVELOP, audited=True)
async def change_dataset(server: Services, name: str, body: DatasetChanges) -> DatasetChanged:
    """Accept proposals, edit, remove and add tasks; together they make one new version."""
    return await server.in_thread(_changed, server.store, name, body)


def latest_of(store: Store, name: str) -> Dataset:
    dataset = store.datasets.latest(name)
    if dataset is None:
        raise HttpProblem(404, f"There is no dataset {name[:100]!r}.", field="name")
    return dataset


def _refined(store: Store, dataset: Dataset) -> tuple[Refinement, list[str]]:
    """The findings on a dataset, and the traces of the live inputs it was compared with."""
    from ratchet.curate.refinement import inputs_of_traces, read_results, refine

    live = inputs_of_traces(store)
    refinement = refine(dataset, read_results(store, dataset, None), [value for _, value in live])
    return refinement, [trace for trace, _ in live]


def _changed(store: Store, name: str, body: DatasetChanges) -> DatasetChanged:
    from ratchet.curate.refinement import accept, select

    dataset = latest_of(store, name)
    if body.version != dataset.version:
        raise HttpProblem(
            409,
            f"The latest version of {name!r} is {dataset.version[:12]}, not {body.version[:12]}."
            " Load the latest version and make the changes there.",
            field="version",
        )
    try:
        proposals = (
            select(_refined(store, dataset)[0].proposals, body.accept) if body.accept else []
        )
        draft = accept(dataset, proposals, remove=body.remove)
    except InputError as error:
        raise HttpProblem(422, error.message) from None
    draft = _edited(draft, dataset, body.edit)
    draft = _grown(draft, dataset, [task_of(new) for new in body.add], body.split)
    if draft is dataset:
        return DatasetChanged(dataset.version, dataset.version, "Nothing was changed.")
    return DatasetChanged(store.datasets.put(draft), dataset.version, draft.reason)


def _edited(draft: Dataset, before: Dataset, edits: list[EditedTask]) -> Dataset:
    """Replace tasks; an edit that changes nothing does not count."""
    by_id = {task.id: task for task in draft.tasks}
    splits = {content_hash(task.input): draft.splits[task.id] for task in draft.tasks}
    changed: dict[str, Task] = {}
    for edit in edits:
        task = by_id.get(edit.id)
        if task is None:
            raise HttpProblem(404, f"The dataset has no task {edit.id!r}.", field="edit")
        own = draft.splits[edit.id]
        _refuse_straddling(splits, edit.id, edit.input, own, field="edit")
        new = msgspec.structs.replace(
            task, input=edit.input, expected=edit.expected, metadata=edit.metadata
        )
        if new.content() != task.content():
            changed[edit.id] = new
    if not changed:
        return draft
    names = ", ".join(sorted(changed)) if len(changed) <= 3 else counted(len(changed), "task")
    tasks = tuple(changed.get(task.id, task) for task in draft.tasks)
    return _because(draft, before, f"Edited: {names}.", tasks=tasks)


def _grown(draft: Dataset, before: Dataset, added: list[Task], split: Split) -> Dataset:
    """Add tasks to a split; no other split may have their inputs."""
    if not added:
        return draft
    splits = {content_hash(task.input): draft.splits[task.id] for task in draft.tasks}
    ids = {task.id for task in draft.tasks}
    for task in added:
        if task.id in ids:
            raise HttpProblem(422, f"The dataset already has a task {task.id!r}.", field="add")
        ids.add(task.id)
        _refuse_straddling(splits, task.id, task.input, split, field="add")
    ways = Counter(task.origin.by.partition(";")[0].partition(":")[0] for task in added)
    by = ", ".join(f"{count} by {way}" for way, count in ways.items() if way)
    number = counted(len(added), "task")
    return _because(
        draft,
        before,
        f"Added to {split}: {number}{f' ({by})' if by else ''}.",
        tasks=(*draft.tasks, *added),
        splits={**draft.splits, **{task.id: split for task in added}},
    )


def _refuse_straddling(
    splits: Mapping[str, Split], id: str, task_input: Any, own: Split, *, field: str
) -> None:
    """Refuse an input that another split has.

    Raises:
        HttpProblem: Another split has it (422).
    """
    if splits.get(content_hash(task_input), own) != own:
        raise HttpProblem(
            422,
            f"Another split already has the input of {id!r}: a proof needs tasks that learning "
            "never saw.",
            field=field,
        )


def _because(draft: Dataset, before: Dataset, why: str, **changes: Any) -> Dataset:
    reasons = [] if draft is before else [draft.reason]
    return msgspec.structs.replace(
        draft, **changes, parent=before.version, reason=" ".join([*reasons, why])[:1000]
    )
