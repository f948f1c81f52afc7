"""Reconstructs the messages of a conversation from model calls that each resend the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import msgspec

from ratchet.store.messages import instructions_in, messages_in, plain, texts_of, words_of
from ratchet.types.trace import ConversationMessage, Instructions

MAX_MESSAGES = 50_000
"""Maximum number of messages processed, over all calls together."""

_ALIGNED = 200
"""Number of last messages of a log and of a call that are aligned when neither is a prefix of the
other."""

_AGENTS = frozenset({"invoke_agent", "create_agent"})
_TOOL = "execute_tool"
_LEADING = frozenset({"system", "developer"})


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """Span attributes that a dialogue is built from; foreign data, so of any type."""

    operation: Any = msgspec.field(default=None, name="gen_ai.operation.name")
    agent: Any = msgspec.field(default=None, name="gen_ai.agent.name")
    inputs: Any = msgspec.field(default=None, name="gen_ai.input.messages")
    outputs: Any = msgspec.field(default=None, name="gen_ai.output.messages")
    system: Any = msgspec.field(default=None, name="gen_ai.system_instructions")
    input: Any = msgspec.field(default=None, name="ratchet.input")
    output: Any = msgspec.field(default=None, name="ratchet.output")


class ConversationStep(NamedTuple):
    """One span of a conversation's traces."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    conversation_id: str
    call: RecordedCall


class Dialogue(NamedTuple):
    """The messages of a conversation."""

    instructions: list[Instructions]
    messages: list[ConversationMessage]
    cut: bool
    """Whether messages are missing."""


def dialogue(steps: Sequence[ConversationStep], conversation_id: str) -> Dialogue:
    """Reconstruct the messages of a conversation.

    Chat APIs receive the whole history with each call, possibly truncated at its beginning; others
    receive only new messages. In both cases each message is listed once. Messages between agents,
    or within a tool, are nested and have a history of their own.

    Args:
        steps: Spans of its traces, in order of their start.
        conversation_id: Steps of other conversations are skipped.
    """
    tree = _Tree(steps, conversation_id)
    lanes: dict[tuple[str, str], _Lane] = {}
    system: dict[tuple[str, str], int] = {}
    recorded: set[str] = set()
    cut = False
    left = MAX_MESSAGES
    for step in tree.steps:
        inputs, inputs_cut = messages_in(step.call.inputs)
        outputs, outputs_cut = messages_in(step.call.outputs)
        cut = cut or inputs_cut or outputs_cut
        if not inputs and not outputs:
            continue
        left -= len(inputs) + len(outputs)
        if left < 0:
            cut = True
            break
        where = tree.position(step)
        agent = where.agent
        leading = [text for m in inputs if m["role"] in _LEADING for text in texts_of(m)]
        for words in (*instructions_in(step.call.system), *leading):
            system[agent, words] = system.get((agent, words), 0) + 1
        lane = lanes.setdefault(where.lane, _Lane())
        lane.add_call(
            [m for m in inputs if m["role"] not in _LEADING],
            outputs,
            step,
            agent,
            nested=where.lane != ("", ""),
        )
        recorded.add(step.trace_id)
    return Dialogue(
        [Instructions(text=text, agent=agent, calls=n) for (agent, text), n in system.items()],
        _in_order(lanes.values(), _outermost(tree, recorded)),
        cut,
    )


class _Position(NamedTuple):
    lane: tuple[str, str]
    """Trace and span of the enclosing agent or tool; empty for the outermost level."""
    agent: str


