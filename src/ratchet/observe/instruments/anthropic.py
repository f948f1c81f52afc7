"""Anthropic's client has spans of its own from version 2 on, without messages.

They are left out where OpenInference tells the same call; its tool runner's are had.
"""

from __future__ import annotations

import functools
from typing import Any

from ratchet.observe.instruments.duplicates import SilentTracer
from ratchet.observe.instruments.import_hook import load

_DUPLICATED = ("anthropic.messages.", "anthropic.beta.messages.")
_NOT_DUPLICATED = ".tool_runner"


def leave_out_twins(provider: Any) -> None:
    """Have the client's spans, but those that are told already.

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
        # A provider of the user's own, or none at all, is the user's choice.
        if options.get("tracer_provider") is not None or own(options, version, **kwargs) is None:
            return own(options, version, **kwargs)
        scope = kwargs.get("scope", "com.anthropic.sdk.python")
        return _Twinless(provider.get_tracer(scope, version))

    client.get_tracer = get_tracer


class _Twinless:
    """A tracer without the spans that OpenInference tells as well."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._silent = SilentTracer()

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        duplicate = name.startswith(_DUPLICATED) and not name.endswith(_NOT_DUPLICATED)
        return (self._silent if duplicate else self._tracer).start_span(name, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracer, name)
