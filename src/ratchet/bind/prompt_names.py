"""Names for proposed prompts: after the agent, and after the speaker if the agent has several."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable

from ratchet.bind.discover import TemplateProposal

_LONGEST = 60
_NEXT_WORD = re.compile(r"(?<=[a-z\d])(?=[A-Z])")


def proposal_names(
    proposals: Iterable[TemplateProposal],
    speakers: Collection[str],
    agent: str = "",
    used_names: Collection[str] = (),
) -> list[str]:
    """An unused name for each proposal, such as `support.system` or `support.triage_agent.system`.

    Args:
        proposals: The proposals.
        speakers: The agents that were recorded; with one of them, names do without it.
        agent: Name of the system, the first part of each name; empty for none.
        used_names: Names that are not free.
    """
    names: list[str] = []
    for proposal in proposals:
        speaker = identifier(proposal.speaker) if len(speakers) > 1 else ""
        parts = (agent, speaker if speaker != identifier(agent) else "", "system")
        base = ".".join(part for part in parts if part)
        names.append(unused_name(base, {*used_names, *names}))
    return names


def unused_name(base: str, used_names: Collection[str]) -> str:
    """A name that is free: `support.system`, then `support.system_2`."""
    names = (base if number == 1 else f"{base}_{number}" for number in itertools.count(1))
    return next(name for name in names if name not in used_names)


def without_number(name: str) -> str:
    """The name that a number was appended to: `support.system` of `support.system_2`."""
    return re.sub(r"_\d+$", "", name)


def identifier(speaker: str) -> str:
    """An agent's name in lower case with underscores, for use in a prompt's name."""
    words = re.sub(r"\W+", "_", _NEXT_WORD.sub("_", speaker))
    return words[:_LONGEST].strip("_").lower()
