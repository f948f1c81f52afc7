"""The addresses that a sandbox may reach, and no others."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ratchet.sandbox import SandboxFailed, SandboxLimits, SandboxPool, SandboxUnavailable, relay
from ratchet.sandbox.inside import landlock
from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock

HERE = Path(__file__).parent
BUBBLEWRAP = pytest.mark.skipif(why_no_bubblewrap() != "", reason=f"{why_no_bubblewrap()}")


class Handler(BaseHTTPRequestHandler):
    """Answers with the path and the host it was asked for, and a megabyte."""

    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Host']} ".encode() + b"x" * 1_000_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Of an HTTP server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def pool(level: str, connect: list[tuple[str, int]]) -> SandboxPool:
    return SandboxPool(
        "handlers.calling:handle",
        path=[HERE],
        level=level,
        connect=connect,
        slots=1,
        bare=True,
        limits=SandboxLimits(seconds=20),
    )


async def test_a_server_of_this_machine_is_reached_at_its_own_address(
    containing: str, port: int
) -> None:
    if containing == "landlock" and landlock.version() < landlock.TCP_FROM:
        pytest.skip("this kernel's Landlock has no network rules")
    with socket.create_server(("127.0.0.1", 0)) as other:
        async with pool(containing, [("localhost", port)]) as warm:
            for name in ("localhost", "127.0.0.1"):
                answer = await warm.request(f"get http://{name}:{port}/path".encode())
                assert answer.status == "ok", answer
                assert answer.body.startswith(f"/path {name}:{port} ".encode())
                assert len(answer.body) > 1_000_000
            refused = await warm.request(f"connect 127.0.0.1 {other.getsockname()[1]}".encode())
            assert refused.status == "raised"
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.accept()


@BUBBLEWRAP
async def test_a_name_is_reached_at_any_port_from_a_network_of_its_own(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = relay.asyncio.open_connection

    async def resolved(host: str, there: int) -> Any:
        # Stands for the name service, which tests do not have.
        assert (host, there) in (("models.example", 443), ("other.example", 443))
        return await real("127.0.0.1", port)

    monkeypatch.setattr(relay.asyncio, "open_connection", resolved)
    async with pool("bubblewrap", [("models.example", 443), ("other.example", 443)]) as warm:
        for name in ("models.example", "other.example"):
            answer = await warm.request(f"get http://{name}:443/".encode())
            assert answer.body.startswith(f"/ {name}:443 ".encode()), answer
        unknown = await warm.request(b"get http://third.example:443/")
        assert (unknown.status, "Name or service not known" in unknown.error) == ("raised", True)


@BUBBLEWRAP
async def test_a_server_that_is_down_looks_down_and_the_sandbox_goes_on() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        down = closed.getsockname()[1]
    async with pool("bubblewrap", [("localhost", down)]) as warm:
        for _ in range(2):
            answer = await warm.request(f"get http://localhost:{down}/".encode())
            assert answer.status == "raised"


@pytest.mark.skipif(why_no_landlock() != "", reason=f"{why_no_landlock()}")
def test_what_cannot_be_reached_is_said_before_anything_starts() -> None:
    with pytest.raises(SandboxFailed, match=r"models\.example:443 cannot be reached from a Landl"):
        pool("landlock", [("models.example", 443)])
    with pytest.raises(SandboxFailed, match="ports are 1 to 65535"):
        pool("landlock", [("localhost", 70_000)])
    with pytest.raises(SandboxUnavailable, match="Landlock has no network rules"):
        relay.addresses([("localhost", 80)], "landlock", 3)
    with pytest.raises(SandboxFailed, match="by its IP address"):
        relay.addresses([("10.0.0.7", 80)], "bubblewrap", 7)
    with contextlib.suppress(SandboxFailed):
        relay.addresses([("10.0.0.7", 80)], "none", 0)
