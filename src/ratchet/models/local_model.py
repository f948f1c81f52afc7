"""A local model in a process of its own: its crash does not end this process."""

from __future__ import annotations

import platform
import secrets
import socket
from importlib.util import find_spec

import msgspec

from ratchet.models.capacity import choose_capacity, usable_cores
from ratchet.models.chat_template import served_template
from ratchet.models.engine import EngineSettings
from ratchet.models.failure import ModelUnavailable
from ratchet.models.memory import as_megabytes, bytes_available, bytes_needed
from ratchet.models.model_file import ModelFile, check_memory
from ratchet.models.process import ModelProcess
from ratchet.types import content_hash

START_TIMEOUT_S = 120.0
"""How long loading a model may take, in seconds."""


class LocalModel:
    """Serves a model on loopback with the OpenAI API, in a process of its own.

    A context manager: the process ends with it, and soon after this process, if that is killed.

    Args:
        file: The model.
        port: Port to listen on; 0 for a free one.
        slots: Conversations at once; further requests wait. As context and threads, it is chosen
            from the machine when it is left out; see `choose_capacity`.
        context: Tokens of each slot, prompt and answer together; at most what the model was
            trained for. llama.cpp rounds it up to a multiple of 256.
        threads: Threads that compute.
        start_s: How long loading may take.
        require_key: Whether requests must carry `key`.

    Example:
        with LocalModel(find_model("smollm2", print)) as model:
            client = OpenAI(base_url=model.base_url, api_key=model.key)
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        port: int = 0,
        slots: int | None = None,
        context: int | None = None,
        threads: int | None = None,
        start_s: float = START_TIMEOUT_S,
        require_key: bool = True,
    ) -> None:
        self.file = file
        self.capacity = choose_capacity(
            file_bytes=file.bytes,
            cache_bytes_per_token=file.header.cache_bytes_per_token,
            trained_context=file.header.context,
            cores=usable_cores(),
            available=bytes_available(),
            slots=slots,
            context=context,
            threads=threads,
        )
        """Its slots, context and threads."""
        self.settings = EngineSettings(
            path=str(file.path),
            name=file.name,
            port=port,
            slots=self.capacity.slots,
            context=self.capacity.context,
            threads=self.capacity.threads,
            kept_mib=self.capacity.tokens * file.header.cache_bytes_per_token >> 20,
            template=served_template(file.header),
        )
        self.key = secrets.token_hex(16) if require_key else ""
        self.base_url = ""
        """Base URL for OpenAI's libraries, once the model is loaded."""
        self._process = ModelProcess(
            "ratchet.models.engine",
            file.path.name,
            start_s=start_s,
            hint="Check that llama.cpp can run this model, and that the file is complete.",
        )

    def __enter__(self) -> LocalModel:
        """Start the process and wait until the model is loaded.

        Raises:
            ModelUnavailable: The engine is not installed, the memory does not suffice, the port is
                taken, or the process ends or takes too long; its last output is in the message.
        """
        require_engine()
        check_memory(self.file, self.capacity.tokens)
        check_port(self.settings.port)
        self.base_url = self._process.start(msgspec.json.encode(self.settings), self.key) + "/v1"
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.end()

    @property
    def sentence(self) -> str:
        """A sentence that says how it is served."""
        needed = bytes_needed(
            self.file.bytes, self.file.header.cache_bytes_per_token, self.capacity.tokens
        )
        return f"{self.capacity}, in {as_megabytes(needed)} of memory"

    @property
    def version(self) -> str:
        """Identifies the model in rollouts, with its chat template if not the file's."""
        template = self.settings.template
        return (
            f"{self.file.version}+{content_hash(template)[:8]}" if template else self.file.version
        )

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


def require_engine() -> None:
    """Check that the package with the engine is installed.

    Raises:
        ModelUnavailable: It is not.
    """
    if find_spec("xllamacpp") is None:
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        raise ModelUnavailable(
            f"A local model needs the package xllamacpp, which {runtime} on"
            f" {platform.system()} {platform.machine()} does not have.",
            hint="Install it: pip install 'agent-ratchet[local]'. If pip finds no wheel for this "
            "Python and CPU, serve the model with another program, such as llama-server or "
            "Ollama, and point OPENAI_BASE_URL or base_url to it.",
        )


def check_port(port: int) -> None:
    """Check that a port of this machine is free.

    Raises:
        ModelUnavailable: It is taken, or may not be used.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ModelUnavailable(
                f"The model cannot listen on port {port} of 127.0.0.1: {error.strerror}.",
                hint="Choose another port with --port; 0 picks a free one.",
            ) from None
