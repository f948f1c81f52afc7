"""Checks a service: starts it on loopback in a copy, and calls its route once, with no way out.

It runs as a rollout does: marked tools are denied, and prompts can be replaced.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ratchet.wire.checking.called import Called, CheckBinding
from ratchet.wire.checking.contained import environment, model_addresses
from ratchet.wire.checking.findings import CheckFinding, last_error, needs, short
from ratchet.wire.checking.simulated_answers import sample
from ratchet.wire.checking.simulator import SimulatedModel
from ratchet.wire.checking.wired_project import QUESTION
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.service_app import ServiceApp, find_app
from ratchet.wire.facts import RepositoryLook

START_S, CALL_S = 60.0, 60.0
"""Seconds until it must listen, and for the one call."""
MOST = 1_000_000
"""Bytes of an answer that are read."""
_TEXT = re.compile(r"question|query|prompt|message|input|text|content|topic|task", re.IGNORECASE)
_AGAIN = "Then: ratchet init --check"


class ServiceCheck:
    """One service, in a copy of its repository.

    Args:
        folder: The copy.
        scratch: A folder for its output.
        facts: What a look found.
        project: Folder of the project.
        entry: Name of the entry, such as `POST /ask`.
        url: Where `ratchet.toml` sends tasks.
        app: The application.
        python: The interpreter.
        model: The simulator.
        given: The input of a task; None without tasks.
        variables: What else is in its environment.
    """

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        *,
        facts: RepositoryLook,
        project: str,
        entry: str,
        url: str,
        app: ServiceApp,
        python: Path,
        model: SimulatedModel,
        given: Any = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._variables = variables or {}
        self._folder = folder
        self._scratch = scratch
        self._binding = CheckBinding(scratch)
        self._facts = facts
        self._project = project
        self._method = entry.partition(" ")[0] if " " in entry else "POST"
        self._route = urlsplit(url).path or "/"
        self._app = app
        self._python = python
        self._model = model
        self._given = given

    def call(self, prompts: Mapping[str, str] | None = None) -> Called:
        """Start it, call the route once, and end it.

        Args:
            prompts: Texts that prompts are replaced by, by name.
        """
        self._binding.write(prompts or {})
        self._model.taken()
        variables = {
            **self._variables,
            **model_addresses(self._model.url),
            **self._app.variables(self._folder),
            **self._binding.variables,
        }
        log = self._scratch / "service.log"
        with environment(self._facts, variables) as environ, log.open("wb") as said:
            port = _free_port()
            command = self._app.command(self._python, port)
            with _running(command, self._folder / self._project, environ, said) as process:
                problem = _wait(process, port)
                status, text = (0, problem) if problem else self._ask(port)
        tail = log.read_text(errors="replace")[-3000:]
        if status == 0 or status >= 500:
            text = f"{text} {last_error(tail)}".strip()
        return Called(
            200 <= status < 300, text, self._model.taken(), self._binding.denied(), status
        )

    def _ask(self, port: int) -> tuple[int, str]:
        from ratchet._http import httpx2

        base = f"http://127.0.0.1:{port}"
        try:
            with httpx2.Client(trust_env=False, timeout=CALL_S) as client:
                path, body, query = self._example(client, base)
                method = "POST" if self._method == "ROUTE" else self._method
                with client.stream(method, base + path, json=body, params=query) as answer:
                    text, until = b"", time.monotonic() + CALL_S
                    for part in answer.iter_bytes():
                        text += part
                        if len(text) > MOST or time.monotonic() > until:
                            break
                    return answer.status_code, short(text.decode(errors="replace"), 300)
        except httpx2.HTTPError as error:
            return 0, f"The call ended without an answer: {type(error).__name__}."

    def _example(self, client: Any, base: str) -> tuple[str, Any, dict[str, str]]:
        """Path, body and query: of the service's own OpenAPI document, if it has one."""
        from ratchet._http import httpx2

        path = re.sub(r"[{<][^}>]*[}>]", "1", self._route)
        try:
            answer = client.get(f"{base}/openapi.json")
            document = answer.json() if answer.status_code == 200 else {}
            operation = document["paths"][self._route][self._method.lower()]
        except (httpx2.HTTPError, ValueError, KeyError, TypeError):
            return path, self._plain_body(), {}
        content = operation.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        query = {
            one["name"]: _filled(sample(one.get("schema", {}), "", document), self._text())
            for one in operation.get("parameters", ())
            if one.get("in") == "query" and one.get("required")
        }
        if schema is None:
            return path, self._plain_body(), query
        if isinstance(self._given, dict):
            return path, self._given, query
        return path, _filled(sample(schema, "", document), self._text()), query

    def _plain_body(self) -> Any:
        """The body of a task, as Ratchet sends it, and the usual names of its text."""
        if isinstance(self._given, dict):
            return {"input": self._given, **self._given}
        return dict.fromkeys(("input", "message", "question", "query", "text"), self._text())

    def _text(self) -> str:
        return self._given if isinstance(self._given, str) else QUESTION


