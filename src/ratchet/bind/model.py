"""`ratchet.model`: declares a model endpoint with sampling settings that may evolve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ratchet.bind import context, registry
from ratchet.types import Declaration, Model

Answer = TypeVar("Answer")


class ModelHandle:
    """A named model. Its fields are resolved at each read."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: Model) -> None:
        self.name = name
        self.default = default

    @property
    def bound(self) -> Model:
        """The model bound in the current context."""
        resource = context.resolve(self.name)
        return resource if isinstance(resource, Model) else self.default

    @property
    def model(self) -> str:
        """The model's name at its endpoint."""
        return self.bound.model

    @property
    def base_url(self) -> str | None:
        """The endpoint, or None for the client's own default."""
        return self.bound.base_url

    @property
    def sampling(self) -> dict[str, Any]:
        """Request fields such as temperature."""
        return dict(self.bound.sampling)

    def ask(self, ask: Callable[[str], Answer], passes: Callable[[Answer], bool]) -> Answer:
        """The model's answer, or that of a cheaper model that is asked first, if it passes the
        check.

        Args:
            ask: Asks the model of this name.
            passes: Whether an answer of the cheaper model may be taken: by its form, by a check.
        """
        bound = self.bound
        if bound.first:
            answer = ask(bound.first)
            if passes(answer):
                return answer
        return ask(bound.model)

    async def ask_async(
        self, ask: Callable[[str], Awaitable[Answer]], passes: Callable[[Answer], bool]
    ) -> Answer:
        """As `ask`, for a coroutine function that asks."""
        bound = self.bound
        if bound.first:
            answer = await ask(bound.first)
            if passes(answer):
                return answer
        return await ask(bound.model)

    def __str__(self) -> str:
        return self.bound.model


def model(
    name: str,
    default: str,
    *,
    choices: Sequence[str] = (),
    first: str | None = None,
    base_url: str | None = None,
    **sampling: Any,
) -> ModelHandle:
    """Declare a model that may be replaced or sampled differently.

    Args:
        name: Its name, unique in the agent.
        default: The model's name at its endpoint.
        choices: Names of models that may take its place, cheapest first.
        first: A cheaper model that `ask` asks first; "" for none so far. Left out, the model is
            asked alone.
        base_url: OpenAI-compatible endpoint, or None for the client's own default.
        sampling: Request fields such as temperature, top_p, max_tokens.
    """
    resource = Model(default, base_url, sampling, choices=tuple(choices), first=first)
    frame = registry.caller()
    file, line = frame.f_code.co_filename, frame.f_lineno
    registry.declare(
        name, registry.site_of(frame, "model"), lambda: Declaration(name, resource, file, line)
    )
    return ModelHandle(name, resource)
