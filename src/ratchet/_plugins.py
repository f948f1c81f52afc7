"""Plug-ins: what installed packages add to Ratchet, by entry points."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ratchet.types import ConfigError


def load_plugin(
    group: str,
    name: str,
    setting: str,
    built_in: Iterable[str] = (),
    is_usable: Callable[[Any], bool] = callable,
) -> Any:
    """Load what an installed package offers under a name.

    Args:
        group: Name of the entry points' group.
        name: The name.
        setting: The key or option that holds the name, for error messages.
        built_in: Names that exist without a package, for error messages.
        is_usable: Whether an object is what the group needs.

    Raises:
        ConfigError: No package offers it, or two do; or it does not load, or is something else.
    """
    offered = list(entry_points(group=group, name=name))
    if not offered:
        known = sorted({*built_in, *(entry.name for entry in entry_points(group=group))})
        near = difflib.get_close_matches(name, known, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        among = f"is not one of {', '.join(known)}" if known else "is offered by no package"
        raise ConfigError(
            f"{setting} = {name!r} {among}.{meant}",
            hint=f"A package beside Ratchet's tool adds one by an entry point of {group}.",
        )
    if len(offered) > 1:
        packages = " and ".join(sorted(map(package_of, offered)))
        raise ConfigError(
            f"{setting} = {name!r} is offered by {packages}.", hint="Uninstall all but one of them."
        )
    (entry,) = offered
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{setting} = {name!r} cannot be loaded from {package_of(entry)}:"
            f" {type(error).__name__}: {error}.",
            hint=f"It is {entry.value} there. Install another version of that package.",
        ) from error
    if not is_usable(plugin):
        raise ConfigError(
            f"{setting} = {name!r} is {entry.value} of {package_of(entry)}, which cannot be used as"
            f" one of the group {group}: it is {plugin!r:.100}.",
            hint="Install another version of that package.",
        )
    return plugin


def package_of(entry: EntryPoint) -> str:
    """Name and version of the package that has an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package"
