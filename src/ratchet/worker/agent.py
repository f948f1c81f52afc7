"""Loads an agent from MODULE:FUNCTION and maps task inputs to its parameters."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet._redirected_files import leave_to_rollouts
from ratchet.bind import Knobs, declarations, importing
from ratchet.bind.marked_functions import bind_marked_functions
from ratchet.observe import ENTRY_MARK, is_async, trace
from ratchet.observe.instruments.table import Misfit, misfits
from ratchet.types import (
    AgentError,
    Declaration,
    InputError,
    Params,
    Resource,
)
from ratchet.types.hashing import HASH_LENGTH
from ratchet.worker.mapped_arguments import Parameters
from ratchet.worker.results import settling


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Location of an agent."""

    entry: str
    """MODULE:FUNCTION."""
    root: str
    """Absolute path of the project folder."""
    path: tuple[str, ...] = (".",)
    """Folders prepended to `sys.path`, relative to the root."""
    model: str = ""
    """Version of the local model that the agent calls; empty for any other model."""
    allowed: str = ""
    """Version of what rollouts may do beyond their own process; empty for nothing."""
    python: str = ""
    """Path of the interpreter that runs it; empty for the tool's own."""
    variables: dict[str, str] = {}
    """Environment variables of the agent's processes, such as those that point to that model."""
    prompts_in_calls: bool = False
    """Whether its prompts are found in its model calls, at the gateway."""
    in_files: tuple[Declaration, ...] = ()
    """Prompts in files, which the agent reads but does not declare."""
    arguments: dict[str, Any] | None = None
    """The value of each parameter: constants, and texts with placeholders; None to derive
    them from the input."""
    construct: dict[str, Any] = {}
    """The same for the constructor of the class, if the entry is a method."""


