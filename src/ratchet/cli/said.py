"""What was said, as text for people: the parts of a message, and a whole conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

from ratchet.cli.console import counted, one_line, out, printable
from ratchet.cli.looking import when
from ratchet.types.trace import ConversationLog, Said

STYLES = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}

LONG = 2_000
"""Characters of a message that are shown, unless all is asked for."""


def parts_text(parts: Iterable[Any], limit: int = LONG) -> str:
    """The parts of a message as text."""
    told = [_part(part) for part in parts if isinstance(part, Mapping)]
    text = printable("\n".join(part for part in told if part))
    if len(text) > limit:
        return f"{text[:limit]}… {len(text) - limit} more characters"
    return text


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "text":
        content = part.get("content")
        return content if isinstance(content, str) else one_line(content, LONG)
    if kind == "reasoning":
        return f"(thought: {one_line(part.get('content'), 400)})"
    if kind == "tool_call":
        return f"→ {part.get('name')}({_arguments(part.get('arguments'))})"
    if kind == "tool_call_response":
        answer = part.get("response", part.get("result"))
        return f"← {one_line(answer, LONG)}"
    return f"[{part.get('modality') or kind or 'part'}]"


def _arguments(given: Any) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{name}={one_line(value, 200)}" for name, value in given.items())
    return "" if given is None else one_line(given, 400)


def print_conversation(log: ConversationLog, *, full: bool = False) -> None:
    """Show a conversation as a log with roles.

    Args:
        log: The conversation.
        full: Also what agents said to one another, and long messages whole.
    """
    held = log.conversation
    out.print(
        Text.assemble(
            ("Conversation ", "bold"),
            (one_line(held.id, 200), "bold"),
            f" with {one_line(held.agent, 100) or 'a rollout'}, {counted(held.turns, 'trace')},"
            f" {when(held.start_ns)} to {when(held.last_ns)}",
        ),
        soft_wrap=True,
    )
    limit = 10**9 if full else LONG
    for one in log.instructions:
        whose = f" of {one_line(one.agent, 60)}" if one.agent else ""
        text = printable(one.text) if full else one_line(one.text, 300)
        out.print(Text.assemble((f"system{whose} ", "bold magenta"), (text, "dim")), soft_wrap=True)
    hidden = 0
    for said in log.messages:
        if said.nested and not full:
            hidden += 1
            continue
        out.print(_said(said, limit), soft_wrap=True)
    if hidden:
        out.print(f"{hidden} messages between agents are shown by --full.", style="dim")
    if log.cut:
        out.print("Something is missing: it was too long when it was recorded.", style="dim")


def _said(said: Said, limit: int) -> Text:
    indent = "   " if said.nested else ""
    role = one_line(said.role, 40)
    if said.nested and said.agent:
        role += f" ({one_line(said.agent, 60)})"
    text = parts_text(said.parts, limit).replace("\n", f"\n{indent}   ")
    return Text.assemble(
        (f"{indent}{when(said.at_ns)[11:]} ", "dim"),
        (f"{role} ", STYLES.get(said.role, "bold")),
        text,
    )
