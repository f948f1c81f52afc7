"""Chat transport over litellm, for providers without an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from ratchet.llm.chat import CoachUnavailable
from ratchet.llm.endpoint import Endpoint
from ratchet.llm.failures import RequestFailed, of_status, quote
from ratchet.llm.transport import timed_out


class LitellmTransport:
    """Sends requests with the `litellm` library, without its retries.

    Args:
        endpoint: Target of the requests.

    Raises:
        CoachUnavailable: The library is not installed.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        # Otherwise it downloads a price list on import.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        try:
            litellm: Any = import_module("litellm")
        except ImportError:
            raise CoachUnavailable(
                f"The coach's model {endpoint.model!r} is reached through litellm, which is not"
                " installed.",
                hint="pip install 'agent-ratchet[litellm]', or name the base_url of an"
                " OpenAI-compatible endpoint under [coach].",
            ) from None
        self._litellm = litellm
        litellm.telemetry = False
        litellm.suppress_debug_info = True  # it prints advice to the terminal
        self._endpoint = endpoint

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """See `ChatTransport.send`."""
        endpoint = self._endpoint
        where = {"api_base": endpoint.base_url} if endpoint.base_url else {}
        if endpoint.key:
            where["api_key"] = endpoint.key
        try:
            answer = await self._litellm.acompletion(
                **{**body, "model": endpoint.model},
                **where,
                timeout=timeout_s,
                num_retries=0,
                max_retries=0,
            )
        except Exception as error:  # litellm's, the providers' libraries' and built-in ones
            raise _request_failed(endpoint, error, timeout_s) from None
        return msgspec.json.encode(answer.model_dump(mode="json"))

    async def close(self) -> None:
        """See `ChatTransport.close`."""
        close = getattr(self._litellm, "close_litellm_async_clients", None)
        if close is not None:
            await close()


def _request_failed(endpoint: Endpoint, error: Exception, timeout_s: float) -> RequestFailed:
    kind = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return timed_out(endpoint, timeout_s)
    status = getattr(error, "status_code", None)
    if "APIConnection" in kind or not isinstance(status, int) or status < 300:
        remedy = "again" if "Connection" in kind else "never"
        return RequestFailed(
            f"{endpoint.model!r} cannot be called through litellm: {quote(endpoint, error)}",
            remedy,  # type: ignore[arg-type]
            hint="See litellm's list of providers for the model's name and the variables to set.",
            kind=kind,
        )
    response = getattr(error, "response", None)
    headers = {
        str(k).lower(): str(v) for k, v in (getattr(response, "headers", None) or {}).items()
    }
    return of_status(endpoint, status, headers, str(error), str(error), time.time())
