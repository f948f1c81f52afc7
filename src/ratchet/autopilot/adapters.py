"""The trained adapters of a project, each in a folder named by its content hash."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ratchet._private_files import make_folder
from ratchet.types import LOCAL_MODELS, Adapter, InputError
from ratchet.weights.whole_folder import write_folder


class AdapterFolder:
    """Keeps adapters for as long as a release or a proof may need them.

    Args:
        folder: Their folder; it is created with the first one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, source: Path) -> str:
        """Copy an adapter atomically; return its content hash.

        Raises:
            ModelUnavailable: It cannot be read.
            StoreError: It cannot be written.
        """
        from ratchet.models.policy import adapter_hash

        hash = adapter_hash(source)
        make_folder(self._folder)
        if not self.path(hash).is_dir():

            def copy(partial: Path) -> None:
                shutil.copytree(source, partial, dirs_exist_ok=True)

            write_folder(self.path(hash), copy)
        return hash

    def path(self, hash: str) -> Path:
        """The folder of an adapter."""
        return self._folder / hash

    def verified(self, adapter: Adapter) -> Path:
        """The folder of an adapter, after checking its content against its name.

        Raises:
            InputError: It is missing or was changed.
        """
        from ratchet.models.policy import adapter_hash

        path = self.path(adapter.hash)
        if not path.is_dir():
            raise InputError(
                f"The trained adapter {adapter.hash[:12]} is not in {self._folder}.",
                hint="Copy it there from where it was trained, or train it again.",
            )
        if adapter_hash(path) != adapter.hash:
            raise InputError(
                f"The content of the adapter in {path} does not match the hash in its name.",
                hint="Copy it again from where it was trained.",
            )
        return path

    def known(self) -> Iterator[tuple[str, Path]]:
        """Hash and folder of each adapter."""
        if self._folder.is_dir():
            for path in sorted(self._folder.iterdir()):
                if (path / "adapter_config.json").is_file():
                    yield path.name, path


def adapters_of_base(folder: Path, fingerprint: str) -> Iterator[tuple[str, Path]]:
    """Served name and folder of each intact adapter of a base model.

    Args:
        folder: The adapters, each in a folder named by its content hash.
        fingerprint: The base model's.
    """
    from ratchet.models import ModelUnavailable
    from ratchet.models.policy import adapter_hash
    from ratchet.models.policy.adapter_folder import read_adapter_config

    for hash, path in AdapterFolder(folder).known():
        try:
            if read_adapter_config(path).base_model_name_or_path != fingerprint:
                continue
            if adapter_hash(path) == hash:
                yield served_name(hash), path
        except ModelUnavailable:
            continue


def served_name(hash: str) -> str:
    """The name that an adapter is served under: a local model's, whose calls cost nothing."""
    return f"{LOCAL_MODELS}{hash[:32]}"
