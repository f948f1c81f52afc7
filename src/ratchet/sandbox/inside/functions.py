"""The handler of `call`: run one function of a source text, with JSON in and out."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any

NAME = "candidate"
"""Name of the source's module, and of its file in a traceback."""


def handle(_state: object, body: bytes) -> bytes:
    """Run a function.

    Args:
        body: JSON of `source`, `function`, `args` and `kwargs`.

    Returns:
        Its return value, as JSON.

    Raises:
        BaseException: Whatever the source raises.
        TypeError: It returned something other than a JSON value.
    """
    request = json.loads(body)
    module = _module(request["source"])
    function = getattr(module, request["function"], None)
    if not callable(function):
        raise NameError(f"the source defines no function {request['function']!r}")
    returned = function(*request["args"], **request["kwargs"])
    if hasattr(returned, "__await__"):
        import asyncio

        returned = asyncio.run(_awaited(returned))
    try:
        return json.dumps(returned, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the result of {request['function']!r} is not JSON: {error}") from None


async def _awaited(coroutine: Any) -> Any:
    return await coroutine


class _Source:
    """Provides the source's lines to tracebacks without importing `linecache`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, _name: str) -> str:
        """The text."""
        return self._text


def _module(source: str) -> Any:
    module: Any = type(sys)(NAME)
    module.__file__ = f"{NAME}.py"
    module.__loader__ = _Source(source)
    sys.modules[NAME] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102 - its purpose
    return module
