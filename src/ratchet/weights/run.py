"""A training run: steps, checkpoints and validations, as a state machine that survives kills.

A run resumes from its last checkpoint and nothing else. Whatever was done since is done again, in
the same way: the order of data and random numbers follow from the seed and the step, and rollouts
are replayed by the sampler. So a killed run ends with the weights that it would have had.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ratchet._private_files import make_folder
from ratchet.run.locks import FileLock
from ratchet.types import ConfigError, StoreError
from ratchet.types.wording import counted
from ratchet.weights.learner import Diverged, Learner
from ratchet.weights.metrics import ValResult, append_metrics, drop_metrics_after
from ratchet.weights.settings import Schedule
from ratchet.weights.whole_folder import PARTIAL, write_folder

TrainState: TypeAlias = Literal["export", "validate", "save", "collect", "train", "done", "stopped"]

TRAIN_TRANSITIONS: dict[TrainState, frozenset[TrainState]] = {
    # A run begins here: with the weights before the first step.
    "export": frozenset({"validate", "save", "collect"}),
    "validate": frozenset({"save"}),
    "save": frozenset({"collect", "done", "stopped"}),
    "collect": frozenset({"train"}),
    "train": frozenset({"export", "save", "collect"}),
    "done": frozenset(),
    # Training cannot go on; the best weights so far are the result.
    "stopped": frozenset(),
}
"""Allowed transitions. A state without successors is final."""

CHECKPOINTS, ADAPTERS = "checkpoints", "adapters"


class TrainingProgress(msgspec.Struct, kw_only=True):
    """What a run remembers besides the learner."""

    step: int = 0
    """Number of steps done."""
    recipe: dict[str, Any] = {}
    """The settings and data that determine the result."""
    validations: list[tuple[int, ValResult]] = []
    """By step; 0 is before training."""
    rewards: list[float | None] = []
    """Mean reward of each step's batch, or None for methods without a reward."""
    versions: dict[str, int] = {}
    """Step by content hash of the exported adapters; the base counts as step 0."""
    first_loss: float | None = None
    """Of the first batch."""
    idle: int = 0
    """Number of batches in a row that taught nothing."""
    ending: str = ""
    """Why training cannot continue, in a sentence."""

    @property
    def best(self) -> tuple[int, ValResult] | None:
        """Step and validation of the best weights; the earliest of equally good ones."""
        return max(self.validations, key=lambda validation: validation[1].value, default=None)


class TrainingResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    state: Literal["done", "stopped"]
    adapter: Path
    """Folder of the best adapter on val; of the last adapter if there was no validation."""
    step: int
    """Number of steps that it was trained for; 0: nothing was better than the initial weights."""
    steps: int
    """Number of steps that the run did."""
    first: ValResult | None
    """Validation of the initial weights."""
    best: ValResult | None
    """Validation of the best weights."""
    sentence: str
    """Sentence on the result."""


