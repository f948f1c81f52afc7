"""Patches modules when the owner's program imports them, and not before."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Callable

from .journal import quiet

_PATCHES: dict[str, Callable[[Any], None]] = {}


def after_import(name: str) -> Callable[[Callable[[Any], None]], None]:
    """Register a patch of a module, or apply it where the module is loaded already."""

    def register(patch: Callable[[Any], None]) -> None:
        if name in sys.modules:
            _apply(patch, sys.modules[name])
        else:
            _PATCHES[name] = patch

    return register


def _apply(patch: Callable[[Any], None], module: Any) -> None:
    with quiet():
        try:
            patch(module)
        except Exception:  # noqa: S110 - a version that is built otherwise stays as it is
            pass


class Patcher:
    """Finds the modules to patch by the finders behind it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The specification of a module, whose loader patches it once."""
        patch = _PATCHES.pop(name, None)
        if patch is None:
            return None
        spec = find_spec(name)
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        if spec is None or load is None:
            return spec

        def loading(module: Any) -> None:
            load(module)
            _apply(patch, module)

        try:
            spec.loader.exec_module = loading  # type: ignore[union-attr,method-assign]
        except AttributeError:
            return None
        return spec