class Agent:
    """A loaded agent. Create one with `load_agent`."""

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    """Version of the Python that runs it."""

    def __init__(
        self, spec: AgentSpec, function: Callable[..., Any], owner: type | None = None
    ) -> None:
        self.spec = spec
        self._owner = owner
        """The class, if the agent is a method; each attempt has its own object."""
        self.kind: str = getattr(function, ENTRY_MARK, "plain")
        self.is_async = is_async(function) or inspect.isasyncgenfunction(function)
        # Agents without a decorator of Ratchet get a root span here.
        self.function = function if self.kind != "plain" else trace(settling(function))
        signature = inspect.signature(function)
        if owner is not None:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        self._signature = signature
        self._parameters = Parameters(function, signature, "[agent.arguments]")
        self._constructor: Parameters | None = None
        if owner is not None:
            self._constructor = Parameters(owner, inspect.signature(owner), "[agent.construct]")
        parameters = self._signature.parameters.values()
        self._named = {
            p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        self._takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._takes_one = _fits(self._signature)
        self._check_settings()
        self._loaded = _loaded_files()
        self._in_files = _declared_in_files(spec)
        self._discovered: dict[str, Declaration] = {}

    @property
    def prompts_in_calls(self) -> bool:
        """Whether its prompts are discovered in its model calls, since its source declares none."""
        return self.spec.prompts_in_calls

    def _check_settings(self) -> None:
        """Check [agent.arguments] and [agent.construct].

        Raises:
            AgentError: The function or the class has other parameters.
        """
        spec = self.spec
        if spec.construct and self._owner is None:
            raise AgentError(
                f"[agent.construct] is for a method of a class, but {spec.entry} is not one.",
                hint="Remove it, or set entry to the method: MODULE:CLASS.METHOD.",
            )
        if self._owner is not None and self._constructor is not None:
            self._constructor.check_names(spec.construct, self._owner.__name__)
        if spec.arguments is not None:
            if self.kind == "rollout":
                raise AgentError(
                    f"{spec.entry} is marked with @ratchet.rollout: it receives the task and its "
                    "resources, so [agent.arguments] does not apply."
                )
            self._parameters.check_names(spec.arguments, spec.entry)

    @property
    def declarations(self) -> dict[str, Declaration]:
        """The resources declared in the agent's source and in its prompt files, by name.

        Those that were discovered in its model calls, where its prompts are found there.
        """
        return {**declarations(), **self._in_files, **self._discovered}

    @declarations.setter
    def declarations(self, discovered: dict[str, Declaration]) -> None:
        self._discovered = discovered

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the parameters that have a default."""
        return tuple(n for n, p in self._named.items() if p.default is not p.empty)

    @property
    def docstring(self) -> str:
        """The function's docstring; empty if it has none."""
        return self.function.__doc__ or ""

    def misfits(self) -> list[Misfit]:
        """Instrumentors that do not fit the libraries that the agent has imported."""
        return misfits()

    def check_input(self, value: Any) -> None:
        """Check that a task's input fits the agent's parameters.

        Raises:
            InputError: It does not.
        """
        self._mapped(value, {})
        if self._constructor is not None:
            self._constructor.filled(self.spec.construct, value)

    def arguments(
        self, task_input: Any, resources: Mapping[str, Resource]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Map a task's input to positional and keyword arguments; a method's object comes first.

        Raises:
            InputError: The input does not fit the function's parameters.
        """
        args, kwargs = self._mapped(task_input, resources)
        if self._owner is None or self._constructor is None:
            return args, kwargs
        bound = self._constructor.filled(self.spec.construct, task_input)
        return (self._owner(*bound.args, **bound.kwargs), *args), kwargs

    def _mapped(
        self, task_input: Any, resources: Mapping[str, Resource]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.kind == "rollout":
            return (task_input,), self._resources_by_parameter(resources)
        if self.spec.arguments is not None:
            settings = self.spec.arguments
            if (
                isinstance(task_input, dict)
                and len(settings) > 1
                and task_input.keys() == settings.keys()
            ):
                bound = self._parameters.named(task_input)  # the arguments of a recorded call
            else:
                bound = self._parameters.filled(settings, task_input)
            return bound.args, bound.kwargs
        args, kwargs = self._by_input(task_input)
        if not self._parameters.types:
            return args, kwargs
        bound = self._parameters.typed(self._signature.bind(*args, **kwargs), self.spec.entry)
        return bound.args, bound.kwargs

    def _by_input(self, task_input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The input as one argument, or a dict with parameter names as several."""
        spread = False
        if isinstance(task_input, dict):
            spread = bool(task_input) and task_input.keys() <= self._named.keys()
            if self._takes_any_name:
                # **inputs takes the remaining keys once every required parameter has its own.
                required = {n for n, p in self._named.items() if p.default is p.empty}
                spread = required <= task_input.keys()
        if not spread and self._takes_one:
            return (task_input,), {}
        args, kwargs = ((), task_input) if spread else ((task_input,), {})
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(
                f"The task's input does not fit {self.spec.entry}{self._signature}: {error}."
            ) from None
        return args, kwargs

    def _resources_by_parameter(self, resources: Mapping[str, Resource]) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        for parameter in list(self._signature.parameters.values())[1:]:
            resource = resources.get(parameter.name)
            if isinstance(resource, Params):
                chosen[parameter.name] = Knobs(parameter.name, resource)
            elif resource is not None:
                chosen[parameter.name] = resource
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                raise InputError(
                    f"The parameter {parameter.name!r} of {self.spec.entry} does not name a "
                    f"resource; there are {sorted(resources)}."
                )
        return chosen

    def source_version(self) -> str:
        """Hash the source files of the entry's package and of every module loaded from the root.

        Part of a rollout's identity: an edited agent is another agent, and so is one with another
        local model, or one that may reach more.
        """
        return self._version(_loaded_files())

    def loaded_version(self) -> str:
        """Like `source_version`, for the modules that were loaded with the agent.

        Equal in all processes that load the same source, whatever they import afterwards: another
        machine's runner imports no evaluators.
        """
        return self._version(self._loaded)

    def _version(self, loaded: Iterable[str]) -> str:
        root = Path(self.spec.root).resolve()
        module = sys.modules[self.spec.entry.partition(":")[0]]
        files = {Path(file).resolve() for file in _below(root, loaded)}
        top = sys.modules.get(module.__name__.partition(".")[0])
        for folder in getattr(top, "__path__", []):
            files.update(Path(folder).resolve().rglob("*.py"))
        digest = hashlib.sha256(f"{self.spec.model}{self.spec.allowed}".encode())
        if self.spec.arguments is not None or self.spec.construct:
            digest.update(msgspec.json.encode((self.spec.arguments, self.spec.construct)))
        for file in sorted(f for f in files if _is_inside(f, root)):
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        for path in sorted({prompt.file for prompt in self.spec.in_files if prompt.file}):
            digest.update(f"{os.path.relpath(path, root)}\0".encode())
            digest.update(hashlib.sha256(original_bytes(Path(path))).digest())
        return digest.hexdigest()[:HASH_LENGTH]


def load_agent(spec: AgentSpec) -> Agent:
    """Import an agent.

    Raises:
        AgentError: The entry is malformed, its module does not import (the message includes the
            module's own traceback), or it has no such function.
        InputError: An evolve marker comment has no counterpart.
    """
    module_name, _, function_name = spec.entry.partition(":")
    if not module_name or not function_name:
        raise AgentError(
            f"The agent entry {spec.entry!r} is not MODULE:FUNCTION.",
            hint='Write for example entry = "my_agent.main:answer" under [agent] in ratchet.toml.',
        )
    leave_to_rollouts()
    prepend_folders(spec.root, spec.path)
    try:
        with importing():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise AgentError(
                f"The agent {spec.entry!r} was not found: there is no module {error.name!r} in"
                f" {', '.join(_folders(spec.root, spec.path))}.",
                hint="Check entry and path under [agent] in ratchet.toml.",
            ) from None
        raise AgentError(_import_failure(spec.entry, error)) from error
    except (Exception, SystemExit) as error:
        raise AgentError(_import_failure(spec.entry, error)) from error
    bind_marked_functions(Path(spec.root).resolve())
    target: Any = module
    owner: type | None = None
    for part in function_name.split("."):
        is_method = isinstance(target, type) and inspect.isfunction(
            inspect.getattr_static(target, part, None)
        )
        owner = target if is_method else None
        target = getattr(target, part, None)
    if not callable(target):
        names = sorted(n for n, v in vars(module).items() if inspect.isfunction(v))
        raise AgentError(
            f"Module {module_name!r} has no function {function_name!r}; it has {names[:20]}.",
            hint="Check entry under [agent] in ratchet.toml.",
        )
    try:
        return Agent(spec, target, owner)
    except ValueError as error:  # some functions written in C
        raise AgentError(
            f"The parameters of {spec.entry!r} cannot be determined: {error}."
        ) from None


def original_bytes(path: Path) -> bytes:
    """A file's original content, even if reading it is redirected elsewhere.

    Raises:
        InputError: It cannot be read, or is not utf-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
        with open(descriptor, "rb") as file:
            data = file.read()
        data.decode()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error}.", hint="Save it as UTF-8.") from None
    return data


def _declared_in_files(spec: AgentSpec) -> dict[str, Declaration]:
    """The prompts in files.

    Raises:
        InputError: The source declares a prompt of that name too.
    """
    declared = {prompt.name: prompt for prompt in spec.in_files}
    both = sorted(declared.keys() & declarations().keys()) if declared else []
    if both:
        raise InputError(
            f"The agent declares {both[0]!r} in its source, and [[prompt_files]] declares it too.",
            hint='Remove one of the two, or give the file\'s prompts another prefix: name = "…".',
        )
    return declared


def _loaded_files() -> frozenset[str]:
    """Source files of the modules that this process has loaded."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return frozenset(file for file in files if isinstance(file, str) and file.endswith(".py"))


def _below(root: Path, files: Iterable[str]) -> list[str]:
    """The files that are in the root once symbolic links in their folders are resolved.

    A process has loaded thousands of files from hundreds of folders; each folder is looked at once.
    """
    real: dict[str, str] = {}

    def resolved(folder: str) -> str:
        if folder not in real:
            parent, name = os.path.split(folder)
            if parent == folder:
                return folder
            path = os.path.join(resolved(parent), name)
            real[folder] = os.path.realpath(path) if os.path.islink(path) else path
        return real[folder]

    start = os.path.join(root, "")
    return [
        file
        for file in files
        if os.path.join(resolved(os.path.dirname(os.path.abspath(file))), "").startswith(start)
    ]


def prepend_folders(root: str, path: Sequence[str]) -> None:
    """Make the user's modules importable.

    Args:
        root: Absolute path of the project folder.
        path: Folders relative to it, the first of which is searched first.
    """
    for folder in reversed(_folders(root, path)):
        if folder not in sys.path:
            sys.path.insert(0, folder)


def _folders(root: str, path: Sequence[str]) -> Sequence[str]:
    return [str((Path(root) / folder).resolve()) for folder in path]


def _import_failure(entry: str, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    # Frames of the import machinery and of this file are noise; the user's own follow them.
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    where = "".join(traceback.format_list(own[-4:]))
    what = "".join(traceback.format_exception_only(error)).rstrip()
    return f"The agent {entry!r} cannot be imported:\n{where}{what}\n"


def _fits(signature: inspect.Signature) -> bool:
    """Whether the function accepts one positional argument."""
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True


def _is_inside(file: Path, root: Path) -> bool:
    if not file.is_relative_to(root) or not file.is_file():
        return False
    parts = file.relative_to(root).parts
    return not any(p.startswith(".") or p in ("site-packages", "__pycache__") for p in parts)