class _Tree:
    """Parent-child relations of the steps."""

    def __init__(self, steps: Sequence[ConversationStep], conversation_id: str) -> None:
        self._known = {_key(step): step for step in steps}
        self._conversation_id = conversation_id
        self.steps = [step for step in steps if self._belongs(step)]
        self._direct = {
            _key(around[0])
            for step in self.steps
            if step.call.inputs is not None or step.call.outputs is not None
            if (around := self._around(step))
        }

    def above(self, step: ConversationStep) -> Iterator[ConversationStep]:
        """Ancestors of a step, nearest first."""
        visited = {step.span_id}
        while step.parent_id is not None and step.parent_id not in visited:
            visited.add(step.parent_id)
            parent = self._known.get((step.trace_id, step.parent_id))
            if parent is None:
                return
            yield parent
            step = parent

    def is_outermost(self, step: ConversationStep) -> bool:
        """Whether a step has no known ancestor."""
        return next(self.above(step), None) is None

    def position(self, step: ConversationStep) -> _Position:
        """Return the lane of a call."""
        around = self._around(step)
        agents = (ancestor for ancestor in around if ancestor.call.operation != _TOOL)
        agent = _name(step) or next(
            (_name(agent_step) or agent_step.name for agent_step in agents), ""
        )
        within_tool = any(ancestor.call.operation == _TOOL for ancestor in around)
        # An agent that only wraps another one makes no calls of its own.
        if within_tool or any(_key(ancestor) in self._direct for ancestor in around[1:]):
            return _Position(_key(around[0]), agent)
        return _Position(("", ""), agent)

    def _around(self, step: ConversationStep) -> list[ConversationStep]:
        return [ancestor for ancestor in self.above(step) if _is_around(ancestor.call.operation)]

    def _belongs(self, step: ConversationStep) -> bool:
        for ancestor in (step, *self.above(step)):
            if ancestor.conversation_id:
                return ancestor.conversation_id == self._conversation_id
        return True


def _key(step: ConversationStep) -> tuple[str, str]:
    return step.trace_id, step.span_id


def _name(step: ConversationStep) -> str:
    return step.call.agent if isinstance(step.call.agent, str) else ""


def _is_around(operation: Any) -> bool:
    """Whether messages within a step belong to a different history from those around it."""
    return isinstance(operation, str) and (operation in _AGENTS or operation == _TOOL)


class _Entry(NamedTuple):
    fingerprint: bytes
    role: str
    message: ConversationMessage


class _Lane:
    """The message log of one history."""

    def __init__(self) -> None:
        self._log: list[_Entry] = []

    def add_call(
        self,
        inputs: Sequence[Mapping[str, Any]],
        outputs: Sequence[Mapping[str, Any]],
        step: ConversationStep,
        agent: str,
        *,
        nested: bool,
    ) -> None:
        """Add the new messages of a call."""
        sent = [_entry(m, step, step.start_ns, agent, nested) for m in inputs if m["parts"]]
        at = self._place_history(sent)
        for message in outputs:
            if not message["parts"]:
                continue
            entry = _entry(message, step, max(step.start_ns, step.end_ns), agent, nested)
            if at < len(self._log) and self._log[at].fingerprint == entry.fingerprint:
                at += 1  # a library beneath a framework reports the same call again
                continue
            self._log.append(entry)
            at = len(self._log)

    def entries(self) -> list[_Entry]:
        """Return all entries, in order."""
        return self._log

    def _place_history(self, sent: list[_Entry]) -> int:
        """Add the new messages of a request; return the position of its answer."""
        log = self._log
        known_count = len(log)
        if [entry.fingerprint for entry in sent[:known_count]] == [
            entry.fingerprint for entry in log
        ]:
            log += sent[known_count:]
            return len(log)
        shift, skip = max(0, known_count - _ALIGNED), max(0, len(sent) - _ALIGNED)
        blocks = SequenceMatcher(
            None,
            [entry.fingerprint for entry in log[shift:]],
            [entry.fingerprint for entry in sent[skip:]],
            autojunk=False,
        ).get_matching_blocks()[:-1]
        if not blocks or _is_news(log, sent, shift + blocks[-1].a):
            log += sent
            return len(log)
        end = shift + blocks[-1].a + blocks[-1].size
        tail = _unknown(sent[skip + blocks[-1].b + blocks[-1].size :], log[end:])
        # Insert from the end, so that earlier positions stay valid.
        for before, block in reversed(list(zip([None, *blocks], blocks, strict=False))):
            begin = before.b + before.size if before else 0
            passed = log[shift + (before.a + before.size if before else 0) : shift + block.a]
            between = _unknown(sent[skip + begin : skip + block.b], passed)
            if before is None:
                # A summary of dropped messages may precede everything known.
                continue
            log[shift + block.a : shift + block.a] = between
            end += len(between)
        if tail:
            log += tail
            return len(log)
        return end


