"""Gateway: agents call their model through it, and every call becomes a span."""

from ratchet.server.gateway.attempts import Running
from ratchet.server.gateway.dialects import DIALECTS, Dialect
from ratchet.server.gateway.gateway import Gateway
from ratchet.server.gateway.substitution import Substitute, Substitution
from ratchet.server.gateway.target import Target
from ratchet.server.gateway.upstream import STANDARD, DialectName, Upstream

__all__ = [
    "DIALECTS",
    "STANDARD",
    "Dialect",
    "DialectName",
    "Gateway",
    "Running",
    "Substitute",
    "Substitution",
    "Target",
    "Upstream",
]
