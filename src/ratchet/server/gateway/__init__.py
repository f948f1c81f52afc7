"""Gateway: proxies agents' model calls and records each as a span."""

from ratchet.server.gateway.dialects import DIALECTS, GatewayDialect
from ratchet.server.gateway.gateway import Gateway
from ratchet.server.gateway.substitution import Substitute, Substitution
from ratchet.server.gateway.target import GatewayTarget, ReadAttemptState
from ratchet.server.gateway.upstream import STANDARD, DialectName, Upstream

__all__ = [
    "DIALECTS",
    "STANDARD",
    "DialectName",
    "Gateway",
    "GatewayDialect",
    "GatewayTarget",
    "ReadAttemptState",
    "Substitute",
    "Substitution",
    "Upstream",
]
