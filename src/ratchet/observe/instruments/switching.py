"""Switches one library on, and never lets that break the program that imports it."""

from __future__ import annotations

import logging
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ratchet.observe.instruments.imports import load
from ratchet.observe.instruments.table import Instrument

if TYPE_CHECKING:
    from ratchet.observe.instruments.route import Route

_log = logging.getLogger("ratchet.observe")


def is_installed(instrument: Instrument) -> bool:
    """Whether the library is there, and what it takes to instrument it; imports neither."""
    try:
        metadata.version(instrument.library)
        if instrument.needs:
            metadata.version(instrument.needs)
    except Exception:  # a broken installation has more ways to fail than a missing one
        return False
    return True


def switch_on(instrument: Instrument, route: Route) -> bool:
    """Instrument a library that has been imported.

    Args:
        instrument: How.
        route: Where its spans go.

    Returns:
        Whether its spans come to us; if not, a line in the log says why.
    """
    try:
        rival = _rival(instrument)
        if rival:
            _log.info("ratchet: %s is instrumented by %s already.", instrument.name, rival)
            return False
        if instrument.openinference and not _by_openinference(instrument, route):
            return False
        if instrument.own:
            if _is_too_old(instrument):
                return bool(instrument.openinference)
            load(instrument.own)(route)
    except Exception as error:
        _log.warning(
            "ratchet: %s could not be instrumented, its spans are missing: %s: %s",
            instrument.name,
            type(error).__name__,
            error,
        )
        return False
    return True


def _by_openinference(instrument: Instrument, route: Route) -> bool:
    from opentelemetry.instrumentation.dependencies import get_dependency_conflicts

    instrumentor = load(instrument.openinference)()
    if instrumentor.is_instrumented_by_opentelemetry:
        _log.info("ratchet: %s is instrumented already.", instrument.name)
        return False
    conflict = get_dependency_conflicts(instrumentor.instrumentation_dependencies())
    if conflict:
        _log.warning(
            "ratchet: %s is not instrumented, as %s %s does not fit it: %s",
            instrument.name,
            instrument.needs,
            metadata.version(instrument.needs),
            conflict,
        )
        return False
    instrumentor.instrument(tracer_provider=route, skip_dep_check=True)
    return True


def _is_too_old(instrument: Instrument) -> bool:
    version = metadata.version(instrument.library)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3])
    if not instrument.at_least or numbers >= instrument.at_least:
        return False
    _log.warning(
        "ratchet: %s %s is older than what can be instrumented, which is %s.",
        instrument.library,
        version,
        ".".join(map(str, instrument.at_least)),
    )
    return True


def _rival(instrument: Instrument) -> str:
    for rival in instrument.rivals:
        module, _, name = rival.partition(":")
        found: Any = getattr(sys.modules.get(module), name, None)
        # Their instrumentors are singletons: to make one is to get the one there is.
        if found is not None and found().is_instrumented_by_opentelemetry:
            return module
    return ""
