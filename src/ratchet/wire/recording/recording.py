"""The observations of one run of the owner's command: frozen, and free of secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from ratchet.run.program_results import ended_with_input

FrameKind: TypeAlias = Literal["function", "coroutine", "generator", "async_generator", "module"]
Place: TypeAlias = Literal["project", "home", "temp", "elsewhere"]
Change: TypeAlias = Literal["created", "changed", "deleted"]
MissingKind: TypeAlias = Literal["variable", "module", "program", "host", "file"]

_FORM = re.compile(r"[\w.\[\]-]+=[^&]*(?:&[\w.\[\]-]+=[^&]*)*")


class CommandRun(msgspec.Struct, frozen=True, kw_only=True):
    """A command to record; it ends by itself."""

    argv: tuple[str, ...]
    stdin: str | None = None
    """Lines for its standard input, which is then closed; None for none."""
    variables: Mapping[str, str] = {}
    """Added to the environment of this process."""


class ServiceRun(msgspec.Struct, frozen=True, kw_only=True):
    """A service to record while it answers one request."""

    url: str
    data: str
    """The body of the request."""
    serve: tuple[str, ...] = ()
    """The command that starts it; empty if its owner starts it."""
    method: str = "POST"
    headers: Mapping[str, str] = {}  # as under [agent.headers], with $NAME for variables
    variables: Mapping[str, str] = {}

    @property
    def form(self) -> dict[str, str]:
        """The fields of a body that is a form, `name=value&…`; empty for any other."""
        return dict(parse_qsl(self.data, True)) if _FORM.fullmatch(self.data) else {}


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a value, bounded and without secrets."""

    value: Any
    """The value as JSON; None if it cannot be copied."""
    whole: bool
    """Whether nothing was left out, truncated or redacted."""
    type: str
    """Qualified name of its type, such as `str` or `support.state.Mail`."""


class Argument(Value, frozen=True, kw_only=True):
    """An argument of a recorded function."""

    name: str
    """The parameter's name; `*args` and `**kwargs` keep their stars."""
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
    """In Python the line of the definition; elsewhere that of the call."""
    function: str
    """Qualified name, such as `Desk.answer`; `<module>` for a module's own code."""
    kind: FrameKind
    activation: int
    """Its number; the same in all model calls that were made within it."""
    arguments: tuple[Argument, ...] = ()
    returned: Value | None = None
    """What it returned before the recording ended; for a generator, the list of its items."""
    raised: str = ""
    """Type and message of the exception that it raised."""


class ModelText(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was sent to a model."""

    role: str
    """`system`, `user`, `assistant`, `tool`."""
    text: str


class WatchedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a model, with its answer."""

    number: int
    """Numbered from 0, in the order in which the calls began."""
    method: str
    path: str
    """Path and query, without the values of keys."""
    host: str
    """Host of the model, with the port if it is not the default."""
    dialect: str
    """`openai-chat`, `openai-responses`, `openai-completions`, `openai-embeddings`, `anthropic`,
    `gemini`, `ollama`, `bedrock`, `tgi`, `llama.cpp`; empty for any other."""
    request: Any
    """The decoded body; None if it is not JSON."""
    texts: tuple[ModelText, ...]
    """Every text in a system, developer or user message, in order."""
    response: str
    """The answer's text; of a call of tools, their names and arguments as JSON."""
    answer: bytes
    """The answer's raw body, for a replay."""
    content_type: str
    status: int
    """HTTP status; 0 if no answer came."""
    streamed: bool
    seconds: float
    stack: tuple[Frame, ...]
    """Frames, outermost first; empty if unknown."""
    pid: int
    """Id of the process that called; 0 if unknown."""
    client: str = ""
    """The library that called, such as `httpx`; empty if unknown."""
    variables: tuple[str, ...] = ()
    """Names of the owner's own base URL variables that hold its address."""
    by_hook: bool = False
    """Whether a hook in its process redirected it, in Python or Node."""

    @property
    def is_embedding(self) -> bool:
        """Whether it asked for embeddings of texts, which hold no prompts."""
        return is_embedding(self.path)


def is_embedding(path: str) -> bool:
    """Whether a path of a model's API answers with vectors: `/api/embed`, `:embedContent`."""
    return "embed" in path.lower()


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """A host that was contacted, other than for model calls."""

    host: str
    port: int
    count: int
    requests: Mapping[str, int] = {}
    """Counts by method and path, such as `POST /search`, as far as they could be read."""


class FileWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written."""

    path: str
    """Relative if in the repository, with `~` if in the home folder, else absolute."""
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
    """What needs it, and where."""
    fix: str
    """The remedy, as a sentence."""


class PythonUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that the command ran in."""

    executable: str
    version: str
    sdk: bool
    """Whether Ratchet's SDK can be imported in it."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the owner's command."""

    run: CommandRun | ServiceRun
    root: str
    """Absolute path of the repository's folder."""
    simulated: bool
    """Whether the simulated model answered the model calls."""
    exit_code: int | None
    """None for a service, and for a command that was ended at its time limit."""
    timed_out: bool
    stdout: str
    stderr_tail: str
    response: str
    """A service's answer."""
    response_status: int
    """HTTP status of the answer; 0 for a command, or if none came."""
    seconds: float
    """Seconds that the command ran, or that the service took from its start to its answer."""
    overhead_s: float
    """Seconds that recording took before and after."""
    calls: tuple[WatchedCall, ...]
    base_url_variables: tuple[str, ...]
    """The owner's own variables that led calls to their model, besides the libraries' own."""
    constructors: tuple[Frame, ...]
    """Constructors of the repository's classes whose objects are `self` in recorded frames."""
    contacts: tuple[Contact, ...]
    lacked_hosts: tuple[str, ...] = ()
    """`HOST:PORT` of the contacts that it may have failed without."""
    writes: tuple[FileWrite, ...]
    programs: tuple[Program, ...]
    missing: tuple[Missing, ...]
    """Everything known to be missing, if the run ended early."""
    data_files_read: tuple[str, ...]
    """Files of the repository that were opened for reading, except source; relative."""
    settings_read: tuple[str, ...]
    """Files in the home folder that the repository's code read and rollouts do not see: `~/…`."""
    modules_loaded: tuple[str, ...]
    """Its Python files that were imported or run; relative."""
    python: PythonUsed | None
    placeholders: tuple[str, ...]
    """Variables for API keys that were not set, and were given placeholders."""
    model_keys: tuple[str, ...] = ()
    """Those of these variables whose placeholders its model calls used."""
    notes: tuple[str, ...]
    """Sentences about what could not be observed."""

    @property
    def failed(self) -> bool:
        """Whether the run failed."""
        if isinstance(self.run, ServiceRun):
            return not 200 <= self.response_status < 400
        return self.exit_code != 0 and not (self.run.stdin and ended_with_input(self.stderr_tail))
