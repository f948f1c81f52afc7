"""A simulated model: answers in the requested form, and has no abilities."""

from ratchet.models.simulated.dialects import Spoken, about_models, beside, embeddings, spoken
from ratchet.models.simulated.turns import turn_of

__all__ = ["Spoken", "about_models", "beside", "embeddings", "spoken", "turn_of"]
