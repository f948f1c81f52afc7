"""What of a wiring no longer fits the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ratchet.wire.applying.record import Record, RecordedPrompt
from ratchet.wire.facts import Place, PromptSite, RepositoryLook


class Misfit(msgspec.Struct, frozen=True):
    """Something that no longer fits, with the one next step."""

    place: Place
    what: str
    """In a sentence."""
    next_step: str
    """In a sentence, or a command."""


def matched_prompts(
    record: Record, prompts: Iterable[PromptSite], moved: Mapping[str, str]
) -> dict[tuple[Place, str], RecordedPrompt]:
    """The recorded prompt that each prompt is, by its place and name; new ones are not in it.

    By file and name in the code; several of one name are taken in order, and one that moved to
    another file is found by its name alone, where only one has it.
    """
    waiting = list(record.prompts)
    found: dict[tuple[Place, str], RecordedPrompt] = {}
    listed = list(prompts)
    for same_file in (True, False):
        for prompt in listed:
            if (prompt.place, prompt.name) in found:
                continue
            fitting = [
                one
                for one in waiting
                if one.site == prompt.name
                and (not same_file or moved.get(one.path, one.path) == prompt.place.path)
            ]
            if fitting and (same_file or len(fitting) == 1):
                found[(prompt.place, prompt.name)] = fitting[0]
                waiting.remove(fitting[0])
    return found


def agent_misfits(
    record: Record, found: RepositoryLook, moved: Mapping[str, str]
) -> Iterator[Misfit]:
    """Recorded prompts and the entry that a look at the repository, without its wiring, lacks.

    Args:
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
        place, why = _where(prompt, found, moved)
        yield Misfit(
            place,
            f"The prompt {prompt.name} reaches no model call any more{why}.",
            f"Remove ratchet.prompt of it, or use {prompt.site} in a call again.",
        )


def _where(
    prompt: RecordedPrompt, found: RepositoryLook, moved: Mapping[str, str]
) -> tuple[Place, str]:
    path = moved.get(prompt.path, prompt.path)
    for one in found.prompts_left_out:
        if one.name == prompt.site and one.place.path == path:
            return one.place, f": {one.reason}"
    return Place(path), ""
