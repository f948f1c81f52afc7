"""Call a function of a source text in a sandbox, with JSON in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.sandbox.limits import Level, SandboxLimits, SandboxStatus
from ratchet.sandbox.pool import SandboxPool


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended."""

    status: SandboxStatus
    value: Any = None
    """What the function returned; None unless the status is ok."""
    error: str = ""
    """What went wrong, in a sentence; empty when the status is ok."""
    output: str = ""
    """What it printed, the traceback of an error among it."""
    seconds: float = 0.0


def function_pool(
    *,
    path: Sequence[str | Path] = (),
    limits: SandboxLimits | None = None,
    slots: int = 2,
    level: Level | str = "auto",
    unsafe: bool = False,
) -> SandboxPool:
    """A pool for `call`, to be entered with `async with` and handed to it as `pool`.

    Args:
        path: Folders that the sources may import from, beside the standard library.
        limits: See `SandboxPool`, as for the others.
        slots: How many calls run at a time.
        level: How they are contained.
        unsafe: Run with limits alone where there is no sandbox.

    Raises:
        SandboxUnavailable: No sandbox can be made here.
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
    """Run one function of a source text in a process of its own.

    Nothing stays from one call to the next: the source is executed anew each time.

    Args:
        source: The text of a module.
        function: The name of a function in it; it may be a coroutine function.
        args: Its positional arguments, as JSON can hold them.
        kwargs: Its arguments by name.
        pool: A pool made by `function_pool`; without one a sandbox is started for this call.
        limits: Of this call.
        level: How it is contained, where no pool is given.
        unsafe: Run with limits alone where there is no sandbox and no pool is given.

    Raises:
        SandboxUnavailable: No sandbox can be made here.
        TypeError: JSON cannot hold the arguments.
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
            result, status="crashed", error=f"Its answer is no JSON: {error}."
        )
    return msgspec.structs.replace(result, value=value)
