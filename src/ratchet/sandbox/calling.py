"""Call a function of a source text in a sandbox, with JSON in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.sandbox.limits import Level, Limits, Status
from ratchet.sandbox.warm import Warm


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended."""

    status: Status
    value: Any = None
    """What the function returned; None unless the status is ok."""
    error: str = ""
    """What went wrong, in a sentence; empty when the status is ok."""
    output: str = ""
    """What it printed, the traceback of an error among it."""
    seconds: float = 0.0


def functions(
    *,
    path: Sequence[str | Path] = (),
    limits: Limits | None = None,
    slots: int = 2,
    level: Level | str = "auto",
    unsafe: bool = False,
) -> Warm:
    """A pool for `call`, to be entered with `async with` and handed to it as `warm`.

    Args:
        path: Folders that the sources may import from, beside the standard library.
        limits: See `Warm`, as for the others.
        slots: How many calls run at a time.
        level: How they are contained.
        unsafe: Run with limits alone where there is no sandbox.

    Raises:
        SandboxUnavailable: No sandbox can be made here.
    """
    return Warm(
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
    warm: Warm | None = None,
    limits: Limits | None = None,
    level: Level | str = "auto",
    unsafe: bool = False,
) -> Called:
    """Run one function of a source text in a process of its own.

    Nothing stays from one call to the next: the source is executed anew each time.

    Args:
        source: The text of a module.
        function: The name of a function in it; it may be a coroutine function.
        args: Its positional arguments, as JSON can hold them.
        kwargs: Its arguments by name.
        warm: A pool made by `functions`; without one a sandbox is started for this call.
        limits: Of this call.
        level: How it is contained, where no pool is given.
        unsafe: Run with limits alone where there is no sandbox and no pool is given.

    Raises:
        SandboxUnavailable: No sandbox can be made here.
        TypeError: JSON cannot hold the arguments.
    """
    asked = {"source": source, "function": function, "args": args, "kwargs": kwargs or {}}
    body = msgspec.json.encode(asked)
    if warm is None:
        async with functions(limits=limits, slots=1, level=level, unsafe=unsafe) as single:
            answer = await single.request(body, limits)
    else:
        answer = await warm.request(body, limits)
    told = Called(
        status=answer.status, error=answer.error, output=answer.output, seconds=answer.seconds
    )
    if answer.status != "ok":
        return told
    try:
        value = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError) as error:
        return msgspec.structs.replace(
            told, status="crashed", error=f"Its answer is no JSON: {error}."
        )
    return msgspec.structs.replace(told, value=value)
