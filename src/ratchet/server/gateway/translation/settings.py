"""Settings that a translated request may do without where a model refuses them.

Newer models have no `temperature`, and older ones no `effort`. The upstream says so when it is
asked, in an error that names the setting.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ratchet.observe.model_apis.bounded_json import mapping

_PATHS: dict[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "thinking": ("thinking",),
    "effort": ("output_config", "effort"),
    "reasoning_effort": ("reasoning_effort",),
}


def refused_settings(request: Mapping[str, Any], error: Any) -> frozenset[str]:
    """Settings of a request that an upstream's error is about.

    Args:
        request: What was sent.
        error: The decoded body of the error.
    """
    described = mapping(mapping(error).get("error"))
    told = f"{described.get('message')} {described.get('param')}"
    return frozenset(
        name
        for name, path in _PATHS.items()
        if _has(request, path) and re.search(rf"(?<![A-Za-z_]){name}(?![A-Za-z_])", told)
    )


def without_settings(request: dict[str, Any], names: Collection[str]) -> list[str]:
    """Remove settings from a request; return those that it had."""
    removed = []
    for name in sorted(names):
        path = _PATHS[name]
        if not _has(request, path):
            continue
        removed.append(name)
        place = request
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        if len(path) > 1 and not place:
            del request[path[0]]
    return removed


def _has(request: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    place: Any = request
    for key in path:
        place = mapping(place).get(key)
    return place is not None
