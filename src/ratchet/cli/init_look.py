"""What `ratchet init --look` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ratchet.cli.console import counted, one_line, out, print_table, table

if TYPE_CHECKING:
    from ratchet.wire.facts import FoundTests, RepositoryLook

SHOWN = 25
"""Rows of a table; --json has all."""
MANY = 6
"""Projects from which on only they are listed."""


def _say(text: str) -> None:
    out.print(text, markup=False)


def print_look(found: RepositoryLook) -> None:
    """Print the facts of a look."""
    from ratchet.wire.recommending.choosing import entry_id, ranked_entries

    languages = (
        ", ".join(f"{one.name} ({one.files})" for one in found.languages) or "no known language"
    )
    _say(f"{found.root}: {counted(found.files, 'file')}; {languages}")
    if not found.git:
        _say("It is not a git repository.")
    if found.monorepo:
        _say(f"{len(found.members)} projects have an agent. Name one: ratchet init --look PATH")
        projects = table("project", "frameworks", "prompts", "likeliest entry", right=("prompts",))
        for member in found.members:
            entry = next(iter(ranked_entries(found, member.path)), None)
            projects.add_row(
                Text(member.path),
                Text(", ".join(member.frameworks)),
                str(member.prompts),
                Text(entry_id(entry).removeprefix(f"{member.path}/") if entry else "none"),
            )
        print_table(projects)
        if len(found.members) > MANY:
            _say("What each holds is said by the look at it; --json has all.")
            return
    if not found.model_calls and not found.prompts:
        _say("No agent was found: no live code calls a model through a framework that is known.")
        _say(f"Looked for: {', '.join(found.looked_for)}")
    else:
        names = [f"{one.name} {one.version}".strip() for one in found.frameworks]
        _say(f"Made with: {', '.join(names) or 'no framework'}")
        _rows(
            "Entry points", [(str(e.place), e.kind, e.call) for e in found.entries], "kind", "call"
        )
        _rows(
            "Prompts that reach a model call",
            [
                (str(p.place), f"{p.kind}, {p.role}", f"{p.name}: {p.how}" if p.name else p.how)
                for p in found.prompts
            ],
            "kind",
            "how it can be bound",
        )
        _rows(
            "Prompts of the framework",
            [(str(p.place), p.name, p.how) for p in found.framework_prompts],
            "name",
            "how it can be bound",
        )
        if found.prompts_left_out:
            count = counted(len(found.prompts_left_out), "more prompt")
            _say(
                f"{count} of tests, older copies and scripts are left out; --json has the reasons."
            )
        _rows(
            "Model calls",
            [(str(c.place), c.framework, c.callee) for c in found.model_calls],
            "framework",
            "call",
        )
        _rows(
            "Tools",
            [(str(t.place), t.name, t.description) for t in found.tools],
            "name",
            "description",
        )
    acting = [one for one in found.side_effects if one.acts]
    _rows("Side effects", [(str(e.place), e.kind, e.what) for e in acting], "kind", "call")
    reading = len(found.side_effects) - len(acting)
    if reading:
        _say(f"{counted(reading, 'call')} read from the web or a database.")
    _rows(
        "Tests",
        [(str(t.place), t.command, f"in {t.project}: {_size(t)}") for t in found.tests],
        "command",
        "what it runs",
    )
    _rows(
        "Tracing that is there",
        [(str(t.place), t.name, t.reason) for t in found.tracing],
        "library",
        "reason",
    )
    _rows(
        "Data that could be tasks",
        [
            (str(d.place), f"{d.rows}{'' if d.whole else '+'} rows", d.reason)
            for d in found.task_data
        ],
        "size",
        "columns",
    )
    if found.model_calls:
        for name, facts in (
            ("tests", found.tests),
            ("tracing", found.tracing),
            ("data that could be tasks", found.task_data),
        ):
            if not facts:
                _say(f"No {name} found.")
    if found.secrets:
        _say("\nSecrets, by name; no value was read:")
        _say("  " + ", ".join(one.name for one in found.secrets))
    for one in found.unreadable[:SHOWN]:
        _say(f"Not read: {one.path} {one.reason}")


def _size(tests: FoundTests) -> str:
    return f"{counted(tests.cases, 'test')} in {counted(tests.files, 'file')}, {tests.runner}"


def _rows(title: str, rows: list[tuple[str, str, str]], second: str, third: str) -> None:
    if not rows:
        return
    out.print(f"\n[bold]{title}[/]")
    shown = table("place", second, third)
    for place, kind, text in rows[:SHOWN]:
        shown.add_row(Text(place), Text(kind), Text(one_line(text, 100)))
    print_table(shown)
    if len(rows) > SHOWN:
        _say(f"and {len(rows) - SHOWN} more; --json has all.")
