"""`ratchet diff`: what changes from one candidate to another."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.text import Text

from ratchet.cli.chosen import candidate_named
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short
from ratchet.cli.words import Change, colored, folded, marked, word_changes
from ratchet.ship import make_patch
from ratchet.types import Candidate, Code, Params, PromptTemplate, Resource


def diff(
    before: Annotated[str, typer.Argument(help="source, best, or the start of an id.")] = "source",
    after: Annotated[str, typer.Argument(help="source, best, or the start of an id.")] = "best",
    patch: Annotated[bool, typer.Option("--patch", help="Print the patch alone.")] = False,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Show what changes from one candidate to another: prompts word by word, code by lines.

    From source, it ends with the patch of the files. Where output is no terminal, words that went
    stand in [-…-] and words that came in {+…+}.

    Examples:

      ratchet diff

      ratchet diff 1a2b3c4d 5e6f7a8b

      ratchet diff source best --patch | git apply --check
    """
    project = project_in(folder)
    agent = project.load_agent()
    with project.open_store() as store:
        one = candidate_named(project, store, agent, before)
        other = candidate_named(project, store, agent, after)
    if before == "source":
        text = make_patch(one, other, agent.declarations, project.root).diff()
    else:
        text = "\n".join(_lines(one, other))
    changed = other.changed_from(one)
    if json:
        print_json(
            {
                "before": one.id,
                "after": other.id,
                "changed": changed,
                "diff": text,
                "words": dict(_worded(one, other)),
                "reason": other.reason,
                "algorithm": other.algorithm,
            }
        )
        return
    if not changed:
        if not patch:
            out.print("They are the same.")
        return
    if not patch:
        if other.reason:
            out.print(f"{short(other.id)} by {other.algorithm}: {other.reason}", markup=False)
        for name, changes in _worded(one, other):
            out.print(f"\n[bold]{escape(name)}[/]")
            shown = folded(changes)
            out.print(colored(shown) if out.is_terminal else Text(marked(shown)), soft_wrap=True)
        text = text if before == "source" else "\n".join(_lines(one, other, but=PromptTemplate))
        if text:
            out.print()
    for line in text.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(line, style=style, markup=False, soft_wrap=True)


def _worded(one: Candidate, other: Candidate) -> Iterator[tuple[str, list[Change]]]:
    for name in other.changed_from(one):
        before, after = one.resources.get(name), other.resources.get(name)
        if isinstance(before, PromptTemplate) and isinstance(after, PromptTemplate):
            yield name, word_changes(before.text, after.text)


def _lines(one: Candidate, other: Candidate, but: type | None = None) -> Iterator[str]:
    for name in other.changed_from(one):
        before, after = one.resources.get(name), other.resources.get(name)
        if but is not None and isinstance(before, but) and isinstance(after, but):
            continue
        yield from difflib.unified_diff(
            _text(before),
            _text(after),
            f"{name} {short(one.id)}",
            f"{name} {short(other.id)}",
            lineterm="",
        )


def _text(resource: Resource | None) -> list[str]:
    match resource:
        case None:
            return []
        case Params():
            return [f"{knob} = {value!r}" for knob, value in resource.values.items()]
        case PromptTemplate():
            return resource.text.splitlines()
        case Code():
            return resource.source.splitlines()
        case _:
            return [f"{key} = {value!r}" for key, value in msgspec.to_builtins(resource).items()]
