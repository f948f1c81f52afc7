"""`ratchet mcp --http`: the same server over streamable HTTP, on loopback only."""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING

from ratchet.cli.console import out
from ratchet.types import InputError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

HOST = "127.0.0.1"


def serve_http(server: MCPServer, port: int) -> None:
    """Serve until interrupted, and print the address, whose path holds a secret.

    Other people of this machine can reach loopback too; without the secret they get 404. The SDK
    refuses requests whose Host or Origin is another, such as those of a page in a browser.

    Args:
        server: The server.
        port: The port; 0 for a free one.

    Raises:
        InputError: The port is taken, or may not be used.
    """
    import uvicorn

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(
            f"Port {port} cannot be used: {error.strerror}.",
            hint="Choose another port, or let the system choose: ratchet mcp --http 0",
        ) from None
    path = f"/{secrets.token_urlsafe(24)}/mcp"
    app = server.streamable_http_app(streamable_http_path=path, host=HOST)
    serving = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    bound_port = listening.getsockname()[1]
    out.print(f"http://{HOST}:{bound_port}{path}", markup=False)
    out.file.flush()
    serving.run(sockets=[listening])
