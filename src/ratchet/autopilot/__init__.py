"""The loop, as a persisted state machine, and the project it works on."""

from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.loop import improve
from ratchet.autopilot.project import Project
from ratchet.autopilot.session import open_runner
from ratchet.autopilot.watcher import Watcher

__all__ = ["Config", "Project", "Watcher", "improve", "open_runner", "read_config"]
