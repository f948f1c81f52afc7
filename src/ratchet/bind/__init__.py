"""Binding: resolves named resources to a candidate's, a release's or the source's version."""

import os

from ratchet import _live_calls
from ratchet.bind.code import CodeRefused, evolve, same_behaviour, source_of
from ratchet.bind.context import (
    BINDING_VARIABLE,
    SEED_VARIABLE,
    Binding,
    activate,
    bind_process,
    bound,
    current,
    current_seed,
    importing,
)
from ratchet.bind.live import RELEASE_VARIABLE, LiveChooser
from ratchet.bind.model import ModelHandle, model
from ratchet.bind.params import Knobs, params
from ratchet.bind.prompt import Prompt, prompt
from ratchet.bind.registry import declarations, forget

_live_calls.chooser = LiveChooser(deployed=os.environ.get(RELEASE_VARIABLE, "").strip()[:200])

__all__ = [
    "BINDING_VARIABLE",
    "SEED_VARIABLE",
    "Binding",
    "CodeRefused",
    "Knobs",
    "ModelHandle",
    "Prompt",
    "activate",
    "bind_process",
    "bound",
    "current",
    "current_seed",
    "declarations",
    "evolve",
    "forget",
    "importing",
    "model",
    "params",
    "prompt",
    "same_behaviour",
    "source_of",
]
