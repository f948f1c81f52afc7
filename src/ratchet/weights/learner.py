"""The learner: a base model with its trained adapter, its optimizer and its critic."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ratchet.types import InputError, RatchetError
from ratchet.types.wording import counted
from ratchet.weights.critic import estimates, value_head
from ratchet.weights.packing import TokenRow, micro_batches
from ratchet.weights.reading import Reading, read
from ratchet.weights.settings import LoRA, Optimizer
from ratchet.weights.whole_folder import write_folder

if TYPE_CHECKING:
    from ratchet.models.policy import Base

Unit: TypeAlias = Sequence[TokenRow]
"""The rows that are computed together."""

Objective: TypeAlias = Callable[[Reading, Sequence[int]], tuple[Any, Mapping[str, float]]]
"""Computes the loss of a micro-batch from its reading and the indices of its units in the batch:
a scalar tensor that is added to those of the other micro-batches, and sums for statistics."""


class Diverged(RatchetError):
    """A loss or gradient is not finite, or training has left the model that it began with."""


class Evaluated(NamedTuple):
    """The outputs of the model for some rows, an array for each row."""

    logprobs: list[NDArray[np.float32]]
    """Shape (trained tokens,)."""
    values: list[NDArray[np.float32]]
    """Shape (trained tokens,): the critic's estimate before each; empty without a critic."""
    entropy: float
    """Mean over the trained tokens, in nats."""


