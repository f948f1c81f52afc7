"""A handler that calls a server."""

from __future__ import annotations

import socket
import urllib.request


def handle(_state: None, body: bytes) -> bytes:
    """Fetch what the body names, or connect to it."""
    word, _, rest = body.decode().partition(" ")
    if word == "get":
        with urllib.request.urlopen(rest, timeout=10) as response:
            answer: bytes = response.read()
        return answer
    host, _, port = rest.partition(" ")
    socket.create_connection((host, int(port)), 3).close()
    return b"connected"
