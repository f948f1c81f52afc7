"""Selects what a model learns from: rollouts that scored well, corrections and preferences."""

from __future__ import annotations

import itertools
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ratchet.observe.dialects import names
from ratchet.store import Store
from ratchet.types import Feedback, InputError, Rollout, Span, Split
from ratchet.types.wording import counted
from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair, recorded_chat

PAGE = 200
"""Rollouts, or items of feedback, that are held in memory together with their spans."""

PROVES = "prove/"
"""Prefix of the purpose of experiments' rollouts."""

SplitOf = Callable[[Sequence[Any]], Sequence[Split]]
"""The split of each input; an input that was never a task may be trained on."""

Item = TypeVar("Item", ChatExample, ChatPair)


class TrainingSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria for what is learned from.

    Raises:
        InputError: A number is out of its range.
    """

    evaluator: str
    """The evaluator whose score counts; larger is better."""
    min_score: float = 0.8
    """Minimum score of a rollout whose answers are learned."""
    best: int | None = None
    """Maximum number of rollouts of a task, best first; None for all."""
    gap: float = 0.2
    """Minimum difference between the scores of a pair."""
    purpose: str = ""
    """Only rollouts whose purpose has this prefix."""
    rollouts: bool = True
    """Whether to learn from rollouts."""
    feedback: bool = True
    """Whether to learn from corrections and preferences."""
    redacted: bool = False
    """Whether to use calls of which a part was redacted."""

    def __post_init__(self) -> None:
        if self.best is not None and self.best < 1:
            raise InputError(f"best must be at least 1 rollout per task, not {self.best}.")
        if not self.gap > 0:
            raise InputError(
                f"The gap between the scores of a pair must be above 0, not {self.gap}."
            )


class ScoredRollout(NamedTuple):
    """A rollout that may be learned from, without its spans."""

    id: str
    task_id: str
    score: float
    split: Split


class Selected:
    """The selected data, and how much was left out.

    Iterating over `examples` or `pairs` reads the store page by page and fills `left_out`.

    Args:
        store: The store.
        selection: What is good enough.
        split_of: The split of inputs. Those of `test` are never selected.
    """

    def __init__(self, store: Store, selection: TrainingSelection, split_of: SplitOf) -> None:
        self._store = store
        self._selection = selection
        self._split_of = split_of
        self.left_out: Counter[str] = Counter()
        """Number of rollouts, calls or items of feedback that were left out, by reason."""

    def examples(self) -> Iterator[tuple[Split, ChatExample]]:
        """Conversations for supervised learning, each once, with `train` or `val`."""
        conversations = itertools.chain(
            self._of_rollouts() if self._selection.rollouts else (),
            self._of_corrections() if self._selection.feedback else (),
        )
        return self._once(conversations)

    def pairs(self) -> Iterator[tuple[Split, ChatPair]]:
        """Pairs for preference learning, each once, with `train` or `val`."""
        pairs = itertools.chain(
            self._of_groups() if self._selection.rollouts else (),
            self._of_feedback() if self._selection.feedback else (),
        )
        return self._once(pairs)

    def _once(self, conversations: Iterator[tuple[Split, Item]]) -> Iterator[tuple[Split, Item]]:
        keys: set[str] = set()
        for split, conversation in conversations:
            key = conversation.key()
            if key in keys:
                self.left_out["it teaches the same as another"] += 1
                continue
            keys.add(key)
            yield split, conversation

    def _of_rollouts(self) -> Iterator[tuple[Split, ChatExample]]:
        selection = self._selection
        of_task: dict[tuple[Split, str], list[ScoredRollout]] = defaultdict(list)
        for rollout in self._scored():
            if rollout.score < selection.min_score:
                self.left_out[f"it scored below {selection.min_score:g}"] += 1
            else:
                of_task[rollout.split, rollout.task_id].append(rollout)
        best: list[ScoredRollout] = []
        for group in of_task.values():
            group.sort(key=lambda rollout: (-rollout.score, rollout.id))
            best += group[: selection.best]
            if selection.best and (more := len(group[selection.best :])):
                better = counted(selection.best, "rollout")
                self.left_out[f"{better} of its task scored as well or better"] += more
        for rollout, spans in self._with_spans(best):
            for example in self._chat(spans):
                yield (
                    rollout.split,
                    msgspec.structs.replace(
                        example, subject=rollout.id, task_id=rollout.task_id, score=rollout.score
                    ),
                )

    def _of_groups(self) -> Iterator[tuple[Split, ChatPair]]:
        """The best and the worst rollout of each task, from where they diverge."""
        of_task: dict[tuple[Split, str], list[ScoredRollout]] = defaultdict(list)
        for rollout in self._scored():
            of_task[rollout.split, rollout.task_id].append(rollout)
        ends: list[ScoredRollout] = []
        for group in of_task.values():
            group.sort(key=lambda rollout: (-rollout.score, rollout.id))
            if group[0].score - group[-1].score < self._selection.gap:
                reason = f"its task's rollouts score within {self._selection.gap:g} of one another"
                self.left_out[reason] += len(group)
            else:
                self.left_out["it is neither the best nor the worst rollout of its task"] += (
                    len(group) - 2
                )
                ends += (group[0], group[-1])
        read = self._with_spans(ends)
        for (best, best_spans), (_, worst_spans) in zip(read, read, strict=True):
            pair = first_difference(self._chat(best_spans), self._chat(worst_spans))
            if pair is None:
                self.left_out[
                    "the best and the worst rollout of its task have no common beginning"
                ] += 2
            else:
                yield (
                    best.split,
                    msgspec.structs.replace(pair, subject=best.id, task_id=best.task_id),
                )

    def _scored(self) -> Iterator[ScoredRollout]:
        """Finished rollouts that may be learned from, page by page."""
        cursor: str | None = None
        while True:
            page, cursor = self._store.rollouts.list(
                purpose=self._selection.purpose or None, limit=PAGE, cursor=cursor
            )
            usable = [rollout for rollout in page if self._may_use(rollout)]
            scores = self._store.scores.of([rollout.id for rollout in usable])
            splits = self._split_of([rollout.input for rollout in usable])
            for rollout, split in zip(usable, splits, strict=True):
                if split == "test":
                    self.left_out["its task is reserved for experiments"] += 1
                    continue
                values = [
                    score.value
                    for score in scores.get(rollout.id, [])
                    if score.evaluator == self._selection.evaluator and not score.unit
                ]
                if not values or values[-1] is None:
                    reason = f"it has no score of {self._selection.evaluator}"
                    self.left_out[reason] += 1
                    continue
                yield ScoredRollout(rollout.id, rollout.task_id, values[-1], split)
            if cursor is None:
                return

    def _may_use(self, rollout: Rollout) -> bool:
        if rollout.purpose.removeprefix("fleet/").startswith(PROVES):
            self.left_out["it ran in an experiment"] += 1
            return False
        if rollout.status != "succeeded":
            self.left_out["it did not succeed"] += 1
            return False
        return True

    def _with_spans(
        self, rollouts: Sequence[ScoredRollout]
    ) -> Iterator[tuple[ScoredRollout, list[Span]]]:
        for start in range(0, len(rollouts), PAGE):
            page = rollouts[start : start + PAGE]
            spans = self._store.spans.of_newest_attempts([rollout.id for rollout in page])
            for rollout in page:
                yield rollout, spans[rollout.id]

    def _chat(self, spans: Sequence[Span], *, truncated: bool = False) -> list[ChatExample]:
        chat = recorded_chat(spans, redacted=self._selection.redacted, truncated=truncated)
        self.left_out += chat.left_out
        if not chat.examples and not chat.left_out:
            self.left_out["no model call was recorded"] += 1
        return chat.examples

    def _of_corrections(self) -> Iterator[tuple[Split, ChatExample]]:
        for item, split, example in self._rated():
            if item.kind != "correction":
                continue
            right = self._corrected(item, example)
            if right is not None:
                yield (
                    split,
                    msgspec.structs.replace(
                        example,
                        messages=(*example.messages[:-1], right),
                        learned=(len(example.messages) - 1,),
                    ),
                )

    def _of_feedback(self) -> Iterator[tuple[Split, ChatPair]]:
        for item, split, example in self._rated():
            if item.kind == "correction":
                chosen, rejected = self._corrected(item, example), example.messages[-1]
            else:
                chosen, rejected = (_said(item.content[key]) for key in ("chosen", "rejected"))
            if chosen is None:
                continue
            if chosen == rejected:
                self.left_out["both answers of the pair are the same"] += 1
                continue
            yield (
                split,
                ChatPair(
                    messages=example.messages[:-1],
                    chosen=chosen,
                    rejected=rejected,
                    tools=example.tools,
                    subject=example.subject,
                    task_id=example.task_id,
                ),
            )

    def _corrected(self, item: Feedback, example: ChatExample) -> ChatMessage | None:
        """The corrected answer; None if the correction was not of the model's answer."""
        if example.messages[-1].get("tool_calls"):
            self.left_out["the corrected answer is not the model's last message"] += 1
            return None
        return _said(item.content)

    def _rated(self) -> Iterator[tuple[Feedback, Split, ChatExample]]:
        """Corrections and preferences, each with the conversation that it is about."""
        cursor: str | None = None
        while True:
            page, cursor = self._store.feedback.list(limit=PAGE, cursor=cursor)
            for item in page:
                if item.kind in ("correction", "preference"):
                    yield from self._about(item)
            if cursor is None:
                return

    def _about(self, item: Feedback) -> Iterator[tuple[Feedback, Split, ChatExample]]:
        rollout = None
        if item.rollout_id:
            rollout = self._store.rollouts.get([item.rollout_id]).get(item.rollout_id)
            spans = self._store.spans.of_newest_attempts([item.rollout_id])[item.rollout_id]
        elif item.trace_id:
            spans = self._store.spans.of_trace(item.trace_id)
        else:
            self.left_out["the feedback is about a conversation, not one answer"] += 1
            return
        if rollout is not None and rollout.purpose.removeprefix("fleet/").startswith(PROVES):
            self.left_out["it ran in an experiment"] += 1
            return
        examples = self._chat(spans, truncated=True)  # another answer takes its place
        if not examples:
            return
        example = next((chat for chat in examples if item.span_id in chat.spans), None)
        if example is not None:
            example = _until(example, item.span_id)
        else:
            example = examples[-1]
            if not is_answer(_output(rollout, spans), example.messages[-1]):
                self.left_out["the corrected answer is not the model's last message"] += 1
                return
        task_input = rollout.input if rollout is not None else _asked(example)
        (split,) = self._split_of([task_input])
        if split == "test":
            self.left_out["its task is reserved for experiments"] += 1
            return
        yield (
            item,
            split,
            msgspec.structs.replace(
                example,
                subject=item.rollout_id or item.trace_id,
                task_id=rollout.task_id if rollout is not None else "",
            ),
        )


