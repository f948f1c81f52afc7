"""Base URLs that stay the same for a process, while the attempt that its calls are for changes.

A client reads its base URL once, when it is made: in a service, in a module that is imported, in an
object that lives on. So these URLs are those of a relay on loopback, which leads each call to the
present attempt's path at the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ratchet.observe.model_apis import DialectName
from ratchet.run.model_relay import ModelRelay, RelayAnswer, RelayedRequest
from ratchet.types import Claim
from ratchet.worker.environment import NO_TOKEN, attempt_name, client_variables, gateway_urls

_NO_ATTEMPT = (
    "No rollout runs in this process now. Model calls that it makes while it starts, or once its"
    " answer is given, count for none."
)


class AttemptRelays:
    """The relays of an executor's processes: one server, with routes for each process.

    Args:
        server: URL of the server whose gateway serves model calls.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._relay = ModelRelay(answering=self._refused, trust_env=False)

    def start(self) -> None:
        """Listen on a free port of loopback."""
        self._relay.__enter__()

    def of(self, process: int) -> AttemptRelay:
        """The relay of a process, by its number."""
        return AttemptRelay(self._relay, str(process), self._server)

    def close(self) -> None:
        """End the relay, and calls under way."""
        self._relay.__exit__()

    def _refused(self, request: RelayedRequest) -> RelayAnswer | None:
        """The answer to a call that leads to no attempt, or elsewhere than to the gateway."""
        if request.url.startswith(f"{self._server}/gateway/"):
            return None
        error = {"error": {"message": _NO_ATTEMPT, "type": "no_rollout"}}
        return RelayAnswer(status=409, pieces=[msgspec.json.encode(error)])


class AttemptRelay:
    """The relay of one process, which runs one attempt at a time.

    Args:
        relay: The relay of the executor.
        name: Unique there.
        server: URL of the server whose gateway serves model calls.
    """

    def __init__(self, relay: ModelRelay, name: str, server: str) -> None:
        self._relay = relay
        self._server = server
        self._routes: Mapping[DialectName, str] = {
            "openai": f"openai-{name}",
            "anthropic": f"anthropic-{name}",
        }

    def variables(self, base_urls: Sequence[str] = (), keys: Sequence[str] = ()) -> dict[str, str]:
        """Environment variables that lead the providers' libraries to the relay.

        Args:
            base_urls: Further variables for the base URL.
            keys: Further variables for the API key.
        """
        urls: dict[DialectName, str] = {
            "openai": f"{self._relay.url}/{self._routes['openai']}/v1",
            "anthropic": f"{self._relay.url}/{self._routes['anthropic']}",
        }
        return client_variables(urls, NO_TOKEN, base_urls, keys)

    def lead_to(self, claim: Claim | None) -> None:
        """Let the calls from now on count for an attempt; None for no attempt."""
        urls: Mapping[DialectName, str] = {"openai": "", "anthropic": ""}
        if claim is not None:
            # The token, for the key that the process has opens no attempt.
            urls = gateway_urls(self._server, claim.token or attempt_name(claim))
        for dialect, route in self._routes.items():
            self._relay.lead(route, urls[dialect].removesuffix("/v1"))
