"""A function's parameters, and the arguments made from named values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.types import AgentError, InputError
from ratchet.worker.placeholders import filled
from ratchet.worker.typed_arguments import annotated_types, built

_VARIOUS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameters:
    """The parameters that a setting of `ratchet.toml` gives values to.

    Args:
        function: The function, or the class whose constructor it is.
        signature: Its parameters.
        setting: Name of the setting, such as `[agent.arguments]`.
    """

    def __init__(
        self, function: Callable[..., Any], signature: inspect.Signature, setting: str
    ) -> None:
        self.signature = signature
        self.types = annotated_types(function, signature)
        self._setting = setting

    def check_names(self, values: Mapping[str, Any], what: str) -> None:
        """Check that all values are for these parameters, and that every parameter without a
        default has one.

        Raises:
            AgentError: They are not.
        """
        parameters = self.signature.parameters
        any_name = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        problems = [
            f"it has no parameter {name!r}"
            for name in values
            if not any_name and name not in parameters
        ]
        problems += [
            f"its parameter {name!r} has no value"
            for name, p in parameters.items()
            if p.kind not in _VARIOUS and p.default is p.empty and name not in values
        ]
        if problems:
            raise AgentError(
                f"{self._setting} does not fit {what}{self.signature}: {'; '.join(problems)}.",
                hint='Correct it in ratchet.toml; a value is a constant, or "{input}" or'
                ' "{input.FIELD}".',
            )

    def filled(self, settings: Mapping[str, Any], task_input: Any) -> inspect.BoundArguments:
        """The arguments from settings whose placeholders are filled with a task's input.

        Raises:
            InputError: The input lacks a field, or a value does not have its parameter's type.
        """
        return self.named(filled(settings, task_input, self._setting))

    def named(self, values: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments from values by name; names of unknown parameters go to `**`.

        Raises:
            InputError: A value does not have its parameter's type.
        """
        arguments: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = {n: v for n, v in values.items() if n not in self.signature.parameters}
                arguments[name] = {**extra, **values.get(name, {})}
            elif parameter.kind is parameter.VAR_POSITIONAL:
                arguments[name] = tuple(values.get(name, ()))
            elif name in values:
                arguments[name] = values[name]
        return self.typed(inspect.BoundArguments(self.signature, arguments), self._setting)

    def typed(self, bound: inspect.BoundArguments, where: str) -> inspect.BoundArguments:
        """Build the arguments for parameters of classes and other special types.

        Raises:
            InputError: A value does not have its parameter's type.
        """
        for name in self.types.keys() & bound.arguments.keys():
            kind, value = self.types[name], bound.arguments[name]
            various = self.signature.parameters[name].kind
            try:
                if various is inspect.Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(built(kind, item) for item in value)
                elif various is inspect.Parameter.VAR_KEYWORD:
                    bound.arguments[name] = {key: built(kind, item) for key, item in value.items()}
                else:
                    bound.arguments[name] = built(kind, value)
            except Exception as error:  # a constructor of the user's, or of a library
                type_name = getattr(kind, "__name__", str(kind))
                raise InputError(
                    f"{where} {name} is not a valid {type_name}: {type(error).__name__}: {error}."
                ) from None
        return bound
