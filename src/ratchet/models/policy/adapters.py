"""The adapters of a server: by name and by version, in memory or in their folders."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import msgspec

from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy.base import Base
from ratchet.models.policy.engine import PolicyEngine
from ratchet.models.policy.lora import LoadedAdapter, check_adapter, load_adapter

IN_MEMORY = 8
"""Adapters that are kept in memory; the others come back from their folders when they are named."""


class KnownAdapter(msgspec.Struct, frozen=True):
    """A version of an adapter."""

    folder: Path
    version: str


class AdapterRegistry:
    """Finds the weights that a model's name in a request means.

    A name means the version that was loaded last; a version's content hash is a name, too. What
    was loaded stays servable: under its hash when its name got a newer version.

    Args:
        base: The base model.
        engine: The engine, which tells what is in use.
        in_memory: How many adapters are kept in memory.
    """

    def __init__(self, base: Base, engine: PolicyEngine, in_memory: int = IN_MEMORY) -> None:
        self._base, self._engine, self._limit = base, engine, in_memory
        self.names: dict[str, KnownAdapter] = {}
        self._versions: dict[str, KnownAdapter] = {}
        self._loaded: OrderedDict[str, LoadedAdapter] = OrderedDict()
        short = base.name.rpartition("/")[2]
        self.base_names = {base.name, short, base.fingerprint}

    def load(self, name: str, folder: Path) -> KnownAdapter:
        """Load an adapter under a name, which may have another version already.

        Raises:
            ModelUnavailable: The name is the base's, or the adapter cannot be loaded.
        """
        if name in self.base_names or not name:
            raise ModelUnavailable(
                f"An adapter cannot have the name {name!r}, which is the base's.",
                hint="Choose another lora_name.",
            )
        known = KnownAdapter(folder.absolute(), check_adapter(folder, self._base))
        self._in_memory(known)
        self.names[name] = self._versions[known.version] = known
        return known

    def unload(self, name: str) -> bool:
        """Forget a name; return whether it was known. Requests that run are not disturbed."""
        known = self.names.pop(name, None)
        if known is None:
            return False
        if known.version not in {one.version for one in self.names.values()}:
            self._versions.pop(known.version, None)
        return True

    def find(self, name: str) -> tuple[LoadedAdapter | None, str] | None:
        """The weights that a name means, with their version; None when there are none.

        Raises:
            ModelUnavailable: The adapter's folder is gone, or has other content now.
        """
        if name in self.base_names:
            return None, self._base.fingerprint
        known = self.names.get(name) or self._versions.get(name)
        return None if known is None else (self._in_memory(known), known.version)

    def _in_memory(self, known: KnownAdapter) -> LoadedAdapter:
        found = self._loaded.get(known.version)
        if found is None:
            found = load_adapter(known.folder, self._base)
            if found.version != known.version:
                raise ModelUnavailable(
                    f"The adapter in {known.folder} has changed since it was loaded: it was version"
                    f" {known.version[:16]}…, now it is {found.version[:16]}….",
                    hint="Load it again under a name of its own.",
                )
            self._loaded[known.version] = found
        self._loaded.move_to_end(known.version)
        for version, one in list(self._loaded.items()):
            if len(self._loaded) <= self._limit:
                break
            if version != known.version and not self._engine.uses(one):
                del self._loaded[version]
                self._engine.forget(one)
        return found
