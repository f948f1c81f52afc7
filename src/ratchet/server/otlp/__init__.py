"""OTLP/HTTP: spans from any OpenTelemetry exporter, stored before they are acknowledged."""

from ratchet.server.otlp.endpoint import Otlp

__all__ = ["Otlp"]
