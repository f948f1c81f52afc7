"""Turns calls of the entry in `ratchet.toml` into traces, wherever the program calls it.

The source stays as it is: the function is wrapped when its module is imported, or at once if it
was. A module that is run as `__main__` is executed a single time and cannot be wrapped before that;
there, what is defined when `ratchet.init` is called is.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ratchet.observe.decorators import ENTRY_MARK, agent

Wrap = Callable[[ModuleType], None]


def trace_entry(entry: str) -> None:
    """Trace the calls of a function.

    Args:
        entry: MODULE:FUNCTION, or MODULE:CLASS.METHOD.
    """
    name, _, function = entry.partition(":")
    loaded = sys.modules.get(name)
    main = sys.modules.get("__main__")
    if loaded is not None:
        _wrap(loaded, function)
    else:
        sys.meta_path.insert(0, _EntryFinder(name, lambda module: _wrap(module, function)))
    if main is not None and main is not loaded and _stem(main) == name.rpartition(".")[2]:
        _wrap(main, function)


def _stem(module: ModuleType) -> str:
    file = getattr(module, "__file__", None) or ""
    return os.path.splitext(os.path.basename(file))[0]


def _wrap(module: ModuleType, function: str) -> None:
    """Replace a function by its traced form; leaves it if it is missing or already traced."""
    *owners, name = function.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part, None)
    original = vars(owner).get(name) if owner is not None else None
    if original is not None and not hasattr(original, ENTRY_MARK):
        setattr(owner, name, agent(original))


class _EntryFinder(importlib.abc.MetaPathFinder):
    """Wraps a module's function once the module has been executed."""

    def __init__(self, name: str, wrap: Wrap) -> None:
        self._name = name
        self._wrap = wrap

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that wraps; None for every other module."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = (
                find(fullname, path, target) if find else None
            )
            if spec is not None and spec.loader is not None:
                spec.loader = _EntryLoader(spec.loader, self._wrap)
                return spec
        return None


class _EntryLoader(importlib.abc.Loader):
    """The module's own loader, and then the wrapping."""

    def __init__(self, loader: Any, wrap: Wrap) -> None:
        self._loader = loader
        self._wrap = wrap

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and wrap its function."""
        self._loader.exec_module(module)
        self._wrap(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # such as get_source, for tracebacks
