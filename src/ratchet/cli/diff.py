"""`ratchet diff`: compare two candidates."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from ratchet.autopilot.project_tasks import project_dataset
from ratchet.autopilot.prompt_discovery import recall_prompts
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short
from ratchet.cli.selection import select_candidate
from ratchet.ship import make_patch
from ratchet.ship.word_changes import ChangeOp, WordChange, folded, word_changes
from ratchet.types import Candidate, PromptTemplate, resource_text


def diff(
    before: Annotated[str, typer.Argument(help="source, best, or the start of an id.")] = "source",
    after: Annotated[str, typer.Argument(help="source, best, or the start of an id.")] = "best",
    patch: Annotated[bool, typer.Option("--patch", help="Print only the patch.")] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Compare two candidates: prompts word by word, code line by line.

    When the first is source, the patch of the files follows. Where output is not a terminal,
    removed words are written [-…-] and added words {+…+}.

    Examples:

      ratchet diff

      ratchet diff 1a2b3c4d 5e6f7a8b

      ratchet diff source best --patch | git apply --check
    """
    project = project_in(folder)
    agent = project.load_agent()
    with project.open_store() as store:
        if agent.prompts_in_calls:
            recall_prompts(store, agent, project_dataset(project, skip_bad=True, needs=())[0])
        old = select_candidate(project, store, agent, before)
        new = select_candidate(project, store, agent, after)
        if before == "source":  # of which the other may name more
            old = select_candidate(project, store, agent, before)
    changed = new.changed_from(old)
    if before == "source" and changed:
        text = make_patch(old, new, agent.declarations, project.root).diff()
    else:
        text = "\n".join(_lines(old, new))
    if json:
        print_json(
            {
                "before": old.id,
                "after": new.id,
                "changed": changed,
                "diff": text,
                "words": dict(_worded(old, new)),
                "reason": new.reason,
                "algorithm": new.algorithm,
            }
        )
        return
    if not changed:
        if not patch:
            out.print("The candidates are identical.")
        return
    if not patch:
        if new.reason:
            out.print(f"{short(new.id)} by {new.algorithm}: {new.reason}", markup=False)
        for name, changes in _worded(old, new):
            out.print(f"\n[bold]{escape(name)}[/]")
            condensed = folded(changes)
            out.print(colored(condensed) if out.is_terminal else Text(marked(condensed)))
        text = text if before == "source" else "\n".join(_lines(old, new, but=PromptTemplate))
        if text:
            out.print()
    for line in text.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(line, style=style, markup=False)


def _worded(old: Candidate, new: Candidate) -> Iterator[tuple[str, list[WordChange]]]:
    for name in new.changed_from(old):
        before, after = old.resources.get(name), new.resources.get(name)
        if isinstance(before, PromptTemplate) and isinstance(after, PromptTemplate):
            yield name, word_changes(before.text, after.text)


def _lines(old: Candidate, new: Candidate, but: type | None = None) -> Iterator[str]:
    for name in new.changed_from(old):
        before, after = old.resources.get(name), new.resources.get(name)
        if but is not None and isinstance(before, but) and isinstance(after, but):
            continue
        yield from difflib.unified_diff(
            resource_text(before).splitlines(),
            resource_text(after).splitlines(),
            f"{name} {short(old.id)}",
            f"{name} {short(new.id)}",
            lineterm="",
        )


STYLES: dict[ChangeOp, str] = {"same": "", "out": "red strike", "in": "green underline"}
MARKS: dict[ChangeOp, tuple[str, str]] = {"same": ("", ""), "out": ("[-", "-]"), "in": ("{+", "+}")}


def colored(changes: Sequence[WordChange]) -> Text:
    """The changes in colour, for a terminal."""
    text = Text()
    for op, piece in changes:
        text.append(piece, STYLES[op])
    return text


def marked(changes: Sequence[WordChange]) -> str:
    """The changes as plain text: removed [-…-], added {+…+}."""
    return "".join(f"{MARKS[op][0]}{piece}{MARKS[op][1]}" for op, piece in changes)
