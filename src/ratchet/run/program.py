"""An agent in any language: a command run for each task, or a service that is sent tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import msgspec

from ratchet.run.handover import Handover
from ratchet.source.files import own_files
from ratchet.source.secret_files import in_secret_place
from ratchet.types import Declaration
from ratchet.types.hashing import HASH_LENGTH

if TYPE_CHECKING:
    from ratchet.run.agent_host import HostedAgent
    from ratchet.worker.agent import Agent

PythonAgent: TypeAlias = Union["Agent", "HostedAgent"]
"""An agent that is a function, loaded in this process or in an interpreter of its own."""

AnyAgent: TypeAlias = Union["Agent", "HostedAgent", "ProgramAgent"]
"""An agent in Python, or in any language.

`prompts_in_calls` says whether its prompts are those of its model calls, as the gateway sees them;
else the source declares them.
"""

MAX_FILE_BYTES = 1_000_000
"""Files larger than this are identified by size alone."""

MAX_FILES = 20_000


class ProgramSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Location of an agent written in any language."""

    entry: str
    """Command line or URL, as configured."""
    name: str
    """The agent's name at the gateway."""
    root: str
    """Absolute path of the project folder."""
    path: tuple[str, ...] = (".",)
    """Folders with the agent's source, relative to the root."""
    besides: tuple[str, ...] = ()
    """Files in them that are not the agent's source, relative to the root."""
    model: str = ""
    """Version of the local model that the agent calls; empty for any other model."""
    allowed: str = ""
    """Version of what rollouts may do beyond their own process; empty for nothing."""
    handover: Handover = Handover()
    """How it is given a task, and where its answer is found."""
    serve: tuple[str, ...] = ()
    """Program and arguments that start the service; empty for one that is already running, or a
    command."""
    restart: bool = False
    """Whether the service is started anew for each task."""


class ProgramAgent:
    """An agent that Ratchet cannot look into: it only sees the model calls at the gateway.

    Args:
        spec: Location of the agent.
    """

    kind = "program"
    is_async = False
    prompts_in_calls = True
    python = "any"

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.declarations: dict[str, Declaration] = {}
        """The prompts that were discovered in its model calls, by name."""

    def loaded_version(self) -> str:
        """The same as `source_version`: nothing of the agent is loaded in this process."""
        return self.source_version()

    def check_input(self, value: Any) -> None:
        """Check that a task's input has the fields that the agent's settings name.

        Raises:
            InputError: It lacks one.
        """
        self.spec.handover.check(value)

    def source_version(self) -> str:
        """Hash the files below the agent's folders, except those that git ignores.

        Part of a rollout's identity: an edited agent is another agent, and so is one that is given
        its tasks in another way, or may reach more. Files with secrets, Ratchet's own, and the task
        file do not count.
        """
        root = Path(self.spec.root).resolve()
        besides = {(root / name).resolve() for name in self.spec.besides}
        digest = hashlib.sha256(f"{self.spec.model}{self.spec.allowed}".encode())
        digest.update(msgspec.json.encode((self.spec.handover, self.spec.serve, self.spec.restart)))
        for file in source_files(root, self.spec.path):
            if file in besides or in_secret_place(file.relative_to(root)):
                continue
            digest.update(f"{file.relative_to(root)}\0".encode(errors="surrogateescape"))
            digest.update(_content_digest(file))
        return digest.hexdigest()[:HASH_LENGTH]


def source_files(root: Path, folders: Sequence[str] = (".",)) -> list[Path]:
    """The files below some folders of a project, sorted; without links and those that git
    ignores.

    Args:
        root: The project's folder.
        folders: Folders relative to it.
    """
    return [file for file in own_files(root, folders) if not file.is_symlink()][:MAX_FILES]


def _content_digest(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        data = file.read_bytes() if size <= MAX_FILE_BYTES else str(size).encode()
    except OSError:
        data = b""
    return hashlib.sha256(data).digest()
