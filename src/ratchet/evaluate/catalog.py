"""Evaluators by name: the built-in ones, and a user's own as MODULE:FUNCTION."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.evaluate.evaluator import Evaluator, FunctionEvaluator, evaluator
from ratchet.evaluate.match import contains, exact_match, regex
from ratchet.evaluate.measure import cost, latency
from ratchet.evaluate.numeric import numeric
from ratchet.evaluate.ranking import reciprocal_rank
from ratchet.evaluate.schema import json_schema
from ratchet.types import ConfigError

BUILT_IN: dict[str, Callable[..., FunctionEvaluator]] = {
    "contains": contains,
    "cost": cost,
    "exact_match": exact_match,
    "json_schema": json_schema,
    "latency": latency,
    "numeric": numeric,
    "reciprocal_rank": reciprocal_rank,
    "regex": regex,
}
"""The built-in evaluators; each is called with its options."""


def make_evaluator(use: str, options: Mapping[str, Any] | None = None) -> Evaluator:
    """The evaluator that a project's configuration names.

    Args:
        use: A built-in name, or MODULE:FUNCTION.
        options: Keyword arguments of a built-in one, or of a function that makes one.

    Raises:
        ConfigError: There is no such evaluator, or the options do not fit it.
    """
    if ":" in use:
        return _own(use, options or {})
    factory = BUILT_IN.get(use)
    if factory is None:
        near = difflib.get_close_matches(use, BUILT_IN, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"There is no evaluator {use!r}.{meant}",
            hint=f"The built-in ones are {', '.join(BUILT_IN)}; your own is MODULE:FUNCTION.",
        )
    return _called(use, factory, options or {})


def _called(use: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> FunctionEvaluator:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ConfigError(f"The options of evaluator {use!r} do not fit: {error}.") from None
    made = factory(**options)
    if not isinstance(made, FunctionEvaluator):
        raise ConfigError(f"{use!r} was called with its options and returned no evaluator.")
    return made


def _own(use: str, options: Mapping[str, Any]) -> Evaluator:
    module_name, _, name = use.partition(":")
    try:
        target = getattr(importlib.import_module(module_name), name)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The evaluator {use!r} cannot be loaded: {type(error).__name__}: {error}.",
            hint="It is MODULE:FUNCTION, found from the folders under path of [agent].",
        ) from error
    if isinstance(target, FunctionEvaluator):
        if options:
            raise ConfigError(f"The evaluator {use!r} takes no options; it was given {[*options]}.")
        return target
    if options:
        return _called(use, target, options)
    if not callable(target):
        raise ConfigError(f"The evaluator {use!r} is not a function.")
    return evaluator(target)
