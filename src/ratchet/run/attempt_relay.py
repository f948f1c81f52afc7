"""Base URLs that stay the same for a process while it runs one attempt after another.

A client reads its base URL once, when it is made: in a service, in a module that is imported, in an
object that lives on. So these URLs are those of a relay on loopback, which leads each call to the
present attempt's path at the gateway. Calls to the agent's model hosts arrive there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import msgspec

from ratchet.observe.model_apis import DialectName
from ratchet.run.model_hosts import (
    UPSTREAM_HEADER,
    asked_url,
    hook_variables,
    operation_of,
    proxy_of,
    reached_at,
)
from ratchet.run.model_relay import ModelRelay, RelayAnswer, RelayedRequest
from ratchet.types import Claim
from ratchet.worker.environment import NO_TOKEN, attempt_name, client_variables, gateway_urls

_NO_ATTEMPT = (
    "No rollout is running in this process, so this model call belongs to none. Make model calls "
    "before answering."
)
_NO_MODEL_CALL = "Only model calls to the hosts of [agent] model_hosts are passed on here."

_DIALECTS: tuple[DialectName, ...] = get_args(DialectName)


class AttemptRelays:
    """The relays of an executor's processes: one server, with routes for each process.

    Args:
        server: URL of the server whose gateway serves model calls.
        hosts: Hosts that model calls of Python and Node go to by themselves.
    """

    def __init__(self, server: str, hosts: Sequence[str] = ()) -> None:
        self._server = server
        self._hosts = tuple(hosts)
        self._attempts: dict[str, Mapping[DialectName, str]] = {}
        """The gateway's URLs for the attempt of each process; none while no attempt runs."""
        self._relay = ModelRelay(answering=self._led, trust_env=False)

    def start(self) -> None:
        """Listen on a free loopback port."""
        self._relay.__enter__()

    def of(self, process: int) -> AttemptRelay:
        """The relay of the process with this number."""
        return AttemptRelay(self._relay, str(process), self._server, self._hosts, self._attempts)

    def close(self) -> None:
        """Close the relay, and end the calls in progress."""
        self._relay.__exit__()

    def _led(self, request: RelayedRequest) -> RelayAnswer | RelayedRequest | None:
        """The route of a call to a model host, or the refusal of any other request."""
        if request.url.startswith(f"{self._server}/gateway/"):
            return None
        process, _, host_path = request.path.lstrip("/").partition("/")
        urls = self._attempts.get(process.removeprefix("hosts-"))
        if request.url or urls is None:
            return _refusal(409, _NO_ATTEMPT, "no_rollout")
        url = asked_url(msgspec.structs.replace(request, path=host_path), self._hosts)
        if not url:
            return _refusal(403, _NO_MODEL_CALL, "no_model_call")
        operation = operation_of(url)
        if operation is None:
            reached_url = reached_at(url)
            return msgspec.structs.replace(request, url=reached_url, proxy=proxy_of(reached_url))
        return msgspec.structs.replace(
            request,
            url=f"{urls[operation.dialect]}/{operation.path}",
            added={UPSTREAM_HEADER: operation.base_url},
        )


def _refusal(status: int, message: str, kind: str) -> RelayAnswer:
    error = {"error": {"message": message, "type": kind}}
    return RelayAnswer(status=status, pieces=[msgspec.json.encode(error)])


class AttemptRelay:
    """The relay of one process, which runs one attempt at a time.

    Args:
        relay: The relay of the executor.
        name: Unique there.
        server: URL of the server whose gateway serves model calls.
        hosts: Hosts that model calls go to by themselves.
        attempts: The gateway's URLs by the name of a process, for calls to these hosts.
    """

    def __init__(
        self,
        relay: ModelRelay,
        name: str,
        server: str,
        hosts: Sequence[str],
        attempts: dict[str, Mapping[DialectName, str]],
    ) -> None:
        self._relay = relay
        self._name = name
        self._server = server
        self._hosts = hosts
        self._attempts = attempts
        self._routes = {dialect: f"{dialect}-{name}" for dialect in _DIALECTS}

    def variables(self, base_urls: Sequence[str] = (), keys: Sequence[str] = ()) -> dict[str, str]:
        """Environment variables that route the providers' libraries to the relay.

        Args:
            base_urls: Further variables for the base URL.
            keys: Further variables for the API key.
        """
        urls = {
            dialect: f"{self._relay.url}/{route}{'/v1' if dialect == 'openai' else ''}"
            for dialect, route in self._routes.items()
        }
        return client_variables(urls, NO_TOKEN, base_urls, keys)

    def hook_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables that route calls of Python and Node to their model hosts through the relay.

        Args:
            environ: Their environment besides.
        """
        return hook_variables(f"{self._relay.url}/hosts-{self._name}", self._hosts, environ)

    def lead_to(self, claim: Claim | None) -> None:
        """Attribute calls from now on to an attempt; None: to none."""
        urls: Mapping[DialectName, str] = dict.fromkeys(_DIALECTS, "")
        if claim is None:
            self._attempts.pop(self._name, None)
        else:
            # The token, for the key that the process has opens no attempt.
            urls = gateway_urls(self._server, claim.token or attempt_name(claim))
            self._attempts[self._name] = urls
        for dialect, route in self._routes.items():
            self._relay.lead(route, urls[dialect].removesuffix("/v1"))
