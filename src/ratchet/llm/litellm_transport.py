"""A line through litellm, for providers without an OpenAI-compatible endpoint."""

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
    """Through the `litellm` library; retries are not its business here.

    Args:
        place: Where to.

    Raises:
        CoachUnavailable: The library is not installed.
    """

    def __init__(self, place: Endpoint) -> None:
        # Else it fetches a list of prices when it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        try:
            litellm: Any = import_module("litellm")
        except ImportError:
            raise CoachUnavailable(
                f"The coach's model {place.model!r} is reached through litellm, which is not"
                " installed.",
                hint="pip install 'agent-ratchet[litellm]', or name the base_url of an"
                " OpenAI-compatible endpoint under [coach].",
            ) from None
        self._litellm = litellm
        litellm.telemetry = False
        litellm.suppress_debug_info = True  # it prints advice to the terminal
        self._place = place

    async def send(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        """As `Line.send`."""
        place = self._place
        where = {"api_base": place.base_url} if place.base_url else {}
        if place.key:
            where["api_key"] = place.key
        try:
            answer = await self._litellm.acompletion(
                **{**body, "model": place.model},
                **where,
                timeout=timeout_s,
                num_retries=0,
                max_retries=0,
            )
        except Exception as error:  # its own, the providers' libraries', and a few of Python's
            raise _trouble(place, error, timeout_s) from None
        return msgspec.json.encode(answer.model_dump(mode="json"))

    async def close(self) -> None:
        """As `Line.close`."""
        close = getattr(self._litellm, "close_litellm_async_clients", None)
        if close is not None:
            await close()


def _trouble(place: Endpoint, error: Exception, timeout_s: float) -> RequestFailed:
    kind = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return timed_out(place, timeout_s)
    status = getattr(error, "status_code", None)
    if "APIConnection" in kind or not isinstance(status, int) or status < 300:
        then = "again" if "Connection" in kind else "never"
        return RequestFailed(
            f"{place.model!r} cannot be asked through litellm: {quote(place, error)}",
            then,  # type: ignore[arg-type]
            hint="Its name and the variables that it takes are in litellm's list of providers.",
            kind=kind,
        )
    response = getattr(error, "response", None)
    headers = {
        str(k).lower(): str(v) for k, v in (getattr(response, "headers", None) or {}).items()
    }
    return of_status(place, status, headers, str(error), str(error), time.time())
