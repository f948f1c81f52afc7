"""A service is started or waited for, asked once, and ended with all that it started."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ratchet._http import httpx2
from ratchet.types import InputError
from ratchet.wire.recording.record import record
from ratchet.wire.recording.recording import ServiceRun
from tests.wire.recording.recorded import arguments, frame, functions, project

APP = """
import fastapi, pydantic
from asking import ask

app = fastapi.FastAPI()

class Question(pydantic.BaseModel):
    question: str
    session: str = "s1"

@app.post("/chat")
def chat(body: Question):
    return {"answer": ask(body.question)}
"""
BODY = '{"question": "Where is it?"}'


def free_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/chat"


def command(url: str, *options: str) -> tuple[str, ...]:
    port = url.rpartition(":")[2].partition("/")[0]
    return (sys.executable, "-m", "uvicorn", "app:app", "--port", port, *options)


@pytest.mark.parametrize("options", [(), ("--reload",)])
def test_a_service_is_started_asked_and_ended(
    options: tuple[str, ...], tmp_path: Path, upstream: str
) -> None:
    root, url = project(tmp_path, app=APP), free_url()
    run = ServiceRun(
        url=url, data=BODY, serve=command(url, *options), variables={"UPSTREAM": upstream}
    )
    said: list[str] = []
    recording = record(run, root=root, simulated=False, say=said.append, timeout_s=60)
    assert recording.response_status == 200, (recording.response, recording.stderr_tail)
    assert recording.modules_loaded == ("app.py", "asking.py")  # though a signal ended it
    [call] = recording.calls
    assert call.response in recording.response
    assert functions(call) == ["chat", "ask"]
    chat = frame(call, "chat")
    assert arguments(chat) == {"body": {"question": "Where is it?", "session": "s1"}}
    assert chat.module == "app"
    assert any("waiting for" in sentence for sentence in said)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.split(":")[2].partition("/")[0])))


def test_an_owner_starts_the_service_with_the_variables_that_are_said(
    tmp_path: Path, upstream: str
) -> None:
    root, url = project(tmp_path, app=APP), free_url()
    started: list[subprocess.Popen[bytes]] = []

    def start(sentence: str) -> None:
        match = re.match(r"  (PYTHONPATH=\S+) (RATCHET_RECORDING=\S+) …", sentence)
        if match:
            own = dict(shlex.split(part)[0].split("=", 1) for part in match.groups())
            environ = {**os.environ, **own, "UPSTREAM": upstream}
            started.append(subprocess.Popen(command(url), cwd=root, env=environ))

    recording = record(
        ServiceRun(url=url, data=BODY), root=root, simulated=False, say=start, timeout_s=60
    )
    # The service goes on, and calls its model by itself from then on.
    again = httpx2.post(url, content=BODY, headers={"content-type": "application/json"})
    for process in started:
        process.terminate()
        process.wait()
    assert again.status_code == 200
    assert recording.response_status == 200, recording.stderr_tail
    [call] = recording.calls
    assert functions(call) == ["chat", "ask"]


def test_a_service_that_ends_and_a_port_that_is_taken_are_said(tmp_path: Path) -> None:
    root, url = project(tmp_path, app="import os\nos.environ['STORE_URL']"), free_url()
    threads = threading.active_count()
    run = ServiceRun(url=url, data=BODY, serve=command(url))
    recording = record(run, root=root, simulated=False, say=print, timeout_s=60)
    assert "ended with exit code 1 before it answered" in recording.stderr_tail
    assert ("variable", "STORE_URL") in {(each.kind, each.name) for each in recording.missing}
    port = int(url.split(":")[2].partition("/")[0])
    taken = pytest.raises(InputError, match="already listening at")
    with socket.create_server(("127.0.0.1", port)), taken:
        record(run, root=root, simulated=False, say=print, timeout_s=60)
    assert threading.active_count() <= threads
