"""Agents for the trainer: functions and classes that take a task and resources.

Each is wrapped as a function of the task alone. Its resources come from the binding of the current
rollout, and it gets the dataset's own objects, not their JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ratchet.autopilot.training.items import Items
from ratchet.bind import Knobs, current
from ratchet.observe import ENTRY_MARK, is_async
from ratchet.observe import rollout as mark_rollout
from ratchet.types import InputError, Model, Params, PromptTemplate, Resource
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.lit_agent import LitAgent, RolloutInfo

BY_KIND: dict[str, type] = {"prompt_template": PromptTemplate, "llm": Model}
"""Parameters that take the only resource of their kind, whatever its name."""


def trainable(agent: Any, resources: Mapping[str, Resource], items: Items) -> Agent:
    """Wrap the agent for a runner.

    Args:
        agent: A function `(task, resource…) -> reward`, sync or async, or a LitAgent.
        resources: The initial resources by name.
        items: The datasets' items.

    Raises:
        InputError: It is neither, or a parameter names no resource.
    """
    call = _of_class(agent, items) if _is_lit(agent) else _of_function(agent, resources, items)
    module = str(getattr(agent, "__module__", None) or type(agent).__module__)
    name = str(getattr(agent, "__qualname__", None) or type(agent).__qualname__)
    spec = AgentSpec(entry=f"{module}:{name}", root=str(Path.cwd()))
    return Agent(spec, call)


def _is_lit(agent: Any) -> bool:
    if isinstance(agent, type) and issubclass(agent, LitAgent):
        raise InputError(
            f"The trainer was given the class {agent.__name__}, not an agent.",
            hint=f"Create an instance: fit(agent={agent.__name__}(), …).",
        )
    return isinstance(agent, LitAgent)


def _of_function(
    function: Any, resources: Mapping[str, Resource], items: Items
) -> Callable[..., Any]:
    if not callable(function):
        raise InputError(
            f"An agent is a function or a LitAgent, not {type(function).__name__}.",
            hint="@ratchet.rollout\ndef agent(task, prompt_template): … return reward",
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InputError(f"{_name(function)}() takes no task: give it a parameter for the task.")
    sources = {p.name: _source(function, p, resources) for p in parameters[1:] if _is_filled(p)}
    filled = {name: source for name, source in sources.items() if source is not None}

    def given(task: Any) -> tuple[Any, dict[str, Any]]:
        bound = _bound()
        arguments = {
            parameter: (
                _info(task, items) if source == "rollout" else _as_given(source, bound[source])
            )
            for parameter, source in filled.items()
        }
        return items.of(task), arguments

    if is_async(function):

        async def run_async(task: Any) -> Any:
            item, arguments = given(task)
            return await function(item, **arguments)

        return _marked(run_async, function)

    def run(task: Any) -> Any:
        item, arguments = given(task)
        return function(item, **arguments)

    return _marked(run, function)


def _of_class(agent: LitAgent, items: Items) -> Callable[..., Any]:
    kind = type(agent)
    overridden = {
        name
        for name in vars(LitAgent)
        if "rollout" in name and getattr(kind, name) is not getattr(LitAgent, name)
    }
    if not overridden:
        raise InputError(
            f"{kind.__name__} does not override a rollout method, so there is nothing to run.",
            hint="Write def rollout(self, task, resources, rollout): … return reward",
        )
    is_later = any(name.endswith("_async") for name in overridden)
    suffix = "_async" if is_later else ""
    methods = {
        "train": getattr(agent, f"training_rollout{suffix}"),
        "val": getattr(agent, f"validation_rollout{suffix}"),
    }
    if is_later:

        async def run_async(task: Any) -> Any:
            info = _info(task, items)
            return await _call(methods[info.mode], items.of(task), info)

        return _marked(run_async, agent)

    def run(task: Any) -> Any:
        info = _info(task, items)
        return _call(methods[info.mode], items.of(task), info)

    return _marked(run, agent)


def _call(method: Callable[..., Any], task: Any, info: RolloutInfo) -> Any:
    if (
        "rollout_id" in inspect.signature(method).parameters
    ):  # the signature of LitAgent's first versions
        return method(task=task, rollout_id=info.candidate_id, resources=_bound())
    return method(task, _bound(), info)


def _marked(call: Callable[..., Any], agent: Any) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = _name(agent)
    call.__module__ = str(getattr(agent, "__module__", None) or type(agent).__module__)
    if getattr(agent, ENTRY_MARK, None) is None:
        return mark_rollout(call)
    setattr(call, ENTRY_MARK, "rollout")  # LitAgent's own decorator makes the root span
    return call


def _bound() -> dict[str, Resource]:
    binding = current()
    assert binding is not None  # a runner binds before it calls
    return binding.resources


def _info(task: Any, items: Items) -> RolloutInfo:
    binding = current()
    assert binding is not None
    return RolloutInfo(
        input=items.of(task),
        mode=items.mode(task),
        candidate_id=binding.candidate_id,
        seed=binding.seed,
    )


def _is_filled(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _source(
    function: Any, parameter: inspect.Parameter, resources: Mapping[str, Resource]
) -> str | None:
    """Name of the resource for a parameter; None when the parameter's default applies."""
    if parameter.name in resources:
        return parameter.name
    if parameter.name == "rollout":
        return "rollout"
    kind = BY_KIND.get(parameter.name)
    fitting = [n for n, r in resources.items() if kind is not None and isinstance(r, kind)]
    if len(fitting) == 1:
        return fitting[0]
    if parameter.default is not parameter.empty:
        return None
    raise InputError(
        f"The parameter {parameter.name!r} of {_name(function)} names no resource;"
        f" there are {sorted(resources)}.",
        hint=f"Give it in initial_resources: {{{parameter.name!r}: …}}.",
    )


def _as_given(name: str, resource: Resource) -> Any:
    return Knobs(name, resource) if isinstance(resource, Params) else resource


def _name(agent: Any) -> str:
    return str(getattr(agent, "__name__", None) or type(agent).__name__)
