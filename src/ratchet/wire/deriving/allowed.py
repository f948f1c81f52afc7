"""What the recorded run did outside of itself, with a proposal for each line."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ratchet.wire.recording.recording import Contact, Recording

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that by HTTP's definition change nothing."""


class OutsideAct(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the recorded run did outside, and whether rollouts may do it."""

    key: str
    """The list in [agent.allow]: `hosts`, `programs` or `folders`."""
    subject: str
    """As it stands in that list."""
    said: str
    """What was seen, for people."""
    allow: bool
    """The proposal."""


def outside_acts(recording: Recording, allowed: Iterable[str] = ()) -> tuple[OutsideAct, ...]:
    """What the recorded run contacted, started and wrote.

    Hosts that were only read from are proposed, and so are programs, which run contained as the
    agent does. What it wrote is not: rollouts write into a copy of their own.

    Args:
        recording: The recorded run.
        allowed: Subjects that the owner allows.
    """
    given = set(allowed)
    models = {call.host for call in recording.calls}
    acts = []
    for contact in recording.contacts:
        subject = f"{contact.host}:{contact.port}"
        if contact.host in models or subject in models:
            continue
        reads = bool(contact.requests) and all(
            request.split(" ", 1)[0] in READING for request in contact.requests
        )
        allow = reads or subject in given or contact.host in given
        acts.append(OutsideAct(key="hosts", subject=subject, said=_requests(contact), allow=allow))
    for program in recording.programs:
        said = f"started {program.count} times" if program.count > 1 else "started once"
        acts.append(OutsideAct(key="programs", subject=program.path, said=said, allow=True))
    for write in recording.writes:
        if write.place in ("home", "elsewhere"):
            allow = write.path in given
            said = f"{write.how}; rollouts change a copy of their own"
            acts.append(OutsideAct(key="folders", subject=write.path, said=said, allow=allow))
    return tuple({(act.key, act.subject): act for act in acts}.values())


def _requests(contact: Contact) -> str:
    if not contact.requests:
        return f"{contact.count} connection{'s' * (contact.count != 1)}"
    return ", ".join(f"{count} × {request}" for request, count in contact.requests.items())