def _is_news(log: Sequence[_Entry], sent: Sequence[_Entry], at: int) -> bool:
    """Whether a single message that repeats an earlier one is new.

    A single message is not a history: where the server stores it, only new messages are sent. In
    the same trace it is the same message, sent again or to another agent.
    """
    return (
        len(sent) == 1
        and at + 1 < len(log)
        and log[at].message.trace_id != sent[0].message.trace_id
    )


def _unknown(sent: Sequence[_Entry], passed: Sequence[_Entry]) -> list[_Entry]:
    """Return the sent messages that match none of the log's messages at the same place.

    An answer may be resent in a different form: it matches a message of the same role.
    """
    unmatched = list(passed)
    new: list[_Entry] = []
    for entry in sent:
        if entry.role != "user" and unmatched and not new:
            same = next(
                (n for n, passed_entry in enumerate(unmatched) if passed_entry.role == entry.role),
                None,
            )
            if same is not None:
                del unmatched[: same + 1]
                continue
        new.append(entry)
    return new


def _in_order(
    lanes: Iterable[_Lane], other_messages: Sequence[ConversationMessage]
) -> list[ConversationMessage]:
    """All messages by time; within a lane in its own order, regardless of clocks."""
    timed: list[tuple[int, ConversationMessage]] = [
        (message.at_ns, message) for message in other_messages
    ]
    for lane in lanes:
        latest = -(2**63)
        for entry in lane.entries():
            latest = max(latest, entry.message.at_ns)
            timed.append((latest, entry.message))
    timed.sort(key=lambda timed_message: timed_message[0])
    return [message for _, message in timed]


def _outermost(tree: _Tree, recorded: set[str]) -> list[ConversationMessage]:
    """Inputs and outputs of traces whose calls were not recorded."""
    messages: list[ConversationMessage] = []
    for step in tree.steps:
        if step.trace_id in recorded or not tree.is_outermost(step):
            continue
        for role, value, at_ns in (
            ("user", step.call.input, step.start_ns),
            ("assistant", step.call.output, max(step.start_ns, step.end_ns)),
        ):
            words = words_of(value)
            if words:
                message = {"role": role, "parts": [{"type": "text", "content": words}]}
                messages.append(_entry(message, step, at_ns, _name(step), False).message)
    return messages


def _entry(
    message: Mapping[str, Any], step: ConversationStep, at_ns: int, agent: str, nested: bool
) -> _Entry:
    role, parts = message["role"], message["parts"]
    return _Entry(
        _fingerprint(role, parts),
        role,
        ConversationMessage(
            role=role,
            parts=parts,
            at_ns=at_ns,
            trace_id=step.trace_id,
            span_id=step.span_id,
            agent=agent,
            nested=nested,
        ),
    )


def _fingerprint(role: str, parts: Sequence[Any]) -> bytes:
    """Hash of a message's content, without ids and reasoning, which are not resent."""
    content: list[Any] = [role]
    for part in parts:
        kind = part.get("type")
        if kind == "reasoning":
            continue
        if kind == "text":
            content.append(plain(part.get("content")))
        elif kind == "tool_call":
            content.append([plain(part.get("name")), plain(part.get("arguments"))])
        elif kind == "tool_call_response":
            content.append([plain(part.get("response", part.get("result")))])
        else:
            content.append(plain(part))
    return msgspec.json.encode(content)
