"""The state of a running stage as plain data, so that a killed process continues bit for bit.

Floats survive JSON exactly, as their shortest text that reads back to the same bits is written.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ratchet.stats.eprocess import EProcess, State
from ratchet.types import InputError

Test = TypeVar("Test", bound=msgspec.Struct)


class _SavedEProcess(msgspec.Struct):
    null: float
    threshold: float
    horizon: int
    state: State


def save_stage(test: msgspec.Struct) -> dict[str, Any]:
    """The test with its plan and all evidence so far, as plain data that JSON can hold."""
    data = msgspec.to_builtins(test, enc_hook=_encode, order="sorted")
    assert isinstance(data, dict)
    return data


def load_stage(kind: type[Test], data: dict[str, Any]) -> Test:
    """The test that `save_stage` was given.

    Args:
        kind: `ShadowTest`, `CanaryTest` or `WatchTest`.
        data: What `save_stage` returned, even after a round trip through JSON.

    Raises:
        InputError: The data is of another kind or was altered.
    """
    try:
        return msgspec.convert(data, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise InputError(f"The saved state is not that of a {kind.__name__}: {error}.") from None


def _encode(value: Any) -> Any:
    if isinstance(value, EProcess):
        return msgspec.to_builtins(
            _SavedEProcess(value.null, value.threshold, value.horizon, value.state)
        )
    raise NotImplementedError(f"{type(value).__name__} has no saved form.")


def _decode(kind: type, data: Any) -> Any:
    if kind is not EProcess:
        raise NotImplementedError(f"{kind.__name__} has no saved form.")
    saved = msgspec.convert(data, _SavedEProcess)
    process = EProcess(null=saved.null, threshold=saved.threshold, horizon=saved.horizon)
    process.resume(saved.state)
    return process
