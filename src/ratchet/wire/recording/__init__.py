"""Runs the owner's own command once, and watches it."""

from ratchet.wire.recording.record import record
from ratchet.wire.recording.recording import (
    Argument,
    CommandRun,
    Contact,
    FileWrite,
    Frame,
    Missing,
    ModelText,
    Program,
    PythonUsed,
    Recording,
    ServiceRun,
    Value,
    WatchedCall,
)

__all__ = [
    "Argument",
    "CommandRun",
    "Contact",
    "FileWrite",
    "Frame",
    "Missing",
    "ModelText",
    "Program",
    "PythonUsed",
    "Recording",
    "ServiceRun",
    "Value",
    "WatchedCall",
    "record",
]
