"""Call a function of a source text in a sandbox, with JSON in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.sandbox.limits import Level, SandboxLimits, SandboxStatus
from ratchet.sandbox.pool import SandboxPool


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a call."""

    status: SandboxStatus
    value: Any = None
    """What the function returned; None unless the status is ok."""
    error: str = ""
    """Error message as a sentence; empty if the status is ok."""
    output: str = ""
    """Its output, including the traceback of an error."""
    seconds: float = 0.0


def function_pool(
    *,
    path: Sequence[str | Path] = (),
    limits: SandboxLimits | None = None,
    slots: int = 2,
    level: Level | str = "auto",
    unsafe: bool = False,
) -> SandboxPool:
    """Create a pool for `call`; enter it with `async with` and pass it as `pool`.

    Args:
        path: Folders that the sources may import from, beside the standard library.
        limits: See `SandboxPool`, as for the other arguments.
        slots: Maximum number of concurrent calls.
        level: The sandbox level.
        unsafe: Run with limits alone where no sandbox is available.

    Raises:
        SandboxUnavailable: No sandbox is available on this machine.
    """
    return SandboxPool(
        "inside.functions:handle",
        path=path,
        limits=limits,
        slots=slots,
        level=level,
        unsafe=unsafe,
        bare=True,
    )


async def call(
    source: str,
    function: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    pool: SandboxPool | None = None,
    limits: SandboxLimits | None = None,
    level: Level | str = "auto",
    unsafe: bool = False,
) -> CallResult:
    """Run one function of a source text in its own process.

    No state is shared between calls: the source is executed anew each time.

    Args:
        source: The text of a module.
        function: The name of a function in it; it may be a coroutine function.
        args: Its positional arguments, as JSON values.
        kwargs: Its keyword arguments, as JSON values.
        pool: A pool made by `function_pool`; without one a sandbox is started for this call.
        limits: Limits of this call.
        level: The sandbox level, without a pool.
        unsafe: Run with limits alone where no sandbox is available, without a pool.

    Raises:
        SandboxUnavailable: No sandbox is available on this machine.
        TypeError: The arguments are not JSON values.
    """
    request = {"source": source, "function": function, "args": args, "kwargs": kwargs or {}}
    body = msgspec.json.encode(request)
    if pool is None:
        async with function_pool(limits=limits, slots=1, level=level, unsafe=unsafe) as single:
            answer = await single.request(body, limits)
    else:
        answer = await pool.request(body, limits)
    result = CallResult(
        status=answer.status, error=answer.error, output=answer.output, seconds=answer.seconds
    )
    if answer.status != "ok":
        return result
    try:
        value = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError) as error:
        return msgspec.structs.replace(
            result, status="crashed", error=f"Its answer is not JSON: {error}."
        )
    return msgspec.structs.replace(result, value=value)