def app_finding(root: Path, project: str, entry_path: str, once: str) -> ServiceApp | CheckFinding:
    """The application of a service, or why it cannot be started."""
    if not entry_path.endswith(".py"):
        why = "It is a service in another language than Python, which a check does not start."
    else:
        app = find_app(Modules(root, project), entry_path)
        if app is not None:
            return app
        why = f"It is a service, and no application of FastAPI or Flask leads to {entry_path}."
    step = f"Start it, then: {once}"
    return CheckFinding("agent", "not verified", why, step)


def agent_finding(route: str, call: Called, once: str) -> CheckFinding:
    """Whether a call went through the agent."""
    asked = f"the simulated model was asked {len(call.requests)} times"
    if call.blocked:
        why = f"{route} ran until the denied tool {call.blocked!r}; {asked}."
        return CheckFinding("agent", "verified", why)
    if call.ran and call.requests:
        return CheckFinding("agent", "verified", f"{route} answered {call.status}; {asked}.")
    if call.ran:
        why = f"{route} answered {call.status} and asked no model: {short(call.said, 160)}"
        step = f"Write a task whose input is a body that makes a model call. {_AGAIN}"
        return CheckFinding("agent", "not verified", why, step)
    if call.status in (401, 403):
        step = f"Try it with a key: {once}"
        return CheckFinding("agent", "not verified", f"{route} asks who calls it.", step)
    if 400 <= call.status < 500:
        why = f"{route} refused the example body with {call.status}: {short(call.said, 200)}"
        step = f"Write a task whose input is a body that it takes. {_AGAIN}"
        return CheckFinding("agent", "not verified", why, step)
    lacking = needs(call.said)
    if lacking or not call.status:
        why = lacking or short(call.said)
        step = f"Provide what it needs ({short(call.said, 160)}). {_AGAIN}"
        return CheckFinding("agent", "not verified", why, step)
    why = f"{route} answered {call.status}: {short(call.said)}"
    return CheckFinding("agent", "failed", why, "Start it yourself, and send it the same.")


@contextmanager
def _running(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], said: Any
) -> Iterator[subprocess.Popen[bytes] | str]:
    """A process that is ended, with what it started, afterwards."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    except OSError as error:
        yield f"It could not be started: {error}."
        return
    try:
        yield process
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sent)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _wait(process: subprocess.Popen[bytes] | str, port: int) -> str:
    """Wait until it listens; why it does not, or nothing."""
    if isinstance(process, str):
        return process
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            return "It ended while it started."
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    return f"It did not listen within {START_S:g} s."


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _filled(value: Any, text: str, name: str = "") -> Any:
    """An example whose texts say something where their names ask for it."""
    if isinstance(value, dict):
        return {key: _filled(one, text, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, text, name) for one in value]
    if isinstance(value, str) and value.startswith("simulated") and _TEXT.search(name):
        return text
    return value
