"""The process that serves a policy.

It behaves as the process of `ratchet.models.engine`: it prints its URL as a line of JSON when the
model is loaded, and serves until its standard input says so or ends.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import msgspec

from ratchet.models.engine import KEY_VARIABLE, STOP
from ratchet.types import RatchetError

DEFAULT_SLOTS = 16
"""Default number of answers at once."""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a policy's process."""

    source: str
    """As `load_base` takes it."""
    adapters: dict[str, str] = {}
    """Folders of adapters by name."""
    port: int = 0
    """0 for any free port."""
    slots: int = DEFAULT_SLOTS
    """Concurrent answers; further requests wait."""
    context: int | None = None
    """Maximum number of tokens of a conversation; None for as many as the model was trained for."""
    threads: int
    """Threads that compute."""
    device: str = "cpu"
    dtype: str = "float32"
    deterministic: bool = False
    queue: int = 256
    """Maximum number of requests that may wait."""
    own_distribution: bool = False
    linger_s: float = 10.0
    """How long it continues to serve after its parent was killed: workers finish what they are
    running."""


def serve(settings: PolicySettings) -> None:
    """Load the model and serve it on loopback until the process ends.

    Raises:
        ModelUnavailable: The model or an adapter cannot be loaded.
        OSError: The port is taken.
    """
    key = os.environ.pop(KEY_VARIABLE, "")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from ratchet.models.policy.base import load_base, require_train

    require_train()
    import torch
    import uvicorn

    from ratchet.models.policy.adapters import AdapterRegistry
    from ratchet.models.policy.app import PolicyApp
    from ratchet.models.policy.engine import PolicyEngine

    torch.set_num_threads(settings.threads)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", settings.port))
    base = load_base(settings.source, device=settings.device, dtype=settings.dtype)
    engine = PolicyEngine(
        base,
        slots=settings.slots,
        context=settings.context,
        deterministic=settings.deterministic,
    )
    adapters = AdapterRegistry(base, engine)
    for name, folder in settings.adapters.items():
        adapters.load(name, Path(folder))
    app = PolicyApp(
        base,
        engine,
        adapters,
        key=key,
        queue=settings.queue,
        own_distribution=settings.own_distribution,
    )
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        backlog=4096,
    )
    listening.listen(4096)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    # Connections wait in the socket's queue until uvicorn takes them.
    print(msgspec.json.encode({"url": url}).decode(), flush=True)
    uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    """Serve until told to stop, or until a while after the parent is gone."""
    settings = msgspec.json.decode(sys.argv[1], type=PolicySettings)
    threading.Thread(target=_end_with_parent, args=(settings.linger_s,), daemon=True).start()
    try:
        serve(settings)
    except RatchetError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


def _end_with_parent(linger_s: float) -> None:
    if sys.stdin.buffer.readline() != STOP:
        time.sleep(linger_s)
    os._exit(0)
