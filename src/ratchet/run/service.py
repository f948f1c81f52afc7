"""The service executor: each attempt is a POST to an agent that is already running.

The body is the task as JSON (see `task_json`); the response is the result (see `result_of`). The
service passes one header on to its model calls, so that the gateway can tell to which rollout each
belongs, or it uses the base URL that comes with the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from ratchet.observe.ids import traceparent
from ratchet.run.command import root_span, task_json
from ratchet.run.handover import result_of
from ratchet.types import AgentError, AttemptStatus, Claim, Outcome, Resource, Span
from ratchet.worker.attempt import MAX_OUTPUT_BYTES, AttemptClock, cut_off, timed_out
from ratchet.worker.environment import attempt_name, gateway_urls

if TYPE_CHECKING:
    import aiohttp

ROLLOUT_HEADER = "x-ratchet-rollout"
"""Header of a task, and of the model calls made for it: the attempt that they belong to."""

OPENAI_HEADER = "x-ratchet-openai-base-url"
ANTHROPIC_HEADER = "x-ratchet-anthropic-base-url"

CONNECT_S = 10.0
TAIL_CHARACTERS = 1_000


class ServiceExecutor:
    """Sends each attempt to a running service.

    Args:
        url: Where tasks are POSTed.
        slots: Attempts at once.
        timeout_s: Seconds that one attempt may take.
        server: URL of the server whose gateway serves model calls.
    """

    def __init__(self, url: str, *, slots: int, timeout_s: float, server: str) -> None:
        self._url = url
        self._slots = slots
        self._timeout_s = timeout_s
        self._server = server
        self._session: aiohttp.ClientSession | None = None

    @property
    def slots(self) -> int:
        """Attempts at once."""
        return self._slots

    async def start(self) -> None:
        """Check that something listens at the URL.

        Raises:
            AgentError: Nothing does.
        """
        import aiohttp

        place = urlsplit(self._url)
        port = place.port or (443 if place.scheme == "https" else 80)
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(place.hostname, port)
        except (OSError, TimeoutError) as error:
            raise AgentError(
                f"The service at {self._url} cannot be reached: {error or 'it does not answer'}.",
                hint="Start it, or correct url under [agent] in ratchet.toml.",
            ) from None
        writer.close()
        # A connection for each attempt: a service may serve each connection by one worker.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False)

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Send one task, and wait for the response or the time-out."""
        clock = AttemptClock()
        status: AttemptStatus = "failed"
        output: object = None
        try:
            async with asyncio.timeout(self._timeout_s):
                error, body = await self._post(claim, resources)
            if not error:
                status, output = "succeeded", result_of(body)
        except TimeoutError:
            status, error = "timed_out", timed_out(self._timeout_s)
        outcome = msgspec.structs.replace(cut_off(claim, status, error, clock), output=output)
        return msgspec.structs.replace(outcome, spans=(self._span(claim, outcome),))

    async def _post(self, claim: Claim, resources: Mapping[str, Resource]) -> tuple[str, bytes]:
        """Send a task; return what went wrong, or nothing, and the response's body."""
        import aiohttp

        assert self._session is not None
        headers = task_headers(self._server, claim)
        try:
            async with self._session.post(
                self._url, data=task_json(claim, resources), headers=headers, allow_redirects=False
            ) as response:
                body = await _limited(response)
                echoed = response.headers.get(ROLLOUT_HEADER)
        except (aiohttp.ClientError, OSError) as error:
            return f"The service failed: {type(error).__name__}: {error}", b""
        if body is None:
            return f"The service answered with more than {MAX_OUTPUT_BYTES} bytes.", b""
        if response.status // 100 != 2:
            text = body.decode("utf-8", "replace").strip()[-TAIL_CHARACTERS:]
            return f"The service answered {response.status} {response.reason}. {text}".strip(), b""
        if echoed is not None and echoed != headers[ROLLOUT_HEADER]:
            return (
                f"The service answered for another task: its header {ROLLOUT_HEADER} is that of"
                " another rollout."
            ), b""
        return "", body

    def _span(self, claim: Claim, outcome: Outcome) -> Span:
        """Root span of the attempt; the gateway's spans are its children."""
        attributes = {"gen_ai.operation.name": "invoke_agent", "ratchet.url": self._url}
        name = f"POST {urlsplit(self._url).path or '/'}"
        return root_span(claim, outcome, name, attributes)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: the service holds no outcomes."""

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def task_headers(server: str, claim: Claim) -> dict[str, str]:
    """Headers of a task.

    Args:
        server: URL of the server whose gateway serves model calls.
        claim: The attempt.
    """
    # The token, for the service has a key of its own, which opens no attempt.
    attempt = claim.token or attempt_name(claim)
    urls = gateway_urls(server, attempt)
    return {
        "content-type": "application/json",
        "traceparent": traceparent(claim.rollout.id, claim.fence),
        ROLLOUT_HEADER: attempt,
        OPENAI_HEADER: urls["openai"],
        ANTHROPIC_HEADER: urls["anthropic"],
    }


async def _limited(response: aiohttp.ClientResponse) -> bytes | None:
    """The response's body; None when it is too large."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_OUTPUT_BYTES:
            return None
    return bytes(body)
