"""Captures tasks from recorded traces: selects them, takes inputs and answers, drops copies.

It reads page by page, newest first, so its memory depends on the tasks that it finds and not on the
spans that it reads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ratchet.curate.near_duplicates import near_duplicate_groups
from ratchet.curate.recorded_values import Incomplete, input_of, output_of, user_of
from ratchet.curate.similar_inputs import CLUSTER, SimilarInputs
from ratchet.curate.split import input_key, split_tasks, text_of
from ratchet.types import (
    Dataset,
    Feedback,
    InputError,
    Label,
    Origin,
    Rollout,
    Score,
    Split,
    Task,
    content_hash,
)
from ratchet.types.feedback import is_bad
from ratchet.types.trace import EVERY_TRACE, Trace, TraceFilter, TraceRecording

if TYPE_CHECKING:
    from ratchet.client import Client
    from ratchet.store import Store

PASSES_FROM = 0.5
"""Feedback or a person's label of at least this means that an answer is right."""

PROVES = "prove/"
"""Prefix of the purpose of experiments' rollouts."""

ALREADY_A_TASK = "its input is a task already"
"""Prefix of the reason if the dataset has a trace's input."""

_REMEMBERED = 2_000
"""Answers that passed, for older failed attempts at the same input."""


class CaptureFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which traces become tasks; unset fields select everything."""

    traces: TraceFilter = EVERY_TRACE
    trace_ids: frozenset[str] | None = None
    """Only these."""
    feedback: Literal["any", "good", "bad"] | None = None
    evaluator: str | None = None
    """Only rollouts, including imported trajectories, with a score by this evaluator."""
    score_above: float | None = None
    score_below: float | None = None
    novelty: float | None = None
    """Only inputs with at least this share of words that no task's input has, in [0, 1]."""
    per_cluster: int | None = None
    """Maximum number of tasks from a cluster of similar inputs."""


class CapturedTask(msgspec.Struct, frozen=True):
    """A task made from a trace."""

    task: Task
    trace: Trace
    change: Literal["added", "answered"] = "added"
    """answered: the dataset had the task without an expected answer."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a capture."""

    dataset: Dataset
    """The new version; the old one when nothing was captured."""
    tasks: tuple[CapturedTask, ...]
    examined: int
    """Number of traces that were read or filtered."""
    left_out: dict[str, int]
    """Number of selected traces that did not become tasks, by reason."""


def capture(
    source: Store | Client,
    dataset: Dataset,
    criteria: CaptureFilter,
    *,
    limit: int,
    fractions: Mapping[Split, float],
    now: float,
    group_by: str | None = "conversation",
    on_page: Callable[[int, int], None] = lambda examined, captured: None,
) -> Capture:
    """Make tasks from recorded traces and add them to a dataset.

    The expected answer is that of a correction; or of a later attempt at the same input that passed
    by feedback or a person's label; or the recorded answer itself where a person labelled it right;
    or the rollout's own expected answer. Otherwise it is left open.

    Tasks of the dataset stay in their splits. A new task joins the split of its group: inputs that
    say nearly the same, and tasks of the same conversation.

    Args:
        source: Where the traces are, a store or a server.
        dataset: The dataset to add to; one without tasks to begin.
        criteria: Which traces.
        limit: Maximum number of tasks, of the newest traces.
        fractions: Share of the groups for each split.
        now: Unix seconds, for the tasks' origin.
        group_by: See `split_tasks`.
        on_page: Called after each page with the numbers of traces examined and of tasks found.
    """
    search = _Search(source, dataset, criteria, limit, now)
    cursor: str | None = None
    while not search.is_full:
        page, examined, cursor = source.recordings.page(
            search.read_filter, wanted=search.wants, cursor=cursor
        )
        search.examined += examined
        search.add(page)
        on_page(search.examined, len(search.found))
        if cursor is None:
            break
    return search.result(fractions, group_by)


