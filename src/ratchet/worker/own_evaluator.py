"""The user's own evaluators, by MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, cast

from ratchet.types import ConfigError, InputError, RatchetError
from ratchet.worker.evaluator import FunctionEvaluator, evaluator


def import_function(use: str, what: str) -> Callable[..., Any]:
    """Import a function of the user's that the configuration names.

    Args:
        use: MODULE:FUNCTION.
        what: What it is for, such as "evaluator", for messages.

    Raises:
        ConfigError: It cannot be imported, or is not a function.
    """
    module, _, name = use.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except RatchetError as error:
        raise ConfigError(
            f"The {what} {use!r} cannot be loaded. {error.message}", hint=error.hint
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The {what} {use!r} cannot be loaded: {type(error).__name__}: {error}.",
            hint=_import_hint(module, error),
        ) from error
    if not callable(function):
        raise ConfigError(f"The {what} {use!r} is not a function.")
    return cast("Callable[..., Any]", function)


def _import_hint(module: str, error: BaseException) -> str:
    """The remedy for a module that cannot be imported, or that lacks the function."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
        return f"The module {module!r} was found, but its import failed in {place}: fix it there."
    frames = [
        (frame.f_globals.get("__name__"), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<frozen")
    ][1:]  # without this module's own
    frames = [frame for frame in frames if frame[1] != importlib.__file__]
    if not frames:  # the module was not found, or has no such function
        return (
            "Write it as MODULE:FUNCTION. The module is searched for in the folders that path "
            "under [agent] lists."
        )
    _, path, line = next((frame for frame in reversed(frames) if frame[0] == module), frames[-1])
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    remedy = f"install {missing!r} or fix that line" if missing else "fix it there"
    place = f"{path}, line {line}"
    return f"The module {module!r} was found, but its import failed in {place}: {remedy}."


def own_evaluator(use: str, options: Mapping[str, Any]) -> FunctionEvaluator:
    """The user's evaluator that the configuration names.

    Args:
        use: MODULE:FUNCTION, an evaluator or a function that returns one.
        options: Keyword arguments of such a function.

    Raises:
        ConfigError: It does not exist, or its options are invalid.
    """
    target = import_function(use, "evaluator")
    if isinstance(target, FunctionEvaluator):
        if options:
            raise ConfigError(
                f"The evaluator {use!r} takes no options, but was given {[*options]}."
            )
        return target
    if options:
        # Different options give the same source but different verdicts, so they are part of the
        # version.
        return called(use, target, options).versioned(dict(options))
    try:
        return evaluator(target)
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"The evaluator {use!r} cannot be used: {error}") from None


def called(use: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> FunctionEvaluator:
    """The evaluator that a factory returns.

    Args:
        use: Its name in the configuration, for messages.
        factory: Called with the options.
        options: Its keyword arguments.

    Raises:
        ConfigError: The options do not fit, or no evaluator is returned.
    """
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ConfigError(f"The options of evaluator {use!r} do not fit: {error}.") from None
    try:
        evaluator = factory(**options)
    except RatchetError as error:
        raise ConfigError(f"Evaluator {use!r}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise ConfigError(
            f"The evaluator {use!r} cannot be created: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(evaluator, FunctionEvaluator):
        raise ConfigError(f"{use!r} was called with its options, but returned no evaluator.")
    return evaluator
