"""The trainer API: an agent as an object, datasets as lists, and `fit`."""

from ratchet.autopilot.training.trainer import Trained, Trainer

__all__ = ["Trained", "Trainer"]
