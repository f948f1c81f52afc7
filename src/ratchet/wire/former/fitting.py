"""What of a wiring no longer fits the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ratchet.wire.facts import Place, PromptSite, RepositoryLook
from ratchet.wire.former.record import FormerRecord, RecordedPrompt, text_of


class Misfit(msgspec.Struct, frozen=True):
    """Something that no longer fits, with the one next step."""

    place: Place
    what: str
    """In a sentence."""
    next_step: str
    """In a sentence, or a command."""


def matched_prompts(
    record: FormerRecord, prompts: Iterable[PromptSite], moved: Mapping[str, str]
) -> dict[tuple[Place, str], RecordedPrompt]:
    """The recorded prompt that each prompt is, by its place and name; new ones are not in it.

    By file and name in the code; then by name alone, or by text alone, where only one has it.
    Several of one name in a file are taken in order.
    """
    waiting = list(record.prompts)
    found: dict[tuple[Place, str], RecordedPrompt] = {}
    listed = list(prompts)
    for rule in (_same_place, _same_name, _same_text):
        for prompt in listed:
            if (prompt.place, prompt.name) in found:
                continue
            fitting = [one for one in waiting if rule(one, prompt, moved)]
            if fitting and (rule is _same_place or len(fitting) == 1):
                found[(prompt.place, prompt.name)] = fitting[0]
                waiting.remove(fitting[0])
    return found


def _same_place(one: RecordedPrompt, prompt: PromptSite, moved: Mapping[str, str]) -> bool:
    same = moved.get(one.path, one.path) == prompt.place.path
    return same and one.site == prompt.name


def _same_name(one: RecordedPrompt, prompt: PromptSite, _: Mapping[str, str]) -> bool:
    return one.site == prompt.name


def _same_text(one: RecordedPrompt, prompt: PromptSite, _: Mapping[str, str]) -> bool:
    return one.text == text_of(prompt)


def agent_misfits(
    root: Path, record: FormerRecord, found: RepositoryLook, moved: Mapping[str, str]
) -> Iterator[Misfit]:
    """Recorded prompts and the entry that a look at the repository, without its wiring, lacks.

    Args:
        root: The repository, with its wiring.
        record: What was made.
        found: The look.
        moved: New path of files that were renamed, by the recorded one.
    """
    name, path = record.entry, moved.get(record.entry_path, record.entry_path)
    if not any(one.name == name and one.place.path == path for one in found.entries):
        near = [one for one in found.entries if one.name == name] or list(found.entries)
        there = f"The agent starts at {near[0].place} now: " if near else ""
        yield Misfit(
            Place(path),
            f"The entry {name} is not there, or calls no model any more.",
            f"{there}ratchet init --undo, then ratchet init",
        )
    known = {one.name for one in matched_prompts(record, found.prompts, moved).values()}
    for prompt in record.prompts:
        if prompt.name in known or prompt.way == "leave":
            continue
        place, why = _where(root, prompt, found, moved)
        yield Misfit(
            place,
            f"The prompt {prompt.name} reaches no model call any more{why}.",
            f"Remove ratchet.prompt of it, or use {prompt.site} in a call again.",
        )


def _where(
    root: Path, prompt: RecordedPrompt, found: RepositoryLook, moved: Mapping[str, str]
) -> tuple[Place, str]:
    """Where a prompt is declared, and why it was left out of the look."""
    path = moved.get(prompt.path, prompt.path)
    left = [
        one.reason
        for one in found.prompts_left_out
        if one.name == prompt.site and one.place.path == path
    ]
    why = f": {left[0]}" if left else ""
    declared = re.compile(rf"prompt\(\s*[\"']{re.escape(prompt.name)}[\"']")
    try:
        text = (root / path).read_text(errors="replace")
    except OSError:
        return Place(path), f"{why}; the file is not there"
    match = declared.search(text)
    return Place(path, text.count("\n", 0, match.start()) + 1 if match else 0), why
