"""Prepares modules as the owner's program imports them, and not before."""

from __future__ import annotations

import sys
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
    """Finds modules by the finders behind it, and prepares those that are patched or ours.

    Args:
        is_ours: Whether a file is the repository's.
        prepare: Applied to the repository's modules before they are executed.
    """

    def __init__(self, is_ours: Callable[[str], object], prepare: Callable[[Any], None]) -> None:
        self._is_ours = is_ours
        self._prepare = prepare

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The specification of a module, whose loader prepares it."""
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    break
        patch = _PATCHES.pop(name, None)
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        ours = load is not None and self._is_ours(getattr(spec, "origin", None) or "")
        if load is None or not (ours or patch):
            return spec

        def loading(module: Any) -> None:
            if ours:
                _apply(self._prepare, module)
            load(module)
            if patch is not None:
                _apply(patch, module)

        try:
            spec.loader.exec_module = loading  # type: ignore[union-attr]
        except AttributeError:
            pass  # a loader that lets nothing be changed: the module stays as it is
        return spec
