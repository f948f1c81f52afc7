"""Evaluators by name: built-in ones, and user-defined ones as MODULE:FUNCTION."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from ratchet.evaluate.code_tests import code_tests
from ratchet.evaluate.cost_and_latency import cost, latency
from ratchet.evaluate.error_rate import error_rate
from ratchet.evaluate.groundedness import groundedness
from ratchet.evaluate.hosted import HostedEvaluator
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
from ratchet.run.agent_host import AgentHost
from ratchet.types import ConfigError, InputError
from ratchet.worker.evaluator import Evaluator, FunctionEvaluator, OnError
from ratchet.worker.own_evaluator import called, own_evaluator

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
"""Modules of further built-in factories, which have the same name; imported on first use."""


def make_evaluator(
    use: str,
    options: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    on_error: OnError | None = None,
    host: AgentHost | None = None,
) -> Evaluator:
    """The evaluator named in a project's configuration.

    Args:
        use: A built-in name, or MODULE:FUNCTION.
        options: Keyword arguments of a built-in evaluator, or of a function that returns one.
        name: An alternative name, if a project uses one evaluator twice.
        on_error: What its failures on an answer count as; see `FunctionEvaluator`.
        host: The process in the agent's interpreter that runs the user's own; None for this one.

    Raises:
        ConfigError: The evaluator does not exist, or its options are invalid.
    """
    evaluator: FunctionEvaluator
    if ":" not in use:
        evaluator = _built_in(use, options or {})
    elif host is not None:
        evaluator = HostedEvaluator(host, use, options or {})
    else:
        evaluator = own_evaluator(use, options or {})
    if on_error is not None:
        try:
            evaluator = evaluator.failing(on_error)
        except InputError as error:
            raise ConfigError(f"Evaluator {use!r}: {error.message}") from None
    return evaluator if name is None else evaluator.named(name)


def built_in_meanings() -> dict[str, str]:
    """The built-in evaluators by name, with the first sentence of their description."""
    docstrings = {name: _factory(name).__doc__ or "" for name in sorted([*BUILT_IN, *LATER])}
    return {
        name: re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]
        for name, text in docstrings.items()
    }


def _factory(name: str) -> Callable[..., FunctionEvaluator]:
    if name in LATER:
        factory: Callable[..., FunctionEvaluator] = getattr(
            importlib.import_module(LATER[name]), name
        )
        return factory
    return BUILT_IN[name]


def _built_in(use: str, options: Mapping[str, Any]) -> FunctionEvaluator:
    if use not in BUILT_IN and use not in LATER:
        near = difflib.get_close_matches(use, [*BUILT_IN, *LATER], n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"There is no evaluator {use!r}.{meant}",
            hint=f"The built-in ones are {', '.join([*BUILT_IN, *LATER])};"
            " your own is MODULE:FUNCTION.",
        )
    factory = _factory(use)
    hints = get_type_hints(factory)
    for option in options:
        if option not in hints or option == "return":
            option_names = sorted(hints.keys() - {"return"})
            near = difflib.get_close_matches(option, option_names, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(option_names)}."
            raise ConfigError(f"The evaluator {use!r} has no option {option!r}.{meant}")
    try:
        fitting = {k: msgspec.convert(v, hints[k]) for k, v in options.items()}
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options {dict(options)} of {use!r} do not fit: {error}.") from None
    return called(use, factory, fitting)
