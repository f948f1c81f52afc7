"""Programs in folders of their own, recorded against a real upstream."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ratchet.wire.recording.record import record
from ratchet.wire.recording.recording import CommandRun, Frame, Recording, WatchedCall

ASK = """
import http.client, json, os
def ask(question, system="Answer shortly."):
    place = os.environ["UPSTREAM"].split("//")[1]
    connection = http.client.HTTPConnection(place)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    body = json.dumps({"model": "m", "messages": messages})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    return json.load(connection.getresponse())["choices"][0]["message"]["content"]
"""
"""A module `asking` without any library; its one function asks the upstream."""


def project(folder: Path, **files: str) -> Path:
    """Write a project; `__` in a name stands for a slash, and the ending is `.py`."""
    for name, text in {"asking": ASK, **files}.items():
        path = folder / (name.replace("__", "/") + ("" if "." in name else ".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def recorded(
    root: Path,
    *argv: str,
    upstream: str = "",
    simulated: bool = False,
    python: str = sys.executable,
    stdin: str | None = None,
    timeout_s: float = 60.0,
    hosts: Sequence[tuple[str, int]] = (),
    **variables: str,
) -> Recording:
    """Record a Python command in a project."""
    run = CommandRun(
        argv=(python, *argv) if python else argv,
        stdin=stdin,
        variables={"UPSTREAM": upstream, **variables},
    )
    return record(run, root=root, simulated=simulated, say=print, timeout_s=timeout_s, hosts=hosts)


def functions(call: WatchedCall) -> list[str]:
    """Names of a call's stack, outermost first."""
    return [frame.function for frame in call.stack]


def frame(call: WatchedCall, function: str) -> Frame:
    """The innermost frame of a function."""
    return next(frame for frame in reversed(call.stack) if frame.function == function)


def arguments(frame: Frame) -> dict[str, object]:
    """Values of a frame's arguments, by name."""
    return {argument.name: argument.value for argument in frame.arguments}
