"""Anthropic's client: from version 2 on it has spans of its own, without messages.

Those of calls that OpenInference records too are dropped; those of its tool runner are kept.
"""

from __future__ import annotations

import functools
from typing import Any

from ratchet.observe.instruments.duplicates import SilentTracer
from ratchet.observe.instruments.import_hook import load
from ratchet.observe.instruments.openinference_answers import read_anthropic

_DUPLICATED = ("anthropic.messages.", "anthropic.beta.messages.")
_NOT_DUPLICATED = ".tool_runner"


def adapt(provider: Any) -> None:
    """Record the client's spans and answers.

    Args:
        provider: Where spans go.
    """
    leave_out_twins(provider)
    read_anthropic()


def leave_out_twins(provider: Any) -> None:
    """Record the client's spans, except duplicates of OpenInference's.

    Args:
        provider: Where spans go.
    """
    try:
        client = load("anthropic._base_client")
        own = client.get_tracer
    except (ImportError, AttributeError):  # before version 2
        return

    @functools.wraps(own)
    def get_tracer(options: Any, version: str, **kwargs: Any) -> Any:
        # The user has set a provider, or switched tracing off.
        if options.get("tracer_provider") is not None or own(options, version, **kwargs) is None:
            return own(options, version, **kwargs)
        scope = kwargs.get("scope", "com.anthropic.sdk.python")
        return _Twinless(provider.get_tracer(scope, version))

    client.get_tracer = get_tracer


class _Twinless:
    """A tracer that drops the spans that OpenInference records too."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._silent = SilentTracer()

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        duplicate = name.startswith(_DUPLICATED) and not name.endswith(_NOT_DUPLICATED)
        return (self._silent if duplicate else self._tracer).start_span(name, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracer, name)
