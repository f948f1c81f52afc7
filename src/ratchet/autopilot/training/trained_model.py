"""The model whose weights a trainer learns: where it is, and how an agent's calls reach it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from ratchet.autopilot.trainable import ServedModel, TrainableModel, trainable_model
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm, trainable_resource
from ratchet.types import Candidate, Claim, InputError, Model, Outcome, Resource
from ratchet.worker.agent import Agent
from ratchet.worker.environment import gateway_variables
from ratchet.worker.inprocess import AsyncExecutor


class ModelInTraining(Protocol):
    """The model of the initial resources, while its weights change."""

    baseline: Candidate
    """The initial resources, with the model by the name that it answers to."""
    fingerprint: str
    """Identifies the first weights."""

    def open(self, state: Path, say: Callable[[str], None]) -> AbstractContextManager[ServedModel]:
        """Serve the model within the context."""
        ...

    def by(self, model: ServedModel) -> WeightsAlgorithm | None:
        """The algorithm that trains it in this process; None if it is trained elsewhere."""
        ...


class ModelToTrain:
    """The model of the initial resources, found on this machine.

    Args:
        initial: The initial resources. Their model is `Model("local")`, or `Model("local:FOLDER")`.
        algorithm: Trains it.
        device: PyTorch's name of the device that serves and trains it.
        dtype: Type of its numbers.

    Raises:
        InputError: There is no such model, or several.
        ModelUnavailable: It cannot be had, or the extra `train` is not installed.
    """

    def __init__(
        self, initial: Candidate, algorithm: WeightsAlgorithm, device: str, dtype: str
    ) -> None:
        if not any(isinstance(resource, Model) for resource in initial.resources.values()):
            raise InputError(
                f"The algorithm {algorithm.name} trains a model, but the agent has none.",
                hint='Give it a model: initial_resources={"llm": ratchet.Model("local")}, or'
                ' "local:FOLDER".',
            )
        from ratchet.models.model_file import LOCAL

        name, resource = trainable_resource(initial)
        if resource.model.partition(":")[0] != LOCAL:
            raise InputError(
                f"The algorithm {algorithm.name} trains a model on this machine, which "
                f"{resource.model!r} is not.",
                hint=f'{name}: ratchet.Model("local") is SmolLM2, "local:FOLDER" a folder in the'
                " format of Hugging Face.",
            )
        from ratchet.models.policy.base import base_name, find_base, fingerprint, require_train

        require_train()
        self.source = resource.model
        """In the form that `load_base` takes."""
        self.fingerprint = fingerprint(find_base(self.source))
        """Identifies the weights."""
        served = msgspec.structs.replace(resource, model=base_name(self.source))
        self.baseline = Candidate.of(
            {**initial.resources, name: served}, reason="The initial resources."
        )
        """The initial resources, with the model by the name that it answers to."""
        self._algorithm = algorithm
        self._device, self._dtype = device, dtype

    def open(self, state: Path, say: Callable[[str], None]) -> AbstractContextManager[ServedModel]:
        """Serve it, until the block is left; see `trainable_model`."""
        return trainable_model(self.source, state, say, device=self._device, dtype=self._dtype)

    def by(self, model: ServedModel) -> WeightsAlgorithm | None:
        """The algorithm for one fit, with the running model."""
        assert isinstance(model, TrainableModel)  # as `open` made it
        algorithm = copy.copy(self._algorithm)
        algorithm.model = model
        return algorithm


class GatewayExecutor(AsyncExecutor):
    """Runs attempts in this process, and gives each its own address of the model.

    The address is the `base_url` of its `Model`: a path of the gateway that names the attempt. So
    the calls of attempts that run at once are told apart, without a variable of the process.

    Args:
        agent: The loaded agent.
        slots: Attempts at once.
        timeout_s: Seconds that one attempt may take.
        server: URL of the server with the gateway.
    """

    def __init__(self, agent: Agent, *, slots: int, timeout_s: float, server: str) -> None:
        super().__init__(agent, slots=slots, timeout_s=timeout_s)
        self._server = server

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run one attempt to its end."""
        address = gateway_variables(self._server, claim)["OPENAI_BASE_URL"]
        addressed = {
            name: (
                msgspec.structs.replace(resource, base_url=address)
                if isinstance(resource, Model)
                else resource
            )
            for name, resource in resources.items()
        }
        return await super().execute(claim, addressed)
