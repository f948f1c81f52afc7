"""Instruments: record the spans of libraries without a change to the agent.

A library is instrumented when it is imported, before or after `install`; one that is not installed,
or whose instrumentor is not, is skipped. An instrument is a row in `table.py`.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from ratchet.observe.instruments.import_hook import when_imported
from ratchet.observe.instruments.table import INSTRUMENTS, Instrument, is_installed, switch_on

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["INSTRUMENTS", "Instrument", "install"]

_lock = threading.Lock()
_installed: dict[str, bool] = {}


def install(tracer_provider: TracerProvider | None) -> list[str]:
    """Instrument every supported library, now or when it is imported. Never raises.

    May be called again: nothing is instrumented twice, and all spans go to the provider of the last
    call.

    Args:
        tracer_provider: Where spans go; None for nowhere.

    Returns:
        Names of the instruments whose libraries are installed, in the order of the table.
    """
    from ratchet.observe.instruments.delegating import DelegatingProvider

    DelegatingProvider.target = tracer_provider
    for instrument in INSTRUMENTS:
        with _lock:
            # Checked again unless it was found: a library may have been installed since.
            if _installed.get(instrument.name) or not is_installed(instrument):
                continue
            _installed[instrument.name] = True
        route = DelegatingProvider(
            innermost=instrument.innermost, repeats_root=instrument.repeats_root
        )
        when_imported(instrument.module, functools.partial(switch_on, instrument, route))
    return [instrument.name for instrument in INSTRUMENTS if _installed.get(instrument.name)]