class _Search:
    """A capture in progress."""

    def __init__(
        self,
        source: Store | Client,
        dataset: Dataset,
        criteria: CaptureFilter,
        limit: int,
        now: float,
    ) -> None:
        self._source = source
        self._dataset = dataset
        self._criteria = criteria
        self._limit = limit
        self._now = now
        # Attempts that passed must be read too: feedback and errors are filtered here.
        self.read_filter = msgspec.structs.replace(
            criteria.traces,
            errors=False,
            feedback=False,
            rollouts=criteria.traces.rollouts or criteria.evaluator is not None,
            own_calls=criteria.traces.agent is not None,
        )
        self._known = {input_key(task.input): task for task in dataset.tasks}
        self._ids = {task.id for task in dataset.tasks}
        self._labels = _by_subject(source.labels.list(criterion=""))
        self._passed: OrderedDict[bytes, tuple[Any, str]] = OrderedDict()
        self._similar = SimilarInputs() if self._needs_clusters else None
        if self._similar is not None:
            for task in dataset.tasks:
                self._similar.add(text_of(task.input))
        self.found: dict[bytes, CapturedTask] = {}
        self.examined = 0
        self.left_out: Counter[str] = Counter()

    @property
    def _needs_clusters(self) -> bool:
        return self._criteria.novelty is not None or self._criteria.per_cluster is not None

    @property
    def is_full(self) -> bool:
        """Whether the requested number of tasks is found."""
        return len(self.found) >= self._limit

    def wants(self, trace: Trace) -> bool:
        """Whether to read a trace: it is selected so far, or it passed."""
        return self._selected(trace) or self._may_pass(trace)

    def _selected(self, trace: Trace) -> bool:
        ids = self._criteria.trace_ids
        return self._criteria.traces.fits(trace) and (ids is None or trace.trace_id in ids)

    def _may_pass(self, trace: Trace) -> bool:
        label = self._label(trace)
        good = trace.worst is not None and trace.worst >= PASSES_FROM
        return not trace.errors and (good or (label is not None and label.value >= PASSES_FROM))

    def _label(self, trace: Trace) -> Label | None:
        return self._labels.get(trace.rollout_id or "-") or self._labels.get(trace.trace_id)

    def add(self, page: Iterable[TraceRecording]) -> None:
        """Take the tasks of a page."""
        recordings = list(page)
        attempted = sorted({recording.trace.rollout_id for recording in recordings} - {""})
        rollouts = self._source.rollouts.get(attempted)
        scored = self._criteria.evaluator is not None
        scores = self._source.scores.of(attempted) if scored else {}
        for recording in recordings:
            if self.is_full:
                return
            id = recording.trace.rollout_id
            self._take(recording, rollouts.get(id), scores.get(id, []))

    def _take(
        self, recording: TraceRecording, rollout: Rollout | None, scores: list[Score]
    ) -> None:
        trace = recording.trace
        selected = self._selected(trace) and self._selects(recording, scores)
        if rollout is not None and rollout.purpose.startswith(PROVES):
            self._leave(selected, "it ran in an experiment, whose tasks learning must not see")
            return
        try:
            input = rollout.input if rollout is not None else input_of(recording)
        except Incomplete:
            self._leave(selected, "its input was recorded in part only")
            return
        if input is None:
            self._leave(selected, "no input was recorded")
            return
        try:
            key = input_key(input)
        except InputError:
            self._leave(selected, "its input is not JSON")
            return
        expected, by, sources = self._expected(recording, rollout, key)
        if self._may_pass(trace):
            self._remember(recording, rollout, key)
        if not selected:
            return
        origin = Origin(made="captured", by=by, sources=sources, at=self._now)
        if key in self._known:
            self._meet(self._known[key], key, trace, expected, origin)
        elif key in self.found:
            self._meet(self.found[key].task, key, trace, expected, origin)
        elif self._is_new(input):
            task = Task(self._new_id(input), input, expected, _metadata(recording, rollout), origin)
            self._ids.add(task.id)
            self.found[key] = CapturedTask(task, trace)

    def _selects(self, recording: TraceRecording, scores: list[Score]) -> bool:
        criteria = self._criteria
        bad = any(is_bad(item) for item in recording.feedback)
        if criteria.feedback is not None and not recording.feedback:
            return False
        if criteria.feedback in ("good", "bad") and bad is (criteria.feedback == "good"):
            return False
        if criteria.evaluator is None:
            return True
        values = [
            score.value
            for score in scores
            if score.evaluator == criteria.evaluator and score.value is not None
        ]
        if not values:
            return False
        value = values[-1]
        above = criteria.score_above is None or value >= criteria.score_above
        return above and (criteria.score_below is None or value <= criteria.score_below)

    def _expected(
        self, recording: TraceRecording, rollout: Rollout | None, key: bytes
    ) -> tuple[Any, str, tuple[str, ...]]:
        """The expected answer, how it is known, and its source."""
        trace = recording.trace
        own = (trace.trace_id,)
        for item in recording.feedback:
            if _is_correction(item, trace):
                return item.content, "correction", (*own, item.id)
        if rollout is not None and rollout.expected is not None:
            return rollout.expected, "recorded expected answer", (*own, rollout.id)
        label = self._label(trace)
        if label is not None and label.value >= PASSES_FROM:
            output = self._output(recording, rollout)
            if output is not None:
                return output, "label", (*own, label.id)
        if not self._may_pass(trace) and key in self._passed:
            output, retry = self._passed[key]
            return output, "passing retry", (*own, retry)
        return None, "trace", own

    def _remember(self, recording: TraceRecording, rollout: Rollout | None, key: bytes) -> None:
        output = self._output(recording, rollout)
        if output is None:
            return
        self._passed[key] = (output, recording.trace.trace_id)
        self._passed.move_to_end(key)
        while len(self._passed) > _REMEMBERED:
            self._passed.popitem(last=False)

    def _output(self, recording: TraceRecording, rollout: Rollout | None) -> Any:
        if rollout is not None:
            return rollout.output
        try:
            return output_of(recording)
        except Incomplete:
            return None

    def _meet(self, task: Task, key: bytes, trace: Trace, expected: Any, origin: Origin) -> None:
        """Take the answer for an existing task from another trace."""
        if expected is None:
            self._leave(True, ALREADY_A_TASK)
        elif task.expected is not None:
            same = task.expected == expected
            self._leave(
                True,
                ALREADY_A_TASK if same else f"{ALREADY_A_TASK}, with another expected answer",
            )
        else:
            sources = tuple(dict.fromkeys((*task.origin.sources, *origin.sources)))
            answered = msgspec.structs.replace(
                task,
                expected=expected,
                origin=msgspec.structs.replace(task.origin, by=origin.by, sources=sources),
            )
            change: Literal["added", "answered"] = "answered"
            if key in self._known:
                self._known[key] = answered
            else:
                change = "added"
            self.found[key] = CapturedTask(answered, trace, change)

    def _is_new(self, input: Any) -> bool:
        if self._similar is None:
            return True
        text = text_of(input)
        cluster, share = self._similar.nearest(text)
        novelty, most = self._criteria.novelty, self._criteria.per_cluster
        if novelty is not None and 1.0 - share < novelty:
            self.left_out["it is not novel"] += 1
            return False
        if most is not None and share >= CLUSTER and self._similar.sizes[cluster or 0] >= most:
            self.left_out["its cluster has enough tasks"] += 1
            return False
        self._similar.add(text)
        return True

    def _new_id(self, input: Any) -> str:
        digest = content_hash(input)
        length = 12
        while digest[:length] in self._ids:
            length += 4
        return digest[:length]

    def _leave(self, selected: bool, why: str) -> None:
        if selected:
            self.left_out[why] += 1

    def result(self, fractions: Mapping[Split, float], group_by: str | None) -> Capture:
        """The dataset with the captured tasks, without near-duplicates."""
        base = self._dataset
        answered = {
            captured.task.id: captured.task
            for captured in self.found.values()
            if captured.change == "answered"
        }
        tasks = [answered.get(task.id, task) for task in base.tasks]
        added = [captured for captured in self.found.values() if captured.change == "added"]
        groups = near_duplicate_groups(
            [
                *(text_of(task.input) for task in tasks),
                *(text_of(captured.task.input) for captured in added),
            ]
        )
        first = len(tasks)
        # Of new copies one is kept: one with an expected answer, if there is any.
        best: dict[int, CapturedTask] = {}
        for group, captured in zip(groups[first:], added, strict=True):
            chosen = best.get(group)
            if group < first:
                continue
            if chosen is None or (
                chosen.task.expected is None and captured.task.expected is not None
            ):
                best[group] = captured
        new = list(best.values())
        if len(new) < len(added):
            self.left_out["it says nearly the same as another task"] += len(added) - len(new)
        captured_tasks = (
            *(captured for captured in self.found.values() if captured.change == "answered"),
            *new,
        )
        left_out = dict(self.left_out.most_common())
        if not captured_tasks:
            return Capture(dataset=base, tasks=(), examined=self.examined, left_out=left_out)
        split = split_tasks(
            [*tasks, *(captured.task for captured in new)],
            name=base.name,
            fractions=fractions,
            group_by=group_by,
            fixed=base.splits,
        )
        dataset = msgspec.structs.replace(
            split,
            provenance="captured" if not base.tasks else base.provenance,
            parent=base.version if base.tasks else "",
            reason=_reason(len(new), len(answered), self._criteria),
        )
        return Capture(
            dataset=dataset, tasks=captured_tasks, examined=self.examined, left_out=left_out
        )


def _is_correction(item: Feedback, trace: Trace) -> bool:
    """Whether feedback or a label gives the right answer of this very trace."""
    if item.kind != "correction" or item.content is None:
        return False
    # A correction of a whole conversation does not say of which turn.
    return item.trace_id == trace.trace_id or bool(item.rollout_id)


def _by_subject(labels: Iterable[Label]) -> dict[str, Label]:
    """The newest label of each rollout and trace."""
    return {label.rollout_id or label.trace_id: label for label in labels}


def _metadata(recording: TraceRecording, rollout: Rollout | None) -> dict[str, Any]:
    metadata = dict(rollout.metadata) if rollout is not None else {}
    if recording.trace.conversation_id:
        metadata.setdefault("conversation", recording.trace.conversation_id)
    if user := user_of(recording):
        metadata.setdefault("user", user)
    return metadata


def _reason(added: int, answered: int, criteria: CaptureFilter) -> str:
    parts = []
    if added:
        parts.append(f"{added} task{'' if added == 1 else 's'} captured")
    if answered:
        parts.append(f"{answered} expected answer{'' if answered == 1 else 's'} captured")
    agent = f" from traces of {criteria.traces.agent}" if criteria.traces.agent else " from traces"
    return " and ".join(parts) + agent
