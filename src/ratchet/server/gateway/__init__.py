"""Gateway: proxies agents' model calls and records each as a span."""

from ratchet.observe.model_apis import MODEL_APIS, DialectName, ModelApi
from ratchet.server.gateway.gateway import Gateway
from ratchet.server.gateway.substitution import Substitute, Substitution
from ratchet.server.gateway.target import GatewayTarget, ReadAttemptState
from ratchet.server.gateway.upstream import Upstream, standard_upstreams

__all__ = [
    "MODEL_APIS",
    "DialectName",
    "Gateway",
    "GatewayTarget",
    "ModelApi",
    "ReadAttemptState",
    "Substitute",
    "Substitution",
    "Upstream",
    "standard_upstreams",
]
