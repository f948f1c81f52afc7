"""AutoGen has spans of its own for agents and tools, without what went in and came out.

OpenInference tells the same with it, so AutoGen's are left out.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ratchet.observe.instruments.import_hook import load


def leave_out_twins(provider: Any) -> None:
    """Have no spans of AutoGen's for agents and tools.

    Args:
        provider: Not needed: what is left out goes nowhere.
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
