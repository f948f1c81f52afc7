"""The process that serves a model: llama.cpp with its HTTP server, from the package `xllamacpp`.

Its `main` gets the settings as an argument: `EngineSettings` as JSON. It prints its URL
as a line of JSON when the model is loaded, and serves until its standard input says so or ends.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import msgspec

STOP = b"stop\n"
"""Whether the process is told to exit immediately."""

KEY_VARIABLE = "RATCHET_MODEL_KEY"
"""Environment variable with the API key that requests must carry; unset if they need none."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a model's process."""

    path: str
    name: str
    """The name with which the model answers, whatever name a request has."""
    port: int
    """0 for any free port."""
    slots: int
    """Concurrent conversations; further ones wait."""
    context: int
    """Number of tokens in each slot, for prompt and answer together."""
    threads: int
    """Threads that compute."""
    kept_mib: int
    """Memory for prompts already processed, whose beginnings any slot may reuse."""
    template: str = ""
    """Chat template that replaces the file's; empty to keep the file's."""
    linger_s: float = 10.0
    """How long it continues to serve after its parent was killed: workers finish what they are
    running."""


def serve(settings: EngineSettings) -> str:
    """Load the model and serve it on loopback; return the server's URL.

    Raises:
        ImportError: xllamacpp is missing or does not fit this platform.
        RuntimeError: llama.cpp refuses the file or the settings; it has printed the reason.
    """
    # Threads of OpenMP wait for one another without pause unless they are told to sleep. Where the
    # agent's processes take a core from one of them, the others then burn theirs.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.path
    params.model_alias = {settings.name}
    params.hostnames = ["127.0.0.1"]
    params.port = settings.port
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context
    # Without a limit of its own, a request ends when its slot is full.
    params.n_predict = settings.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.api_keys = [key] if (key := os.environ.pop(KEY_VARIABLE, "")) else []
    # Web pages must not read answers, nor other programs the prompts of a slot.
    params.cors_origins = "http://127.0.0.1"
    params.endpoint_slots = False
    params.ui = False
    params.fit_params = False
    params.cache_ram_mib = settings.kept_mib
    params.chat_template = settings.template
    params.verbosity = 1
    global _server
    _server = xllamacpp.Server(params)
    return str(_server.listening_address)


_server: Any = None
"""Keeps the running server alive."""


def main() -> None:
    """Serve until told to stop, or until a while after the parent is gone."""
    settings = msgspec.json.decode(sys.argv[1], type=EngineSettings)
    try:
        url = serve(settings)
    except ImportError as error:
        print(f"xllamacpp does not run on this machine: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)
    print(msgspec.json.encode({"url": url}).decode(), flush=True)
    if sys.stdin.buffer.readline() != STOP:
        time.sleep(settings.linger_s)
    os._exit(0)
