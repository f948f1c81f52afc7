"""The improvement loop as a persisted state machine, and the project it works on."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.project import Project
from ratchet.autopilot.server_sections import ServerConfig, read_server_config

if TYPE_CHECKING:
    from ratchet.autopilot.loop import improve
    from ratchet.autopilot.runner import open_runner
    from ratchet.autopilot.watcher import Watcher

_LATER = {"Watcher": "watcher", "improve": "loop", "open_runner": "runner"}
"""Imported on first use: reading a project does not need them."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"ratchet.autopilot.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ratchet.autopilot' has no attribute {name!r}")


__all__ = [
    "Config",
    "Project",
    "ServerConfig",
    "Watcher",
    "improve",
    "open_runner",
    "read_config",
    "read_server_config",
]
