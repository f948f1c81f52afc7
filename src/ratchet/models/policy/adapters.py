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
"""Maximum number of adapters in memory; others are loaded from their folders when named."""


class KnownAdapter(msgspec.Struct, frozen=True):
    """An adapter in one version."""

    folder: Path
    version: str


class AdapterRegistry:
    """Maps the model's name in a request to weights.

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
        """Load an adapter under a name, which may already have another version.

        Raises:
            ModelUnavailable: The name is the base's, or the adapter cannot be loaded.
        """
        if name in self.base_names or not name:
            raise ModelUnavailable(
                f"An adapter cannot have the name {name!r}, which is the base model's.",
                hint="Choose another lora_name.",
            )
        adapter = KnownAdapter(folder.absolute(), check_adapter(folder, self._base))
        self._in_memory(adapter)
        self.names[name] = self._versions[adapter.version] = adapter
        return adapter

    def unload(self, name: str) -> bool:
        """Remove a name; return whether it existed. Running requests are not affected."""
        adapter = self.names.pop(name, None)
        if adapter is None:
            return False
        if adapter.version not in {loaded.version for loaded in self.names.values()}:
            self._versions.pop(adapter.version, None)
        return True

    def find(self, name: str) -> tuple[LoadedAdapter | None, str] | None:
        """The weights that a name means, with their version; None if there are none.

        Raises:
            ModelUnavailable: The adapter's folder is gone, or has other content now.
        """
        if name in self.base_names:
            return None, self._base.fingerprint
        adapter = self.names.get(name) or self._versions.get(name)
        return None if adapter is None else (self._in_memory(adapter), adapter.version)

    def _in_memory(self, adapter: KnownAdapter) -> LoadedAdapter:
        loaded = self._loaded.get(adapter.version)
        if loaded is None:
            loaded = load_adapter(adapter.folder, self._base)
            if loaded.version != adapter.version:
                raise ModelUnavailable(
                    f"The adapter in {adapter.folder} has changed since it was loaded: its "
                    f"version was {adapter.version[:16]}…, and is now {loaded.version[:16]}….",
                    hint="Load the new version under another name.",
                )
            self._loaded[adapter.version] = loaded
        self._loaded.move_to_end(adapter.version)
        for version, cached in list(self._loaded.items()):
            if len(self._loaded) <= self._limit:
                break
            if version != adapter.version and not self._engine.uses(cached):
                del self._loaded[version]
                self._engine.forget(cached)
        return loaded
