"""What one run of the owner's command showed: frozen, and free of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.run.program_results import ended_with_input

FrameKind: TypeAlias = Literal["function", "coroutine", "generator", "async_generator", "module"]
Place: TypeAlias = Literal["project", "home", "temp", "elsewhere"]
Change: TypeAlias = Literal["created", "changed", "deleted"]
MissingKind: TypeAlias = Literal["variable", "module", "program", "host", "file"]


class CommandRun(msgspec.Struct, frozen=True, kw_only=True):
    """A command to record, which ends by itself."""

    argv: tuple[str, ...]
    stdin: str | None = None
    """Lines to give it on standard input, which then ends; None for none."""
    variables: Mapping[str, str] = {}
    """Besides the environment of this process."""


class ServiceRun(msgspec.Struct, frozen=True, kw_only=True):
    """A service to record while it answers one request."""

    url: str
    data: str
    """The body of the request."""
    serve: tuple[str, ...] = ()
    """The command that starts it; empty where its owner does."""
    method: str = "POST"
    headers: Mapping[str, str] = {}
    variables: Mapping[str, str] = {}


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a value, bounded and without secrets."""

    value: Any
    """As JSON; None where it cannot be copied."""
    whole: bool
    """Whether nothing was left out, cut or redacted."""
    type: str
    """Qualified name of its type, such as `str` or `support.state.Mail`."""


class Argument(Value, frozen=True, kw_only=True):
    """An argument of a recorded function."""

    name: str
    """Its parameter's; `*args` and `**kwargs` carry their stars."""
    is_default: bool = False
    """Whether the value is the parameter's default."""
    rebound: bool = False
    """Whether the function assigns to the parameter, so that this may be a later value."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One activation of a function of the repository."""

    file: str
    """Path relative to the repository, with slashes."""
    module: str
    """Its importable name; `__main__` for the file that was started; empty outside Python."""
    line: int
    """Of the definition in Python; elsewhere of the call."""
    function: str
    """Qualified name, such as `Desk.answer`; `<module>` for a module's own code."""
    kind: FrameKind
    activation: int
    """The same number in several calls: the same activation."""
    arguments: tuple[Argument, ...] = ()
    returned: Value | None = None
    """What it returned before the recording ended; of a generator, the list of its items."""
    raised: str = ""
    """Type and message of the exception that left it."""


class ModelText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was sent to a model."""

    role: str
    """`system`, `user`, `assistant`, `tool`."""
    text: str


class WatchedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model, with its answer."""

    number: int
    """In the order of their beginnings, from 0."""
    method: str
    path: str
    """Below the host, with its query but without keys in it."""
    host: str
    """Of the model, with the port where it is not the usual one."""
    dialect: str
    """`openai-chat`, `openai-responses`, `openai-completions`, `openai-embeddings`, `anthropic`,
    `gemini`, `ollama`, `bedrock`, `tgi`, `llama.cpp`; empty where the form is another one."""
    request: Any
    """The decoded body; None where it is no JSON."""
    texts: tuple[ModelText, ...]
    """Every text of a system's, developer's or user's message, in order."""
    response: str
    """The answer's text; of a call of tools, their names and arguments as JSON."""
    answer: bytes
    """The answer's body as it came, for a replay."""
    content_type: str
    status: int
    """0 where no answer came."""
    streamed: bool
    seconds: float
    stack: tuple[Frame, ...]
    """Outermost first; empty where it is not known."""
    pid: int
    """Of the process that called; 0 where it is not known."""
    client: str = ""
    """The library that called, such as `httpx`; empty where it is not known."""
    variables: tuple[str, ...] = ()
    """Names of the owner's own variables for a base URL that stand for its address."""
    in_python: bool = False
    """Whether the hook in a Python process has led it."""

    @property
    def is_embedding(self) -> bool:
        """Whether it asked for vectors of texts, which hold no prompts."""
        return is_embedding(self.path)


def is_embedding(path: str) -> bool:
    """Whether a path of a model's API answers with vectors: `/v1/embeddings`, `/api/embed`."""
    return "/embed" in path


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """A host that was contacted; model calls are not among them."""

    host: str
    port: int
    count: int
    requests: Mapping[str, int] = {}
    """Such as `POST /search`, with their numbers, as far as they could be read."""


class FileWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written."""

    path: str
    """Relative to the repository in it, with `~` in the home folder, else absolute."""
    place: Place
    how: Change


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that was started."""

    path: str
    count: int


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the command lacked."""

    kind: MissingKind
    name: str
    why: str
    """What asked for it, and where."""
    fix: str
    """What to do, as a sentence."""


class PythonUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that the command ran."""

    executable: str
    version: str
    sdk: bool
    """Whether Ratchet's SDK can be imported there."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the owner's command."""

    run: CommandRun | ServiceRun
    root: str
    """Absolute path of the repository's folder."""
    simulated: bool
    """Whether the simulated model answered."""
    exit_code: int | None
    """None for a service, and for a command that was ended at its time limit."""
    timed_out: bool
    stdout: str
    stderr_tail: str
    response: str
    """A service's answer."""
    response_status: int
    """HTTP status of it; 0 for a command, and where none came."""
    seconds: float
    """Of the command; of a service from its start to its answer."""
    overhead_s: float
    """What recording took besides, before and after."""
    calls: tuple[WatchedCall, ...]
    base_url_variables: tuple[str, ...]
    """The owner's own variables that led calls to their model, besides the libraries' own."""
    constructors: tuple[Frame, ...]
    """`__init__` of the repository's classes whose objects are `self` of recorded frames."""
    contacts: tuple[Contact, ...]
    writes: tuple[FileWrite, ...]
    programs: tuple[Program, ...]
    missing: tuple[Missing, ...]
    """All that is known to lack, where the run ended early."""
    data_files_read: tuple[str, ...]
    """Files of the repository that were opened for reading, without source; relative."""
    settings_read: tuple[str, ...]
    """Files of the home folder that the repository's code read and rollouts do not see: `~/…`."""
    modules_loaded: tuple[str, ...]
    """Its Python files that were imported or run; relative."""
    python: PythonUsed | None
    placeholders: tuple[str, ...]
    """Variables of keys that nobody has set: placeholders, for the simulated model."""
    notes: tuple[str, ...]
    """Sentences on what could not be seen."""

    @property
    def failed(self) -> bool:
        """Whether it did not end well."""
        if isinstance(self.run, ServiceRun):
            return not 200 <= self.response_status < 400
        return self.exit_code != 0 and not (self.run.stdin and ended_with_input(self.stderr_tail))
