"""AutoGen: drops its own spans of agents and tools, which have no input and output.

OpenInference records the same calls with them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ratchet.observe.instruments.import_hook import load


def leave_out_twins(provider: Any) -> None:
    """Drop AutoGen's spans of agents and tools.

    Args:
        provider: Not used.
    """
    from opentelemetry import trace

    from ratchet.observe.instruments.duplicates import SilentTracer

    try:
        own = load("autogen_core._telemetry._genai")
    except ImportError:  # before version 0.7
        return
    own.trace = SimpleNamespace(
        **{name: getattr(trace, name) for name in trace.__all__}
        | {"get_tracer": lambda *args, **kwargs: SilentTracer()}
    )