class TrainingMethod(Protocol):
    """What to learn from: rollouts, examples or preferences."""

    @property
    def schedule(self) -> Schedule:
        """Steps, validations, checkpoints and seed."""
        ...

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings and hashes of the data, as JSON values: what determines the result, except the
        number of steps."""
        ...

    @property
    def lag(self) -> int | None:
        """Number of steps by which the adapter that makes a batch lags behind; None: it needs
        none."""
        ...

    @property
    def patience(self) -> int | None:
        """Number of batches in a row that teach nothing, after which training stops."""
        ...

    @property
    def max_rise(self) -> float | None:
        """How far a batch's loss may exceed the first batch's; beyond that, training has
        diverged."""
        ...

    async def batch(self, step: int, adapters: Callable[[int], Path | None]) -> Any:
        """The data of a step.

        Args:
            step: From 0.
            adapters: The adapter after so many steps, up to `step`; None for the base alone.
        """
        ...

    def train(
        self, learner: Learner, batch: Any, step: int, versions: dict[str, int]
    ) -> dict[str, Any]:
        """Train on a batch, in a thread of its own.

        Args:
            learner: The learner.
            batch: As `batch` returned it.
            step: From 0.
            versions: Step by content hash of the weights that may have answered.

        Returns:
            Metrics, as JSON values, with `taught: False` if no step of the optimizer was taken.

        Raises:
            Diverged: Training cannot go on.
        """
        ...

    async def validate(self, learner: Learner, adapter: Path | None, step: int) -> ValResult | None:
        """How good the weights are that the learner and the adapter share."""
        ...

    async def close(self) -> None:
        """End what is still running."""
        ...


class TrainingRun:
    """Trains until the last step, through as many processes as it takes.

    Args:
        folder: The run's own; a run that was begun there goes on.
        learner: With its weights at the start.
        method: What it learns from.
        starts_fresh: The learner's adapter at the start changes nothing, so that the base alone is
            asked for rollouts until the first step.
        on_state: Told each state and the steps done, before the state is entered.
    """

    def __init__(
        self,
        folder: Path,
        learner: Learner,
        method: TrainingMethod,
        *,
        starts_fresh: bool = True,
        on_state: Callable[[TrainState, int], None] = lambda state, step: None,
    ) -> None:
        self._folder = folder
        self._learner = learner
        self._method = method
        self._starts_fresh = starts_fresh
        self._on_state = on_state
        self._schedule = method.schedule
        self._progress = TrainingProgress()
        self._batch: Any = None

    async def run(self) -> TrainingResult:
        """Run to the end.

        Raises:
            Conflict: Another process trains in this folder.
            ConfigError: The run in this folder was begun with other settings or data.
            StoreError: A file cannot be written. The last checkpoint is unchanged.
            InputError: A batch cannot be trained on.
        """
        with FileLock(self._folder / "lock", f"Training in {self._folder}"):
            state = await asyncio.to_thread(self._resume)
            try:
                while TRAIN_TRANSITIONS[state]:
                    self._on_state(state, self._progress.step)
                    following = await self._enter(state)
                    if following not in TRAIN_TRANSITIONS[state]:
                        raise AssertionError(f"{state} was followed by {following}")
                    state = following
            finally:
                await self._method.close()
            self._on_state(state, self._progress.step)
            return self._result(state)

    async def _enter(self, state: TrainState) -> TrainState:
        """Do what a state requires; returns the next state."""
        progress = self._progress
        match state:
            case "export":
                version = await asyncio.to_thread(
                    self._learner.export, self._adapter_folder(progress.step)
                )
                progress.versions[version] = progress.step
                if self._validates:
                    return "validate"
                return "save" if self._saves else "collect"
            case "validate":
                validation = await self._method.validate(
                    self._learner, self._adapter(progress.step), progress.step
                )
                if validation is not None:
                    progress.validations.append((progress.step, validation))
                    append_metrics(
                        self._folder,
                        {"step": progress.step, "val": msgspec.to_builtins(validation)},
                    )
                return "save"
            case "save":
                await asyncio.to_thread(self._save)
                if progress.ending:
                    return "stopped"
                return "done" if progress.step >= self._schedule.steps else "collect"
            case "collect":
                began = time.monotonic()
                batch = await self._method.batch(progress.step, self._adapter)
                self._batch = (batch, time.monotonic() - began)
                return "train"
            case _:
                return await self._train()

    async def _train(self) -> TrainState:
        progress = self._progress
        batch, waited = self._batch
        self._batch = None
        began = time.monotonic()
        try:
            metrics = await asyncio.to_thread(
                self._method.train, self._learner, batch, progress.step, progress.versions
            )
        except Diverged as error:
            progress.ending = str(error)
            return "save"
        took = time.monotonic() - began
        progress.step += 1
        progress.rewards.append(metrics.get("reward"))
        progress.idle = 0 if metrics["taught"] else progress.idle + 1
        tokens = metrics.get("tokens", 0)
        record = {
            "step": progress.step,
            **metrics,
            "collect_s": waited,
            "train_s": took,
            "tokens_per_s": tokens / took if took else 0.0,
        }
        append_metrics(self._folder, record)
        progress.ending = self._reason_to_stop(metrics)
        if progress.ending:
            return "save"
        if self._method.lag is not None or self._validates:
            return "export"
        return "save" if self._saves else "collect"

    def _reason_to_stop(self, metrics: dict[str, Any]) -> str:
        """Why training should not continue after a step; empty if it should."""
        progress = self._progress
        if self._method.patience is not None and progress.idle >= self._method.patience:
            return (
                f"The rewards of {progress.idle} batches in a row taught nothing: all rollouts of"
                " each task earned the same, or had no reward."
            )
        if self._method.max_rise is not None:
            if progress.first_loss is None:
                progress.first_loss = metrics["loss"]
            if metrics["loss"] > progress.first_loss + self._method.max_rise:
                return (
                    f"The loss rose from {progress.first_loss:.3g} to {metrics['loss']:.3g}."
                    " Lower learning_rate."
                )
        return ""

    @property
    def _validates(self) -> bool:
        step = self._progress.step
        return step % self._schedule.validate_every == 0 or step >= self._schedule.steps

    @property
    def _saves(self) -> bool:
        return self._validates or self._progress.step % self._schedule.save_every == 0

    def _resume(self) -> TrainState:
        """Load the last checkpoint, if there is one."""
        recipe = {**self._method.recipe, "base": self._learner.base.fingerprint}
        recipe = msgspec.json.decode(msgspec.json.encode(recipe))  # as it is read back
        checkpoint = max(_whole(self._folder / CHECKPOINTS), default=None)
        if checkpoint is None:
            self._progress = TrainingProgress(
                recipe=recipe, versions={self._learner.base.fingerprint: 0}
            )
            drop_metrics_after(self._folder, -1)
            return "export"
        progress = _read_progress(checkpoint)
        differing = [name for name in recipe if recipe[name] != progress.recipe.get(name)]
        if differing:
            raise ConfigError(
                f"The training in {self._folder} was begun with another {' and '.join(differing)}.",
                hint="Restore what it was begun with, or train in another folder.",
            )
        self._learner.load(checkpoint)
        self._progress = progress
        drop_metrics_after(self._folder, progress.step)
        if progress.ending:
            return "stopped"
        return "done" if progress.step >= self._schedule.steps else "collect"

    def _save(self) -> None:
        """Write a checkpoint, then delete what is no longer needed."""
        progress = self._progress
        folder = self._folder / CHECKPOINTS / f"{progress.step:06d}"

        def write(partial: Path) -> None:
            self._learner.save(partial)
            (partial / "progress.json").write_bytes(msgspec.json.encode(progress))

        write_folder(folder, write)
        for old in _whole(self._folder / CHECKPOINTS):
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        needed = {0, self._result_step()}
        oldest = progress.step - (self._method.lag or 0)
        for adapter in _whole(self._folder / ADAPTERS):
            step = int(adapter.name)
            if step < oldest and step not in needed:
                shutil.rmtree(adapter, ignore_errors=True)

    def _adapter_folder(self, step: int) -> Path:
        return self._folder / ADAPTERS / f"{step:06d}"

    def _adapter(self, step: int) -> Path | None:
        return None if step == 0 and self._starts_fresh else self._adapter_folder(step)

    def _result_step(self) -> int:
        """Number of steps that the best weights were trained for."""
        best = self._progress.best
        if best is not None:
            return best[0]
        return max((int(adapter.name) for adapter in _whole(self._folder / ADAPTERS)), default=0)

    def _result(self, state: TrainState) -> TrainingResult:
        progress = self._progress
        step = self._result_step()
        first = next((validation for at, validation in progress.validations if at == 0), None)
        best = progress.best
        text = f"{counted(progress.step, 'step')}; "
        if best is None or first is None:
            text += f"the weights after {step} are the result, without validation."
        elif step == 0:
            text += f"none was better on val than the start ({first.value:.4g})."
        else:
            text += f"step {step} is the best on val: {first.value:.4g} → {best[1].value:.4g}."
        return TrainingResult(
            state="stopped" if state == "stopped" else "done",
            adapter=self._adapter_folder(step),
            step=step,
            steps=progress.step,
            first=first,
            best=None if best is None else best[1],
            sentence=f"{progress.ending} {text}" if progress.ending else text,
        )


def _whole(folder: Path) -> list[Path]:
    """The folders of steps that were written completely."""
    make_folder(folder)
    return [path for path in folder.iterdir() if path.suffix != PARTIAL]


def _read_progress(folder: Path) -> TrainingProgress:
    path = folder / "progress.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrainingProgress)
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(
            f"The checkpoint {path} cannot be read: {error}.",
            hint="Delete the run's folder to start again.",
        ) from None
