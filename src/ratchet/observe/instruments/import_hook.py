"""Import hook: calls a function when a module is imported, or at once if it already is.

So `init` imports no library to instrument it, and may be called before or after its import.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_lock = threading.RLock()
_waiting: dict[str, list[Callable[[], object]]] = {}


def when_imported(module: str, then: Callable[[], object]) -> None:
    """Call a function once, as soon as a module has been imported.

    Args:
        module: Its full name.
        then: The function; called within the import statement, so it must not raise.
    """
    with _lock:
        if module not in sys.modules:
            _waiting.setdefault(module, []).append(then)
            # Moved to the front: a finder ahead of it would bypass the hook.
            if not sys.meta_path or sys.meta_path[0] is not _hook:
                if _hook in sys.meta_path:
                    sys.meta_path.remove(_hook)
                sys.meta_path.insert(0, _hook)
            return
    then()


def load(path: str) -> Any:
    """Import `module`, or the object that `module:name` refers to.

    Raises:
        ImportError: The module does not exist.
        AttributeError: The module has no such name.
    """
    module, _, name = path.partition(":")
    loaded: Any = importlib.import_module(module)
    return getattr(loaded, name) if name else loaded


class _ImportHook(MetaPathFinder):
    """Delegates to the other finders, and wraps the loader of what they find."""

    def __init__(self) -> None:
        self._searching = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting or getattr(self._searching, "here", False):
            return None
        self._searching.here = True
        try:
            spec = _find(fullname, path, target)
        finally:
            self._searching.here = False
        if spec is not None and spec.loader is not None:
            _watch_loader(spec.loader)
        return spec


_hook = _ImportHook()


def _find(
    fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        look = getattr(finder, "find_spec", None)
        if finder is _hook or look is None:
            continue
        spec: ModuleSpec | None = look(fullname, path, target)
        if spec is not None:
            return spec
    return None


def _watch_loader(loader: Any) -> None:
    run = getattr(loader, "exec_module", None)
    if run is None or isinstance(run, functools.partial):
        return
    try:
        # On the instance, so that the loader's type does not change.
        loader.exec_module = functools.partial(_run_and_notify, run)
    except (AttributeError, TypeError):  # a loader that cannot be wrapped is left alone
        return


def _run_and_notify(run: Callable[[ModuleType], None], module: ModuleType) -> None:
    run(module)
    with _lock:
        callbacks = _waiting.pop(module.__name__, [])
    for then in callbacks:
        then()
