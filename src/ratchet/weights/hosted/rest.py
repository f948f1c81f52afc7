"""Requests to a hosted service's own API: with time-outs, and repeated where that is safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from ratchet.llm.backoff import delay, requested_delay
from ratchet.weights.hosted.openai_api import refusal
from ratchet.weights.hosted.service import HostedFailure

_TRIES = 5
_jitter = random.Random()  # noqa: S311


class Rest:
    """A REST API with a bearer key.

    Args:
        base_url: Its address.
        key: Its key.
        timeout_s: Seconds for one response.
        sleep: Waits so many seconds before a request is repeated.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        timeout_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from ratchet._http import httpx2

        self._httpx = httpx2
        self.url = base_url.rstrip("/")
        self._sleep = sleep
        self._client = httpx2.Client(timeout=timeout_s)
        self._headers = {"Authorization": f"Bearer {key}"}

    def get(self, path: str, **options: Any) -> Any:
        """The decoded answer to a GET request, which is repeated after a transient failure."""
        return self._json(self._sent("GET", path, _TRIES, options))

    def post(self, path: str, **options: Any) -> Any:
        """The decoded answer to a POST request, sent once."""
        return self._json(self._sent("POST", path, 1, options))

    def send(self, method: str, path: str, **options: Any) -> Any:
        """The response to a request, sent once; a redirect counts as a response."""
        return self._sent(method, path, 1, options)

    def put_elsewhere(self, url: str, content: bytes) -> None:
        """Upload content to an address that the service named, without the key."""
        response = self._once("PUT", url, {"content": content}, {})
        if response.status_code >= 400:
            raise refusal(self.url, response.status_code, response.text)

    def _sent(self, method: str, path: str, tries: int, options: dict[str, Any]) -> Any:
        for number in range(1, tries + 1):
            response = self._once(method, f"{self.url}{path}", options, self._headers)
            if response.status_code < 400:
                return response
            passing = response.status_code == 429 or response.status_code >= 500
            if not passing or number == tries:
                raise refusal(self.url, response.status_code, _message(response))
            headers = {name.lower(): value for name, value in response.headers.items()}
            retry_after = requested_delay(headers, time.time())
            self._sleep(min(delay(number, retry_after, _jitter), 60.0))
        raise AssertionError("The last attempt either returns or raises.")

    def _once(self, method: str, url: str, options: dict[str, Any], headers: dict[str, str]) -> Any:
        try:
            return self._client.request(method, url, headers=headers, **options)
        except self._httpx.TimeoutException:
            raise HostedFailure(
                f"{self.url} did not answer in time.", hint="Run the same command again."
            ) from None
        except self._httpx.TransportError as error:
            raise HostedFailure(
                f"{self.url} cannot be reached: {error or type(error).__name__}.",
                hint="Run the same command again.",
            ) from None

    def _json(self, response: Any) -> Any:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise HostedFailure(
                f"{self.url} did not answer with a JSON object.",
                hint="Check base_url under [train] in ratchet.toml.",
            )
        return body


def _message(response: Any) -> str:
    try:
        body = response.json()
    except ValueError:
        return str(response.text)
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
