"""Records one run of the owner's command or service."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ratchet.run.model_relay import Exchange, ModelRelay
from ratchet.wire.recording.journals import Journals
from ratchet.wire.recording.model_calls import (
    answer_of,
    dialect_of,
    is_model_call,
    is_streamed,
    path_without_keys,
    request_of,
    texts_of_request,
)
from ratchet.wire.recording.processes import Ended, Process
from ratchet.wire.recording.recording import (
    CommandRun,
    ModelCall,
    PythonUsed,
    Recording,
    ServiceRun,
)
from ratchet.wire.recording.surroundings import Surroundings

STDERR_TAIL = 8_000
STDOUT = 200_000


def record(
    run: CommandRun | ServiceRun,
    *,
    root: Path,
    simulated: bool,
    say: Callable[[str], None],
    timeout_s: float,
) -> Recording:
    """Run the owner's own command once, and watch it.

    Args:
        run: The command or the service.
        root: The repository's folder, where the command is run.
        simulated: Whether the simulated model answers instead of the real one.
        say: Told what is waited for.
        timeout_s: Seconds that the command, or the service's answer, may take.
    """
    began = time.perf_counter()
    root = root.resolve()
    exchanges: list[Exchange] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-recording-") as name:
        folder = Path(name).resolve()
        with ModelRelay(ended=exchanges.append) as relay:
            around = Surroundings(root, folder, relay, run.variables, simulated=simulated)
            if isinstance(run, CommandRun):
                ended = _run_command(run, root, around, folder, say, timeout_s)
            else:
                raise NotImplementedError
        journals = Journals(folder)
    clean: Callable[[Any], Any] = around.without_secrets
    calls = _model_calls(exchanges, journals, around)
    return Recording(
        run=run,
        root=str(root),
        simulated=simulated,
        exit_code=ended.code,
        timed_out=ended.code is None and not ended.problem,
        stdout=clean(ended.stdout[-STDOUT:]),
        stderr_tail=clean((ended.problem or ended.stderr)[-STDERR_TAIL:]),
        response="",
        response_status=0,
        seconds=round(ended.seconds, 3),
        overhead_s=round(time.perf_counter() - began - ended.seconds, 3),
        calls=calls,
        constructors=journals.constructors(),
        contacts=(),
        writes=(),
        programs=(),
        variables=(),
        missing=(),
        data_files_read=(),
        python=_python_used(journals),
        notes=(),
    )


def _run_command(
    run: CommandRun,
    root: Path,
    around: Surroundings,
    folder: Path,
    say: Callable[[str], None],
    timeout_s: float,
) -> Ended:
    started = time.perf_counter()
    try:
        process = Process(
            run.argv,
            cwd=root,
            environ=around.variables,
            mark=str(folder),
            stdin=run.stdin,
            terminal=run.terminal,
        )
    except OSError as error:
        problem = f"{run.argv[0]} cannot be started: {error.strerror or error}."
        return Ended(code=127, stdout="", stderr="", seconds=0.0, problem=problem)
    try:
        code = process.wait(timeout_s, say, shlex.join(run.argv))
        seconds = time.perf_counter() - started
    finally:
        process.end()
    return Ended(code=code, stdout=process.stdout, stderr=process.stderr, seconds=seconds)


def _model_calls(
    exchanges: list[Exchange], journals: Journals, around: Surroundings
) -> tuple[ModelCall, ...]:
    asked = [exchange for exchange in exchanges if is_model_call(exchange)]
    asked.sort(key=lambda exchange: exchange.request.number)
    return tuple(
        _model_call(number, exchange, journals, around) for number, exchange in enumerate(asked)
    )


def _model_call(
    number: int, exchange: Exchange, journals: Journals, around: Surroundings
) -> ModelCall:
    arrived = exchange.request
    request = around.without_secrets(request_of(exchange))
    dialect = dialect_of(arrived.path, request)
    event = journals.calls.get(arrived.call, {})
    return ModelCall(
        number=number,
        method=arrived.method,
        path=path_without_keys(arrived.path),
        host=urlsplit(arrived.url).netloc,
        dialect=dialect,
        request=request,
        texts=texts_of_request(request),
        response=around.without_secrets(answer_of(exchange, dialect)),
        status=exchange.status,
        streamed=is_streamed(exchange),
        seconds=round(exchange.seconds, 3),
        stack=journals.stack(arrived.call),
        pid=event.get("process", 0),
        client=event.get("client", ""),
        fixed_address=not around.moves(arrived.url),
    )


def _python_used(journals: Journals) -> PythonUsed | None:
    """The interpreter that called a model, or else the last that was started."""
    started = journals.of("start")
    if not started:
        return None
    calling = {event["process"] for event in journals.calls.values()}
    chosen = next((event for event in started if event["process"] in calling), started[-1])
    ends = [event for event in journals.of("end") if event["process"] == chosen["process"]]
    return PythonUsed(
        executable=chosen["executable"],
        version=chosen["version"],
        sdk=any(event["sdk"] for event in ends),
    )
