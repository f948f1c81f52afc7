"""A policy server in a process of its own, as a context manager."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ratchet.models.capacity import usable_cores
from ratchet.models.local_model import check_port
from ratchet.models.policy.base import base_name, find_base, require_train
from ratchet.models.policy.serving import DEFAULT_SLOTS, PolicySettings
from ratchet.models.process import ModelProcess

START_TIMEOUT_S = 600.0
"""How long loading may take, in seconds."""


class PolicyServer:
    """Serves a base model and adapters on loopback with the OpenAI API, in a process of its own.

    A context manager: the process ends with it, and soon after this process, if that is killed.

    Args:
        source: The base model, as `load_base` takes it.
        adapters: Folders of adapters by the name that requests use.
        port: Port to listen on; 0 for a free one.
        slots: Answers at once; further requests wait.
        context: Tokens of a conversation; at most what the model was trained for, and that when
            left out.
        threads: Threads that compute; by default one for every two cores: PyTorch's wait for one
            another without pause, and stand still together where the agent's processes take a core
            from one of them.
        device: PyTorch's name of a device.
        dtype: `float32`, `bfloat16` or `float16`.
        deterministic: Whether a request's answer is the same, bit for bit, whatever else is served.
        queue: Requests that may wait; more are refused with 429.
        own_distribution: Ignore temperature, top_p, top_k and penalties of requests: answers are
            drawn from the model's own distribution, as learning by reinforcement wants it.
        start_s: How long loading may take.
        require_key: Whether requests must carry `key`.

    Example:
        with PolicyServer("smollm2", adapters={"step-3": folder}) as server:
            client = OpenAI(base_url=server.base_url, api_key=server.key)
    """

    def __init__(
        self,
        source: str | Path,
        *,
        adapters: Mapping[str, Path | str] | None = None,
        port: int = 0,
        slots: int = DEFAULT_SLOTS,
        context: int | None = None,
        threads: int | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        deterministic: bool = False,
        queue: int = 256,
        own_distribution: bool = False,
        start_s: float = START_TIMEOUT_S,
        require_key: bool = True,
    ) -> None:
        self.settings = PolicySettings(
            source=str(source),
            adapters={
                name: str(Path(folder).absolute()) for name, folder in (adapters or {}).items()
            },
            port=port,
            slots=slots,
            context=context,
            threads=threads or max(1, usable_cores() // 2),
            device=device,
            dtype=dtype,
            deterministic=deterministic,
            queue=queue,
            own_distribution=own_distribution,
        )
        self.name = base_name(source)
        """The base model's name for requests, such as `local/smollm2`."""
        self.key = secrets.token_hex(16) if require_key else ""
        self.base_url = ""
        """Base URL for OpenAI's libraries, once the model is loaded."""
        self._process = ModelProcess(
            "ratchet.models.policy.serving",
            self.name,
            start_s=start_s,
            hint="Check that it is a causal language model of transformers, and that its files "
            "are complete.",
        )

    def __enter__(self) -> PolicyServer:
        """Start the process and wait until the model is loaded.

        Raises:
            ModelUnavailable: The extra `train` is missing, there is no such model, the port is
                taken, or the process ends or takes too long; its last output is in the message.
        """
        require_train()
        find_base(self.settings.source)
        check_port(self.settings.port)
        self.base_url = self._process.start(msgspec.json.encode(self.settings), self.key) + "/v1"
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.end()

    @property
    def pid(self) -> int:
        """Process id; 0 before the start."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until the process ends by itself, which should not happen.

        Raises:
            ModelUnavailable: Always; the message says how it ended.
        """
        self._process.wait()
