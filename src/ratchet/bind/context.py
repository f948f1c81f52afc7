"""Resolves a resource's name to the version of the rollout, the release or the source.

Order of lookup: the `contextvars` binding of the current rollout, the process's own rollout (a
worker process runs one at a time, so threads without context are correct too), the versions of the
live call, the active release, the source's default. Never blocks on I/O and never raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

import msgspec

from ratchet import _live_calls
from ratchet._redirected_files import leave_to_rollouts, redirect
from ratchet.types import Candidate, RatchetError, Resource

BINDING_VARIABLE = "RATCHET_BINDING"
"""Environment variable from which an agent's child processes inherit its binding: path of a JSON
file with the candidate's resources."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of one rollout."""

    resources: dict[str, Resource]
    candidate_id: str = ""
    seed: int = 0
    sandboxed: bool = False
    """Whether this process is a sandbox; only there may code differ from the source."""
    check_returns: bool = False
    """Whether return values of a candidate's functions are checked against the source's
    annotations."""
    files: dict[str, bytes] = {}
    """Content of prompt files, by real path, where it differs from the source's."""


SEED_VARIABLE = "RATCHET_SEED"
"""Environment variable with the seed of the rollout that started a child process. Separate from
BINDING_VARIABLE, whose file is written once per candidate, while seeds change with each rollout."""


class _Scope:
    """A binding, and whether its rollout has ended."""

    __slots__ = ("binding", "over")

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.over = False


_current: ContextVar[_Scope | None] = ContextVar("ratchet_binding", default=None)
_process: Binding | None = None
_active: Mapping[str, Resource] = {}
_importing = False
_read_at_import: set[str] = set()


def current() -> Binding | None:
    """The binding of the current rollout, or None outside rollouts."""
    scope = _current.get()
    # A thread that serves several rollouts carries the context of the one that started it. Where
    # one rollout runs at a time, the running one takes precedence.
    if scope is None or (scope.over and _process is not None):
        return _process
    return scope.binding


def resolve(name: str) -> Resource | None:
    """The resource bound to `name` in the current context, or None for the source's default."""
    if _importing:
        _read_at_import.add(name)
    binding = current()
    if binding is not None:
        return binding.resources.get(name)
    live = _live_calls.current()
    return (_active if live is None else live.resources).get(name)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Record which resources are read in this block, which imports an agent."""
    global _importing
    before, _importing = _importing, True
    try:
        yield
    finally:
        _importing = before


def read_at_import() -> set[str]:
    """Names of the resources that were read while the agent was imported."""
    return _read_at_import


@contextlib.contextmanager
def bound(binding: Binding) -> Iterator[None]:
    """Bind inside this block, and in the asyncio tasks and context-carrying threads it starts."""
    scope = _Scope(binding)
    token = _current.set(scope)
    try:
        yield
    finally:
        scope.over = True
        # A coroutine that is never finished is closed by the garbage collector, in an arbitrary
        # context.
        with contextlib.suppress(ValueError):
            _current.reset(token)


def bind_process(binding: Binding | None) -> None:
    """Bind the whole process; only for processes that run one rollout, or one candidate, at a time.

    Files of prompts stay redirected when the binding ends: what was read of them stays, too.
    """
    global _process
    _process = binding
    if binding is not None and binding.files:
        redirect(binding.files)


def activate(candidate: Candidate | None) -> None:
    """Make a candidate the active release of this process; None restores the source's defaults.

    It applies to code outside rollouts, until `ratchet.init` finds another release.
    """
    serve(candidate.resources if candidate else {})


def serve(resources: Mapping[str, Resource]) -> None:
    """Resolve to these resources outside rollouts and live calls that have their own versions.

    Args:
        resources: Those of the active release, by name.
    """
    global _active
    _active = dict(resources)


def _inherit() -> None:
    path = os.environ.get(BINDING_VARIABLE)
    if not path:
        return
    leave_to_rollouts()
    # A helper process of an agent must not fail because its parent's temporary file is gone.
    with contextlib.suppress(OSError, ValueError, RatchetError), open(path, "rb") as file:
        binding = msgspec.json.decode(file.read(), type=Binding)
        seed = int(os.environ.get(SEED_VARIABLE, binding.seed))
        bind_process(msgspec.structs.replace(binding, seed=seed))


def current_seed(default: int = 0) -> int:
    """Seed of the current rollout, for an agent's own randomness."""
    binding = current()
    return binding.seed if binding else default


_inherit()
