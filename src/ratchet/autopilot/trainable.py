"""The agent's model during training: served with adapters, and loaded to learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ratchet.autopilot.adapters import AdapterFolder, served_name
from ratchet.types import Adapter

if TYPE_CHECKING:
    from ratchet.learn import Lab
    from ratchet.models.policy import Base, PolicyServer

ADAPTERS, RUNS = "adapters", "training"
"""Folders in a project's state folder."""

SMALL_BYTES = 2_000_000_000
"""Size of a billion parameters of 16 bits each."""

LOAD_TIMEOUT_S = 60.0
"""Seconds within which a server must load an adapter."""


class ServedModel(Protocol):
    """A model at an address."""

    @property
    def base_url(self) -> str:
        """Base URL for OpenAI's libraries."""
        ...

    @property
    def key(self) -> str:
        """The server's key; may be empty."""
        ...


class TrainableModel:
    """A base model, its server, and the adapters that were trained on it.

    Args:
        source: As `load_base` takes it.
        server: The running server.
        state: The project's state folder.
        version: Identifies the base in rollouts.
        device: PyTorch's name of the device that it is trained on.
        dtype: Type of the base's numbers.
    """

    def __init__(
        self,
        source: str,
        server: PolicyServer,
        state: Path,
        version: str,
        *,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        self._source = source
        self._server = server
        self._state = state
        self.version = version
        self._device, self._dtype = device, dtype
        self.adapters = AdapterFolder(state / ADAPTERS)

    @property
    def base_url(self) -> str:
        """Base URL for OpenAI's libraries."""
        return self._server.base_url

    @property
    def key(self) -> str:
        """The server's key."""
        return self._server.key

    def load_base(self) -> Base:
        """Load the base model into this process, to train on it.

        Raises:
            ModelUnavailable: It cannot be loaded.
        """
        from ratchet.models.policy import load_base

        return load_base(self._source, device=self._device, dtype=self._dtype)

    @property
    def is_small(self) -> bool:
        """Whether the model has fewer than about a billion parameters."""
        from ratchet.models.policy.base import find_base

        path = find_base(self._source)
        files = [path] if path.is_file() else path.glob("*.safetensors")
        return sum(file.stat().st_size for file in files) < SMALL_BYTES

    def run_folder(self, lab: Lab, algorithm: str) -> Path:
        """The folder of an algorithm's training in a run of `ratchet improve`."""
        return self._state / RUNS / "-".join([lab.run_id, *(lab.parts or [algorithm])])

    def keep(self, folder: Path, base: Base, recipe: dict[str, Any]) -> Adapter:
        """Keep a trained adapter.

        Args:
            folder: The adapter.
            base: What it was trained on.
            recipe: How.

        Raises:
            StoreError: It cannot be written.
        """
        return Adapter(
            hash=self.adapters.keep(folder),
            base=base.fingerprint,
            tokenizer=base.tokenizer_hash,
            recipe=recipe,
        )

    def serve(self, adapter: Adapter) -> None:
        """Make the server serve an adapter under its name.

        Raises:
            InputError: It is missing, or was changed.
            ModelUnavailable: The server refuses it.
        """
        self.load(adapter.hash, self.adapters.verified(adapter))

    def load(self, hash: str, folder: Path) -> None:
        """Make the server serve the adapter in a folder.

        Raises:
            ModelUnavailable: The server refuses it.
        """
        from ratchet._http import httpx2
        from ratchet.models.failure import ModelUnavailable

        try:
            answer = httpx2.post(
                f"{self.base_url}/load_lora_adapter",
                json={"lora_name": served_name(hash), "lora_path": str(folder)},
                headers={"Authorization": f"Bearer {self.key}"},
                timeout=LOAD_TIMEOUT_S,
                trust_env=False,
            )
        except httpx2.HTTPError as error:
            raise ModelUnavailable(f"The model's server is gone: {error}.") from None
        if answer.status_code >= 400:
            raise ModelUnavailable(
                f"The model's server refuses the adapter {hash[:12]}: {answer.text[:500]}",
                hint=f"Remove its folder {folder}, or train it again for this base.",
            )


@contextmanager
def trainable_model(
    source: str,
    state: Path,
    say: Callable[[str], None],
    *,
    device: str = "cpu",
    dtype: str = "float32",
) -> Iterator[TrainableModel]:
    """Serve a model with the adapters of a project.

    Args:
        source: As `load_base` takes it.
        state: The project's state folder.
        say: Called with a sentence before something takes long.
        device: PyTorch's name of the device that serves and trains.
        dtype: `float32`, `bfloat16` or `float16`.

    Raises:
        ModelUnavailable: It cannot be started.
    """
    from ratchet.models.policy import PolicyServer
    from ratchet.models.policy.base import find_base, fingerprint

    say("Starting the model whose weights are trained…")
    adapter_paths = AdapterFolder(state / ADAPTERS).known()
    adapters = {served_name(hash): path for hash, path in adapter_paths}
    with PolicyServer(source, adapters=adapters, device=device, dtype=dtype) as server:
        version = fingerprint(find_base(source))
        if dtype != "float32":  # which answers a little differently
            version = f"{version}-{dtype}"
        yield TrainableModel(source, server, state, version, device=device, dtype=dtype)