class Learner:
    """Trains a LoRA adapter of a base model.

    The base's weights stay as they are, but its model object gets the adapter's layers: give each
    learner a base of its own.

    Args:
        base: The model.
        lora: Shape of the adapter.
        optimizer: Settings of AdamW, and how batches are cut.
        seed: Of the adapter's first weights.
        critic_learning_rate: Gives the learner a critic.
        adapter: Folder of an adapter to begin with, whose shape replaces `lora`. None: begin with
            one that changes nothing.

    Raises:
        InputError: The adapter belongs to another base.
        ModelUnavailable: The adapter cannot be read.
    """

    def __init__(
        self,
        base: Base,
        *,
        lora: LoRA,
        optimizer: Optimizer,
        seed: int = 0,
        critic_learning_rate: float | None = None,
        adapter: Path | None = None,
    ) -> None:
        import torch
        from peft import LoraConfig, get_peft_model

        self.base = base
        self._settings = optimizer
        targets: Any = "all-linear"
        rank, alpha = lora.rank, float(lora.alpha)
        if adapter is not None:
            config = self._config_of(adapter)
            rank, alpha, targets = config.r, config.lora_alpha, config.target_modules
        with torch.random.fork_rng(), warnings.catch_warnings():
            torch.manual_seed(seed)
            warnings.simplefilter("ignore", FutureWarning)  # of transformers, about what PEFT reads
            self._peft = get_peft_model(
                base.model,
                LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, target_modules=targets),
            )
        self._peft.eval()  # without dropout, as the sampler
        self._device = base.model.get_input_embeddings().weight.device
        trained = [p for p in self._peft.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": trained, "rate": optimizer.learning_rate}]
        self.critic = None
        if critic_learning_rate is not None:
            self.critic = value_head(base.model.config.hidden_size, self._device)
            groups.append({"params": list(self.critic.parameters()), "rate": critic_learning_rate})
        self._trained = [parameter for group in groups for parameter in group["params"]]
        self._optimizer = torch.optim.AdamW(
            groups, betas=optimizer.betas, weight_decay=optimizer.weight_decay
        )
        self.updates = 0
        """Optimizer steps so far."""
        self.micro_tokens = optimizer.micro_tokens
        """Number of tokens computed at a time; reduced when memory runs out."""
        if adapter is not None:
            self._load_adapter(adapter)

    @property
    def vocabulary(self) -> int:
        """Size of the model's vocabulary."""
        return int(self.base.model.get_input_embeddings().num_embeddings)

    def evaluate(self, rows: Sequence[TokenRow], *, of_base: bool = False) -> Evaluated:
        """Log-probabilities, the critic's estimates and entropy, without gradient.

        Args:
            rows: With at least one trained token each.
            of_base: Of the base model: the adapter is switched off.

        Raises:
            RatchetError: The memory does not suffice for a single row.
        """
        import torch

        logprobs: list[Any] = [None] * len(rows)
        values: list[Any] = [None] * len(rows)
        entropy = tokens = 0.0
        units = [(row,) for row in rows]

        def look(indices: Sequence[int]) -> None:
            nonlocal entropy, tokens
            reading = read(self.base.model, [rows[i] for i in indices], entropy=True)
            split = reading.logprobs.split(reading.counts)
            for i, part in zip(indices, split, strict=True):
                logprobs[i] = part.cpu().numpy()
            if self.critic is not None:
                estimated = estimates(self.critic, reading.hidden).split(reading.counts)
                for i, part in zip(indices, estimated, strict=True):
                    values[i] = part.cpu().numpy()
            entropy += float(reading.entropy.sum())
            tokens += len(reading.logprobs)

        def look_at_all() -> None:
            nonlocal entropy, tokens
            entropy = tokens = 0.0
            for indices in self._micro_batches(units):
                look(indices)

        with torch.no_grad(), self._peft.disable_adapter() if of_base else nullcontext():
            self._within_memory(units, look_at_all)
        return Evaluated(
            logprobs, values if self.critic is not None else [], entropy / max(tokens, 1.0)
        )

    def step(
        self, units: Sequence[Unit], objective: Objective, *, entropy: bool = False
    ) -> dict[str, float]:
        """An optimizer step along the gradient of the summed loss of all units.

        Args:
            units: The batch.
            objective: The loss; see `Objective`.
            entropy: The objective is given the entropy, too.

        Returns:
            The sums of `objective`, and `loss`, `gradient_norm` (before it was shortened) and
            `learning_rate`.

        Raises:
            Diverged: The loss or the gradient is not finite. The weights are unchanged.
            RatchetError: The memory does not suffice for a single unit.
        """
        import torch

        sums: dict[str, float] = {}

        def backward() -> None:
            sums.clear()
            self._optimizer.zero_grad(set_to_none=True)
            for indices in self._micro_batches(units):
                rows = [row for i in indices for row in units[i]]
                reading = read(self.base.model, rows, entropy=entropy)
                loss, metrics = objective(reading, indices)
                loss.backward()
                for name, value in {"loss": float(loss.detach()), **metrics}.items():
                    sums[name] = sums.get(name, 0.0) + value

        self._within_memory(units, backward)
        norm = float(
            torch.nn.utils.clip_grad_norm_(self._trained, self._settings.max_gradient_norm)
        )
        if not (math.isfinite(sums["loss"]) and math.isfinite(norm)):
            self._optimizer.zero_grad(set_to_none=True)
            raise Diverged(
                f"The loss of update {self.updates + 1} is {sums['loss']:g} and the norm of its"
                f" gradient {norm:g}.",
                hint="Lower learning_rate.",
            )
        warmup = min(1.0, (self.updates + 1) / max(1, self._settings.warmup_steps))
        for group in self._optimizer.param_groups:
            group["lr"] = group["rate"] * warmup
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        rate = self._settings.learning_rate * warmup
        return {**sums, "gradient_norm": norm, "learning_rate": rate}

    def gradients(self, units: Sequence[Unit], objective: Objective) -> dict[str, Any]:
        """The gradient of the summed loss by parameter name, on the CPU; changes no weights."""
        self._optimizer.zero_grad(set_to_none=True)
        for indices in self._micro_batches(units):
            rows = [row for i in indices for row in units[i]]
            objective(read(self.base.model, rows), indices)[0].backward()
        gradients = {
            name: parameter.grad.cpu()
            for name, parameter in self._peft.named_parameters()
            if parameter.grad is not None
        }
        self._optimizer.zero_grad(set_to_none=True)
        return gradients

    def export(self, folder: Path) -> str:
        """Write the adapter in PEFT's layout, completely or not at all.

        Returns:
            Its content hash, as servers state it.

        Raises:
            StoreError: The folder cannot be written.
        """
        from ratchet.models.policy import adapter_hash

        write_folder(folder, self._write_adapter)
        return adapter_hash(folder)

    def save(self, folder: Path) -> None:
        """Write everything that training continues from into an existing folder.

        Raises:
            OSError: It cannot be written.
        """
        import torch
        from safetensors.torch import save_file

        self._write_adapter(folder)
        torch.save(self._optimizer.state_dict(), folder / "optimizer.pt")
        if self.critic is not None:
            save_file(self.critic.state_dict(), folder / "critic.safetensors")
        about = {"updates": self.updates, "micro_tokens": self.micro_tokens}
        (folder / "learner.json").write_text(json.dumps(about))

    def load(self, folder: Path) -> None:
        """Continue from a folder that `save` wrote, with the same settings.

        Raises:
            InputError: The adapter belongs to another base.
        """
        import torch
        from safetensors.torch import load_file

        self._config_of(folder)
        self._load_adapter(folder)
        state = torch.load(folder / "optimizer.pt", map_location=self._device, weights_only=True)
        self._optimizer.load_state_dict(state)
        if self.critic is not None:
            self.critic.load_state_dict(load_file(folder / "critic.safetensors"))
        about = json.loads((folder / "learner.json").read_text())
        self.updates, self.micro_tokens = about["updates"], about["micro_tokens"]

    def _micro_batches(self, units: Sequence[Unit]) -> Iterator[list[int]]:
        return micro_batches([_length(unit) for unit in units], self.micro_tokens)

    def _within_memory(self, units: Sequence[Unit], compute: Callable[[], None]) -> None:
        """Run a computation over the micro-batches of units, in smaller ones if necessary."""
        import torch

        while True:
            try:
                return compute()
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
            if all(len(part) == 1 for part in self._micro_batches(units)):
                raise RatchetError(
                    "There is not enough memory to train a single rollout or example of "
                    f"{counted(max(_length(unit) for unit in units), 'token')}.",
                    hint="Use a smaller model or shorter contexts, or dtype bfloat16.",
                )
            parts = sum(1 for _ in self._micro_batches(units))
            while sum(1 for _ in self._micro_batches(units)) == parts:
                self.micro_tokens //= 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _write_adapter(self, folder: Path) -> None:
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        tensors = get_peft_model_state_dict(self._peft, save_embedding_layers=False)
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            folder / "adapter_model.safetensors",
            metadata={"format": "pt"},
        )
        config = self._peft.peft_config["default"].to_dict()
        config |= {
            "base_model_name_or_path": self.base.fingerprint,
            "inference_mode": True,
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
        }
        # Sorted: the order of a set differs between processes.
        text = json.dumps(config, default=sorted, indent=2, sort_keys=True)
        (folder / "adapter_config.json").write_text(text)

    def _load_adapter(self, folder: Path) -> None:
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        set_peft_model_state_dict(self._peft, load_file(folder / "adapter_model.safetensors"))

    def _config_of(self, folder: Path) -> Any:
        from ratchet.models.policy.adapter_folder import read_adapter_config

        config = read_adapter_config(folder)
        if config.base_model_name_or_path != self.base.fingerprint:
            raise InputError(
                f"The adapter in {folder} belongs to the base {config.base_model_name_or_path!r}, "
                f"but this base is {self.base.name} ({self.base.fingerprint}).",
                hint="Name the base that it was trained on.",
            )
        return config


def _length(unit: Unit) -> int:
    return sum(len(row.ids) for row in unit)


def _out_of_memory(error: BaseException) -> bool:
    import torch

    text = str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        "can't allocate memory" in text or "out of memory" in text
    )
