"""OTLP/HTTP receiver: stores spans of any OpenTelemetry exporter before acknowledging them."""

from ratchet.server.otlp.endpoint import Otlp

__all__ = ["Otlp"]
