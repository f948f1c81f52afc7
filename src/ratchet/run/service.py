"""The service executor: each attempt is a POST to an agent that is already running.

What is sent, and where in the response the result is, a `Handover` says. The service passes one
header on to its model calls, so that the gateway can tell to which rollout each belongs, or it uses
the base URL that comes with the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from ratchet.observe.ids import traceparent
from ratchet.run.command import root_span, task_json
from ratchet.run.handover import FORM_TYPE, Handover
from ratchet.run.program_results import events_of, result_at, result_of, result_of_events
from ratchet.types import AgentError, AttemptStatus, Claim, InputError, Outcome, Resource
from ratchet.types.wording import size_text
from ratchet.worker.attempt import MAX_OUTPUT_BYTES, AttemptClock, cut_off, timed_out
from ratchet.worker.environment import attempt_name, gateway_urls

if TYPE_CHECKING:
    import aiohttp

ROLLOUT_HEADER = "x-ratchet-rollout"
"""Header of a task, and of the model calls made for it: the attempt that they belong to."""

OPENAI_HEADER = "x-ratchet-openai-base-url"
ANTHROPIC_HEADER = "x-ratchet-anthropic-base-url"

CONNECT_TIMEOUT_S = 10.0
TAIL_CHARACTERS = 1_000


class ServiceClient:
    """Sends tasks to a service, and reads its responses.

    Args:
        handover: What is sent, and where in the response the result is.
        server: URL of the server whose gateway serves model calls.
    """

    def __init__(self, handover: Handover, server: str) -> None:
        self._handover = handover
        self._server = server
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Prepare to send; called in the running event loop."""
        import aiohttp

        # A connection for each attempt: a service may serve each connection by one worker.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        # The attempt has the only limit of time.
        self._session = aiohttp.ClientSession(
            connector=connector, trust_env=False, timeout=aiohttp.ClientTimeout(total=None)
        )

    async def answer(self, url: str, claim: Claim, resources: Mapping[str, Resource]) -> object:
        """Send a task; return the result.

        Raises:
            ServiceFailure: The service fails, or answers with no result.
        """
        import aiohttp

        assert self._session is not None
        headers = task_headers(self._server, claim)
        is_form = bool(self._handover.form)
        headers["content-type"] = FORM_TYPE if is_form else "application/json"
        headers |= self._handover.headers
        try:
            sent = self._handover.request(claim.rollout.input)
            if sent is None and not self._handover.query:
                sent = task_json(claim, resources)
            async with self._session.request(
                self._handover.method,
                url,
                params=self._handover.fields(claim.rollout.input),
                data=sent,
                headers=headers,
                allow_redirects=False,
            ) as response:
                body = await _limited(response)
                echoed = response.headers.get(ROLLOUT_HEADER)
        except InputError as error:
            raise ServiceFailure(error.message) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"The service failed: {type(error).__name__}: {error}"
            raise ServiceFailure(message, broke_off=True) from None
        if body is None:
            raise ServiceFailure(
                f"The service answered with more than {size_text(MAX_OUTPUT_BYTES)}."
            )
        if response.status // 100 != 2:
            text = body.decode("utf-8", "replace").strip()[-TAIL_CHARACTERS:]
            status = f"{response.status} {response.reason}"
            raise ServiceFailure(f"The service answered {status}. {text}".strip())
        if echoed is not None and echoed != headers[ROLLOUT_HEADER]:
            raise ServiceFailure(
                f"The service answered for another task: the response's header {ROLLOUT_HEADER} "
                "names another rollout."
            )
        path = self._handover.output
        try:
            streamed = response.content_type == "text/event-stream"
            events = events_of(body, streamed=streamed) if streamed or path else []
            if streamed or events:
                return result_of_events(events, path)
            return result_at(body, path) if path else result_of(body)
        except InputError as error:
            raise ServiceFailure(f"The service answered, but {error.message}") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


class ServiceFailure(Exception):
    """A service did not return a result for a task.

    Args:
        message: Says so.
        broke_off: Whether the connection broke off, or could not be made.
    """

    def __init__(self, message: str, *, broke_off: bool = False) -> None:
        super().__init__(message)
        self.broke_off = broke_off


class ServiceExecutor:
    """Sends each attempt to a running service.

    Args:
        url: Where tasks are POSTed.
        handover: What is sent, and where in the response the result is.
        slots: Attempts at once.
        timeout_s: Seconds that one attempt may take.
        server: URL of the server whose gateway serves model calls.
    """

    def __init__(
        self,
        url: str,
        *,
        handover: Handover | None = None,
        slots: int,
        timeout_s: float,
        server: str,
    ) -> None:
        self._url = url
        self._slots = slots
        self._timeout_s = timeout_s
        self._client = ServiceClient(handover or Handover(), server)

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots

    async def start(self) -> None:
        """Check that something listens at the URL.

        Raises:
            AgentError: Nothing does.
        """
        place = urlsplit(self._url)
        port = place.port or (443 if place.scheme == "https" else 80)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(place.hostname, port)
        except (OSError, TimeoutError) as error:
            raise AgentError(
                f"The service at {self._url} cannot be reached: {error or 'it does not answer'}.",
                hint="Start it, or let Ratchet start it with serve = … under [agent] in "
                "ratchet.toml.",
            ) from None
        writer.close()
        self._client.open()

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Send one task, and wait for the response or the time-out."""
        clock = AttemptClock()
        status: AttemptStatus = "failed"
        output: object = None
        error = ""
        try:
            async with asyncio.timeout(self._timeout_s):
                output = await self._client.answer(self._url, claim, resources)
            status = "succeeded"
        except TimeoutError:
            status, error = "timed_out", timed_out(self._timeout_s)
        except ServiceFailure as failure:
            error = str(failure)
        return service_outcome(cut_off(claim, status, error, clock), claim, output, self._url)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: the service holds no outcomes."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def service_outcome(outcome: Outcome, claim: Claim, output: object, url: str) -> Outcome:
    """An outcome with its output and its root span, which is the parent of the gateway's spans."""
    outcome = msgspec.structs.replace(outcome, output=output)
    attributes = {"gen_ai.operation.name": "invoke_agent", "ratchet.url": url}
    span = root_span(claim, outcome, f"POST {urlsplit(url).path or '/'}", attributes)
    return msgspec.structs.replace(outcome, spans=(span,))


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
        "traceparent": traceparent(claim.rollout.id, claim.fence),
        ROLLOUT_HEADER: attempt,
        OPENAI_HEADER: urls["openai"],
        ANTHROPIC_HEADER: urls["anthropic"],
    }


async def _limited(response: aiohttp.ClientResponse) -> bytes | None:
    """The response's body; None if it is too large."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_OUTPUT_BYTES:
            return None
    return bytes(body)
