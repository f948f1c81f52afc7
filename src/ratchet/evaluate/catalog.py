"""Evaluators by name: built-in ones, and user-defined ones as MODULE:FUNCTION."""

from __future__ import annotations

import difflib
import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, cast, get_type_hints

import msgspec

from ratchet.evaluate.code_tests import code_tests
from ratchet.evaluate.cost_and_latency import cost, latency
from ratchet.evaluate.error_rate import error_rate
from ratchet.evaluate.groundedness import groundedness
from ratchet.evaluate.json_match import json_match
from ratchet.evaluate.language import language
from ratchet.evaluate.length import length
from ratchet.evaluate.match import contains, exact_match, reciprocal_rank, regex
from ratchet.evaluate.numeric import numeric
from ratchet.evaluate.overlap import overlap
from ratchet.evaluate.pii_leak import pii_leak
from ratchet.evaluate.refusal import refusal
from ratchet.evaluate.schema import json_schema
from ratchet.evaluate.sql_equivalence.evaluator import sql
from ratchet.evaluate.tokens import tokens
from ratchet.evaluate.tool_calls import tool_calls
from ratchet.evaluate.trajectory import trajectory
from ratchet.types import ConfigError, InputError, RatchetError
from ratchet.worker.evaluator import Evaluator, FunctionEvaluator, OnError, evaluator

BUILT_IN: dict[str, Callable[..., FunctionEvaluator]] = {
    "code_tests": code_tests,
    "contains": contains,
    "cost": cost,
    "error_rate": error_rate,
    "exact_match": exact_match,
    "groundedness": groundedness,
    "json_match": json_match,
    "json_schema": json_schema,
    "language": language,
    "latency": latency,
    "length": length,
    "numeric": numeric,
    "overlap": overlap,
    "pii_leak": pii_leak,
    "reciprocal_rank": reciprocal_rank,
    "refusal": refusal,
    "regex": regex,
    "sql": sql,
    "tokens": tokens,
    "tool_calls": tool_calls,
    "trajectory": trajectory,
}
"""The built-in evaluators' factories, called with their options."""

LATER: dict[str, str] = {
    "judge": "ratchet.evaluate.judges",
    "math": "ratchet.evaluate.math_equivalence",
    "preference": "ratchet.evaluate.preference",
}
"""Modules of further built-in ones' factories, which have the same name; imported on first use."""


def make_evaluator(
    use: str,
    options: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    on_error: OnError | None = None,
) -> Evaluator:
    """The evaluator named in a project's configuration.

    Args:
        use: A built-in name, or MODULE:FUNCTION.
        options: Keyword arguments of a built-in evaluator, or of a function that returns one.
        name: An alternative name, if a project uses one evaluator twice.
        on_error: What its failures on an answer count as; see `FunctionEvaluator`.

    Raises:
        ConfigError: The evaluator does not exist, or its options are invalid.
    """
    made = _own(use, options or {}) if ":" in use else _built_in(use, options or {})
    if on_error is not None:
        try:
            made = made.failing(on_error)
        except InputError as error:
            raise ConfigError(f"Evaluator {use!r}: {error.message}") from None
    return made if name is None else made.named(name)


def _built_in(use: str, options: Mapping[str, Any]) -> FunctionEvaluator:
    factory = BUILT_IN.get(use)
    if use in LATER:
        factory = getattr(importlib.import_module(LATER[use]), use)
    if factory is None:
        near = difflib.get_close_matches(use, [*BUILT_IN, *LATER], n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"There is no evaluator {use!r}.{meant}",
            hint=f"The built-in ones are {', '.join([*BUILT_IN, *LATER])};"
            " your own is MODULE:FUNCTION.",
        )
    hints = get_type_hints(factory)
    for option in options:
        if option not in hints or option == "return":
            known = sorted(hints.keys() - {"return"})
            near = difflib.get_close_matches(option, known, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(known)}."
            raise ConfigError(f"The evaluator {use!r} has no option {option!r}.{meant}")
    try:
        fitting = {k: msgspec.convert(v, hints[k]) for k, v in options.items()}
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options {dict(options)} of {use!r} do not fit: {error}.") from None
    return _called(use, factory, fitting)


def _called(use: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> FunctionEvaluator:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ConfigError(f"The options of evaluator {use!r} do not fit: {error}.") from None
    try:
        made = factory(**options)
    except RatchetError as error:
        raise ConfigError(f"Evaluator {use!r}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise ConfigError(
            f"The evaluator {use!r} cannot be made: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(made, FunctionEvaluator):
        raise ConfigError(f"{use!r} was called with its options and returned no evaluator.")
    return made


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
        found = getattr(importlib.import_module(module), name)
    except RatchetError as error:
        raise ConfigError(
            f"The {what} {use!r} cannot be loaded. {error.message}", hint=error.hint
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The {what} {use!r} cannot be loaded: {type(error).__name__}: {error}.",
            hint=_import_hint(module, error),
        ) from error
    if not callable(found):
        raise ConfigError(f"The {what} {use!r} is not a function.")
    return cast("Callable[..., Any]", found)


def _import_hint(module: str, error: BaseException) -> str:
    """What to do about a module that cannot be imported, or lacks the function."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}, line {error.lineno}"
        return f"The module {module!r} was found, and its import failed in {place}: fix it there."
    frames = [
        (frame.f_globals.get("__name__"), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<frozen")
    ][1:]  # without this module's own
    frames = [frame for frame in frames if frame[1] != importlib.__file__]
    if not frames:  # the module was not found, or has no such function
        return "It is MODULE:FUNCTION, found from the folders under path of [agent]."
    _, path, line = next((frame for frame in reversed(frames) if frame[0] == module), frames[-1])
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    remedy = f"install {missing!r} or fix that line" if missing else "fix it there"
    place = f"{path}, line {line}"
    return f"The module {module!r} was found, and its import failed in {place}: {remedy}."


def _own(use: str, options: Mapping[str, Any]) -> FunctionEvaluator:
    target = import_function(use, "evaluator")
    if isinstance(target, FunctionEvaluator):
        if options:
            raise ConfigError(f"The evaluator {use!r} takes no options; it was given {[*options]}.")
        return target
    if options:
        # Different options give the same source but different verdicts, so they are part of the
        # version.
        return _called(use, target, options).versioned(dict(options))
    try:
        return evaluator(target)
    except (InputError, TypeError, ValueError) as error:
        raise ConfigError(f"The evaluator {use!r} cannot be used: {error}") from None
