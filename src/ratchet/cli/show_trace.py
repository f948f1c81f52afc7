"""Prints traces and conversations: figures, messages, and the span tree with times and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from ratchet.cli.backend import price
from ratchet.cli.console import (
    format_count,
    format_dollars,
    format_duration,
    format_feedback,
    format_time,
    one_line,
    out,
    printable,
)
from ratchet.cli.trace_tree import TreeLine, bars, branches, forest, tree_lines
from ratchet.store.messages import messages_in
from ratchet.store.usage import cost_of, used_in, why_unmeasured
from ratchet.types import REWARD_VALUE, Feedback, Span
from ratchet.types.trace import ConversationLog, ConversationMessage, Trace, TraceDetail
from ratchet.types.wording import counted

_VALUES = (
    ("in", "ratchet.input"),
    ("out", "ratchet.output"),
    ("in", "gen_ai.tool.call.arguments"),
    ("out", "gen_ai.tool.call.result"),
)


def print_trace(detail: TraceDetail, *, full: bool = False, everything: bool = False) -> None:
    """Print a trace.

    Args:
        detail: The trace.
        full: Include messages, inputs and outputs.
        everything: Show each step on its own line, however many there are.
    """
    _print_head(detail.trace)
    for item in detail.feedback:
        out.print(feedback_line(item))
    print_tree(detail.spans, full=full, everything=everything)
    missing = detail.trace.spans - len(detail.spans)
    if missing > 0:
        out.print(f"{counted(missing, 'later span')} not shown.", style="dim")


def print_tree(spans: Sequence[Span], *, full: bool = False, everything: bool = False) -> None:
    """Print spans as a tree; arguments as for `print_trace`."""
    lines: list[Text] = []
    for line in tree_lines(forest(spans), folded=not everything):
        lines.append(_line(line, ids=full))
        if full and line.span is not None:
            for block in _content(line.span):
                beside = Text(f"{bars(line.last)}   ", style="dim")
                # Multi-line content stays beside the branches.
                block.plain = block.plain.replace("\n", f"\n{beside.plain}")
                lines.append(beside.append_text(block))
        if len(lines) >= _LINES_AT_ONCE:
            out.print(Text("\n").join(lines))
            lines = []
    if lines:
        out.print(Text("\n").join(lines))


_LINES_AT_ONCE = 200
"""Lines printed at once, because a print call is slow."""


def _print_head(trace: Trace) -> None:
    head = Text.assemble(("Trace ", "bold"), (one_line(trace.trace_id), "bold"))
    if trace.agent:
        head.append(f" of {one_line(trace.agent)}")
    head.append(f", {format_time(trace.start_ns)}")
    out.print(head)
    facts = [format_duration(trace.duration_s), counted(trace.spans, "span")]
    if trace.input_tokens or trace.output_tokens:
        facts.append(
            f"{format_count(trace.input_tokens)}→{format_count(trace.output_tokens)} tokens"
        )
    if trace.cost.unpriced or trace.cost.known_usd or trace.models:
        facts.append(str(trace.cost))
    facts += [one_line(model) for model in trace.models]
    if trace.conversation_id:
        facts.append(f"conversation {one_line(trace.conversation_id)}")
    if trace.rollout_id:
        facts.append(f"rollout {one_line(trace.rollout_id)}, attempt {trace.fence}")
    line = Text(", ".join(facts), style="dim")
    if trace.errors:
        line.append(f", {trace.errors} failed", style="red not dim")
    out.print(line)


def feedback_line(item: Feedback) -> Text:
    """A piece of feedback on one line."""
    line = Text("feedback ", style="dim").append(item.kind, style="not dim")
    if item.value is not None:
        worth = format_feedback(item.value) if item.kind == "thumbs" else f"{item.value:.2g}"
        line.append(f" {worth}", style="red not dim" if item.value < 0.5 else "not dim")
    if item.span_id:
        line.append(f" on {one_line(item.span_id, 20)}")
    if item.comment:
        line.append(f" {one_line(item.comment, 200)!r}", style="not dim")
    if item.content is not None:
        line.append(f" {one_line(item.content, 200)}", style="not dim")
    return line


def _line(line: TreeLine, *, ids: bool = False) -> Text:
    text = Text(branches(line.last), style="dim")
    span = line.span
    if span is None:
        return text.append(one_line(line.note, 200), style="dim")
    failed = span.status == "error"
    text.append(one_line(span.name, 80), style="bold red not dim" if failed else "bold not dim")
    text.append(f"  {format_duration(max(0, span.end_ns - span.start_ns) / 1e9)}", style="not dim")
    used = used_in(span)
    model = used.call.model if used else span.attributes.get("gen_ai.request.model", "")
    if isinstance(model, str) and model and model not in span.name:
        text.append(f"  {one_line(model, 40)}")
    if used is not None:
        call = used.call
        if call.input_tokens or call.output_tokens:
            tokens = f"  {format_count(call.input_tokens)}→{format_count(call.output_tokens)} tok"
            text.append(tokens, style="cyan not dim")
        cost = cost_of(call, price)
        if cost is not None:
            text.append(f"  {format_dollars(cost)}", style="green not dim")
        elif not used.whole:
            text.append(f"  not measured: {why_unmeasured(call, span.attributes)}", style="dim")
    dropped = span.attributes.get("ratchet.tokens.dropped")
    if isinstance(dropped, str):
        text.append(f"  tokens dropped: {one_line(dropped, 40)}", style="yellow not dim")
    reward = span.attributes.get(REWARD_VALUE)
    if isinstance(reward, (int, float)):
        text.append(f"  {reward:+g}", style="not dim")
    if failed:
        text.append(f"  {one_line(span.message or 'failed', 160)}", style="red not dim")
    if line.note:
        text.append(f"  ({line.note})")
    if ids:
        text.append(f"  {one_line(span.span_id, 20)}")
    return text


def _content(span: Span) -> Iterator[Text]:
    """Input and output of a step."""
    for key in ("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"):
        value = span.attributes.get(key)
        if value is None:
            continue
        messages, cut = messages_in(value)
        if not messages and not cut:
            yield Text.assemble(("system ", "bold"), one_line(value, 2_000))
        for message in messages:
            body = parts_text(message["parts"])
            yield Text.assemble((f"{one_line(message['role'], 40)} ", "bold"), body)
        if cut:
            yield Text("… truncated when recorded", style="dim")
    for word, key in _VALUES:
        value = span.attributes.get(key)
        if value is not None:
            yield Text.assemble((f"{word} ", "bold"), one_line(value, 2_000))


STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}

MAX_CHARACTERS = 2_000
"""Maximum length of a message, in characters, without `full`."""


def parts_text(parts: Iterable[Any], limit: int = MAX_CHARACTERS) -> str:
    """The parts of a message as text."""
    texts = [_part(part) for part in parts if isinstance(part, Mapping)]
    text = printable("\n".join(part for part in texts if part))
    if len(text) > limit:
        return f"{text[:limit]}… {counted(len(text) - limit, 'more character')}"
    return text


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "text":
        content = part.get("content")
        return content if isinstance(content, str) else one_line(content, MAX_CHARACTERS)
    if kind == "reasoning":
        return f"(thought: {one_line(part.get('content'), 400)})"
    if kind == "tool_call":
        return f"→ {part.get('name')}({_arguments(part.get('arguments'))})"
    if kind == "tool_call_response":
        answer = part.get("response", part.get("result"))
        return f"← {one_line(answer, MAX_CHARACTERS)}"
    return f"[{part.get('modality') or kind or 'part'}]"


def _arguments(arguments: Any) -> str:
    if isinstance(arguments, Mapping):
        return ", ".join(f"{name}={one_line(value, 200)}" for name, value in arguments.items())
    return "" if arguments is None else one_line(arguments, 400)


def print_conversation(log: ConversationLog, *, full: bool = False) -> None:
    """Print a conversation as a log with roles.

    Args:
        log: The conversation.
        full: Include messages between agents, and do not shorten messages.
    """
    head = log.conversation
    out.print(
        Text.assemble(
            ("Conversation ", "bold"),
            (one_line(head.id, 200), "bold"),
            f" with {one_line(head.agent, 100) or 'a rollout'}, {counted(head.turns, 'trace')},"
            f" {format_time(head.start_ns)} to {format_time(head.last_ns)}",
        ),
    )
    limit = 10**9 if full else MAX_CHARACTERS
    for instruction in log.instructions:
        whose = f" of {one_line(instruction.agent, 60)}" if instruction.agent else ""
        text = printable(instruction.text) if full else one_line(instruction.text, 300)
        out.print(Text.assemble((f"system{whose} ", "bold magenta"), (text, "dim")))
    messages = [message for message in log.messages if full or not message.nested]
    print_messages(messages, limit)
    hidden = len(log.messages) - len(messages)
    if hidden:
        out.print(f"{counted(hidden, 'message')} between agents are shown by --full.", style="dim")
    if log.cut:
        out.print("Incomplete: some messages were truncated when recorded.", style="dim")


def print_messages(messages: Iterable[ConversationMessage], limit: int = MAX_CHARACTERS) -> None:
    """Print messages with their time and role.

    Args:
        messages: The messages.
        limit: Maximum length of one, in characters.
    """
    for message in messages:
        out.print(_message_line(message, limit))


def _message_line(message: ConversationMessage, limit: int) -> Text:
    indent = "   " if message.nested else ""
    role = one_line(message.role, 40)
    if message.nested and message.agent:
        role += f" ({one_line(message.agent, 60)})"
    text = parts_text(message.parts, limit).replace("\n", f"\n{indent}   ")
    return Text.assemble(
        (f"{indent}{format_time(message.at_ns)[11:]} ", "dim"),
        (f"{role} ", STYLES.get(message.role, "bold")),
        text,
    )