def first_difference(best: Sequence[ChatExample], worst: Sequence[ChatExample]) -> ChatPair | None:
    """The first messages in which two rollouts differ, if the model wrote both."""
    for better, worse in itertools.product(best, worst):
        if better.tools != worse.tools:
            continue
        at = next(
            (
                n
                for n, (a, b) in enumerate(zip(better.messages, worse.messages, strict=False))
                if a != b
            ),
            None,
        )
        if at and at in better.learned and at in worse.learned:
            return ChatPair(
                messages=better.messages[:at],
                chosen=better.messages[at],
                rejected=worse.messages[at],
                tools=better.tools,
            )
    return None


def _until(example: ChatExample, span_id: str) -> ChatExample:
    """The conversation up to the answer of one call."""
    count = example.spans.index(span_id) + 1
    return msgspec.structs.replace(
        example,
        messages=example.messages[: example.learned[count - 1] + 1],
        learned=example.learned[:count],
        spans=example.spans[:count],
    )


def _output(rollout: Rollout | None, spans: Sequence[Span]) -> Any:
    """The agent's answer; None if only its model calls were recorded."""
    if rollout is not None:
        return rollout.output
    stated = next(
        (s.attributes[names.OUTPUT] for s in spans if s.attributes.get(names.OUTPUT)), None
    )
    try:
        return msgspec.json.decode(stated) if isinstance(stated, str) else stated
    except msgspec.DecodeError:
        return stated


def _said(content: Any) -> ChatMessage:
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    return {"role": "assistant", "content": text}


def is_answer(output: Any, message: ChatMessage) -> bool:
    """Whether the agent's output, if one is recorded, is the text of the model's last message.

    Case, white space, and punctuation around it may differ.
    """
    if message.get("tool_calls"):
        return False
    if output is None:
        return True
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return _plain(text) == _plain(str(message["content"]))


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(string.punctuation + " ").casefold()


def _asked(example: ChatExample) -> Any:
    """The user's last message, which is a live trace's input."""
    questions = [message["content"] for message in example.messages if message["role"] == "user"]
    return questions[-1] if questions else ""
