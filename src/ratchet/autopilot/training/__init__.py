"""The trainer API: an agent as an object, datasets as lists, and `fit`."""

from ratchet.autopilot.training.trainer import FittingTrainer, Trained

__all__ = ["FittingTrainer", "Trained"]
