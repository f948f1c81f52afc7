"""Local models: a GGUF file, found or fetched, and served by llama.cpp in a process of its own."""

from ratchet.models.failure import ModelUnavailable
from ratchet.models.local_model import LocalModel
from ratchet.models.model_file import ModelFile, find_model, is_local
from ratchet.models.shared import shared_model

__all__ = [
    "LocalModel",
    "ModelFile",
    "ModelUnavailable",
    "find_model",
    "is_local",
    "shared_model",
]
