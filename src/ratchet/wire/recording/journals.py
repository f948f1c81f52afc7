"""The journals of a recording's processes, as frames and acts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ratchet.wire.recording.recording import Argument, Frame, Value

MAX_EVENTS = 500_000
_ABOUT_NETWORK = re.compile(r"Connect|Resolution|gaierror|Timeout|Network")


class Journals:
    """All that the hooks wrote.

    Args:
        folder: Where each process kept its file.
    """

    def __init__(self, folder: Path) -> None:
        self.events = list(_read(folder))
        frames = {event["name"]: event for event in self.of("frame")}
        self._frames = {name: frame_of(event, n) for n, (name, event) in enumerate(frames.items())}
        for event in self.events:
            if event["kind"] == "ended" and event["name"] in self._frames:
                value = event.get("returned")
                self._frames[event["name"]] = msgspec.structs.replace(
                    self._frames[event["name"]],
                    returned=None if value is None else msgspec.convert(value, Value),
                    raised=event.get("raised", ""),
                )
        self.calls = {event["name"]: event for event in self.of("call")}

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Events of a kind, in order."""
        return [event for event in self.events if event["kind"] == kind]

    def crashed(self, *, by_network: bool) -> bool:
        """Whether the program ended with an exception of the network, or else with another one."""
        kinds = [error["type"] for event in self.of("crash") for error in event["errors"]]
        return bool(kinds) and by_network == any(map(_ABOUT_NETWORK.search, kinds))

    def stack(self, call: str) -> tuple[Frame, ...]:
        """Frames of a call, outermost first."""
        event = self.calls.get(call)
        if event is None:
            return ()
        frames = [
            self._frames[entry] if isinstance(entry, str) else frame_of(entry, -1)
            for entry in event["stack"]
            if not isinstance(entry, str) or entry in self._frames
        ]
        return tuple(frames)

    def constructors(self) -> tuple[Frame, ...]:
        """Constructors of the objects that recorded frames belong to."""
        return tuple(
            frame_of(event, -1 - number) for number, event in enumerate(self.of("constructor"))
        )


def frame_of(event: Mapping[str, Any], activation: int) -> Frame:
    """A frame as a hook wrote it."""
    return Frame(
        file=event["file"],
        module=event.get("module", ""),
        line=event["line"],
        function=event["function"],
        kind=event.get("type", "function"),
        activation=activation,
        arguments=tuple(
            msgspec.convert(argument, Argument) for argument in event.get("arguments", ())
        ),
    )


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    left = MAX_EVENTS
    for file in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns):
        pid = int(file.name.partition("-")[0])
        for line in file.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:  # the process was killed while it wrote
                continue
            left -= 1
            if left < 0:
                return
            yield {**event, "process": pid}
