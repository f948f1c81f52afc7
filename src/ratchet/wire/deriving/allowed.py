"""The recorded run's acts beyond its own process, and which of them rollouts should be allowed."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from ratchet.sandbox.executables import portable_name
from ratchet.types import InputError
from ratchet.wire.recording.recording import Contact, Recording

READING = ("GET", "HEAD", "OPTIONS")
"""HTTP methods that by definition change nothing."""
_LOOPBACK = re.compile(r"^(127(\.\d+){3}|\[::1\])(?=:\d+$)")


class OutsideAct(msgspec.Struct, frozen=True, kw_only=True):
    """A contact, program or write of the recorded run, and whether rollouts may do the same."""

    key: str
    """The list in [agent.allow]: `hosts`, `programs` or `folders`."""
    subject: str
    """The entry, as written in that list."""
    said: str
    """The observation, in words."""
    allow: bool
    """Whether rollouts may do it, as proposed."""


def outside_acts(recording: Recording, allowed: Iterable[str] = ()) -> tuple[OutsideAct, ...]:
    """What the recorded run contacted, started and wrote.

    Hosts that were only read from are proposed, and so are programs, which run contained as the
    agent does. What it wrote is not: rollouts write into a copy of their own.

    Args:
        recording: The recorded run.
        allowed: Subjects that the owner allows.

    Raises:
        InputError: One is not a host with a port, a program or a folder, and was not contacted.
    """
    permitted = dict.fromkeys(_LOOPBACK.sub("localhost", subject) for subject in allowed)
    models = {call.host for call in recording.calls}
    # What else is asked of a model's server, such as its list of models, is not led to the gateway.
    fixed = {call.host for call in recording.calls if not call.variables}
    acts = []
    for contact in recording.contacts:
        subject = f"{contact.host}:{contact.port}"
        reads = bool(contact.requests) and all(
            request.split(" ", 1)[0] in READING for request in contact.requests
        )
        names = {contact.host, subject}
        if names & models and not (reads and names & fixed):
            continue
        allow = reads or subject in permitted or contact.host in permitted
        acts.append(OutsideAct(key="hosts", subject=subject, said=_requests(contact), allow=allow))
    for program in recording.programs:
        starts = f"started {program.count} times" if program.count > 1 else "started once"
        subject = portable_name(program.path, recording.root)
        acts.append(OutsideAct(key="programs", subject=subject, said=starts, allow=True))
    folders = Counter(
        _folder(write.path) for write in recording.writes if write.place in ("home", "elsewhere")
    )
    for folder, count in folders.items():
        said, allow = f"{count} file{'s' * (count != 1)} written or deleted", folder in permitted
        acts.append(OutsideAct(key="folders", subject=folder, said=said, allow=allow))
    subjects = {act.subject for act in acts} | {contact.host for contact in recording.contacts}
    said = "not in the recorded run"
    acts += [
        OutsideAct(key=_key(subject, recording.root), subject=subject, said=said, allow=True)
        for subject in permitted
        if subject not in subjects
    ]
    return tuple({(act.key, act.subject): act for act in acts}.values())


def _key(subject: str, root: str) -> str:
    """The list of [agent.allow] that a subject belongs to."""
    if "/" in subject or subject.startswith("~"):
        return "programs" if shutil.which(PurePosixPath(root, subject)) else "folders"
    if re.search(r":\d+$", subject):
        return "hosts"
    if shutil.which(subject) is None:
        raise InputError(
            f"--allow {subject} is neither a program on the PATH nor a host that the recorded run "
            "contacted.",
            hint="Write a host with its port, as in api.tavily.com:443, and a folder with a slash.",
        )
    return "programs"


def _folder(path: str) -> str:
    """The folder of a file; for a file in the home folder, the folder directly in it."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[:2]) if parts[0] == "~" else PurePosixPath(path).parent.as_posix()


def _requests(contact: Contact) -> str:
    if not contact.requests:
        return f"{contact.count} connection{'s' * (contact.count != 1)}"
    return ", ".join(f"{count} × {request}" for request, count in contact.requests.items())
