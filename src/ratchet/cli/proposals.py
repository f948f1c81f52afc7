"""Proposed prompts: what they are called, how they are registered, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from ratchet.bind.discover import Proposal
from ratchet.cli.console import one_line, out, short, table
from ratchet.cli.recorded import Found, active_candidate
from ratchet.store import Store
from ratchet.types import Candidate, InputError, PromptTemplate, Resource

SHOWN_LINES = 30


def named_proposals(
    store: Store, agent: str, proposals: Sequence[Proposal], wanted: Sequence[str]
) -> list[tuple[str, Proposal]]:
    """The proposals with their names: those wanted, then ones that are free.

    Raises:
        InputError: A wanted name is malformed, stands there twice, or is no prompt's.
    """
    known = store.resources.names()
    others = set(known) - set(store.resources.names("prompt"))
    for number, name in enumerate(wanted):
        if not name or not all(c.isalnum() or c in "_-." for c in name):
            raise InputError(
                f"{name!r} cannot name a prompt.", hint="Use letters, digits, '_', '-' and '.'."
            )
        if name in wanted[:number] or name in others:
            what = "is given twice" if name in wanted[:number] else "belongs to something else"
            raise InputError(f"The name {name!r} {what}.", hint="Give each prompt its own.")
    taken = {*known, *wanted}
    free = (
        name
        for number in range(1, len(taken) + len(proposals) + 2)
        if (name := f"{agent}.system" if number == 1 else f"{agent}.system_{number}") not in taken
    )
    return [
        (wanted[number] if number < len(wanted) else next(free), proposal)
        for number, proposal in enumerate(proposals)
    ]


def register_proposals(
    store: Store, agent: str, named: Sequence[tuple[str, Proposal]]
) -> Candidate:
    """Store the proposals, and a candidate that holds them beside what is active."""
    active = active_candidate(store, agent)
    resources: dict[str, Resource] = dict(active.resources) if active else {}
    resources |= {name: proposal.template for name, proposal in named}
    candidate = Candidate.of(
        resources,
        parents=(active.id,) if active else (),
        algorithm="discover",
        reason=f"Prompts as the agent {agent} was recorded to have them.",
    )
    store.candidates.put(candidate)
    return candidate


def for_machines(
    agent: str,
    found: Found,
    named: Sequence[tuple[str, Proposal]],
    candidate: Candidate | None,
) -> dict[str, Any]:
    """All of it, for `--json`."""
    versions = candidate.versions() if candidate else {}
    return {
        "agent": agent,
        "calls": found.calls,
        "prompts": found.prompts,
        "registered": found.registered,
        "cut": found.cut,
        "left_out": found.discovery.left_out,
        "proposals": [
            {
                "name": name,
                "version": versions.get(name, ""),
                "template": proposal.template.text,
                "slots": proposal.slots,
                "texts": proposal.texts,
                "count": proposal.count,
                "share": proposal.share,
            }
            for name, proposal in named
        ],
        "candidate": candidate.id if candidate else "",
    }


def print_found(agent: str, found: Found, rare: int) -> None:
    """What was looked at, and what of it needs no proposal."""
    if not found.prompts:
        out.print(
            f"No call of {agent} with a system prompt is recorded. Let the agent call its model"
            f" through the gateway: base URL http://HOST:PORT/gateway/{agent}/openai/v1",
            markup=False,
        )
        return
    out.print(f"{found.prompts} prompts in {found.calls} calls of {agent}.", markup=False)
    for one in found.registered:
        out.print(f"  {one.count} are {one.name} {short(one.version)}, registered.", markup=False)
    for reason, count in found.discovery.left_out.items():
        out.print(f"  {count} are left out: {reason}.", markup=False)
    if found.cut:
        out.print(f"  {found.cut} were too long to be recorded whole.")
    if rare:
        out.print(f"  {rare} rare proposals are not shown; --least 0 shows them.")
    out.print()


def print_proposal(number: int, name: str, proposal: Proposal) -> None:
    """A proposal with its slots and what fills them."""
    times = f"{proposal.count} times" if proposal.count != 1 else "once"
    texts = f"{proposal.texts} different texts" if proposal.texts != 1 else "always the same text"
    out.print(
        f"[bold]{number}. {name}[/]  {proposal.share:.0%} of them, {times}, {texts}",
        highlight=False,
    )
    lines = highlighted(proposal.template).split("\n")
    text = Text("\n").join(lines[:SHOWN_LINES])
    if len(lines) > SHOWN_LINES:
        text += Text(f"\n… {len(lines) - SHOWN_LINES} more lines", style="dim")
    out.print(Padding(text, (0, 0, 1, 4), expand=False))
    if proposal.slots:
        rows = table("slot", "values", "such as", right=("values",))
        for slot in proposal.slots:
            examples = ", ".join(repr(one_line(example, 40)) for example in slot.examples[:3])
            rows.add_row(Text(slot.name, "cyan"), str(slot.different), Text(examples))
        out.print(Padding(rows, (0, 0, 1, 4), expand=False))


def highlighted(template: PromptTemplate) -> Text:
    """A template's text with its slots in colour."""
    text = Text(template.text)
    pattern = r"\{\{.*?\}\}" if template.engine == "jinja2" else r"(?<!\{)(?:\{\{)*\{(?!\{)[^{}]*\}"
    text.highlight_regex(pattern, "bold cyan")
    return text
