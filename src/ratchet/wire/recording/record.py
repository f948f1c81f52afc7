"""Records one run of the owner's command or service."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ratchet.hooks.python.ratchet_recording_hook.shapes import place_of
from ratchet.run.model_relay import Exchange, ModelRelay
from ratchet.run.program_results import as_shown
from ratchet.sandbox.acts import Watch
from ratchet.sandbox.limits import SandboxUnavailable
from ratchet.source.dotenv import read_dotenv
from ratchet.source.literals.source_files import place_in_code
from ratchet.types.wording import counted
from ratchet.wire.recording.contained import ContainedWatch
from ratchet.wire.recording.environment import PROVIDERS, PYTHON_HOOK, RunEnvironment
from ratchet.wire.recording.journals import Journals
from ratchet.wire.recording.missing import Sources, missing
from ratchet.wire.recording.model_calls import (
    answer_of,
    asks_model,
    dialect_of,
    is_streamed,
    path_without_keys,
    request_of,
    texts_of_request,
)
from ratchet.wire.recording.outside import listing, outside
from ratchet.wire.recording.processes import Ended
from ratchet.wire.recording.recording import (
    CommandRun,
    Contact,
    Missing,
    PythonUsed,
    Recording,
    ServiceRun,
    WatchedCall,
)
from ratchet.wire.recording.running import Stage, run_command, run_service
from ratchet.wire.recording.simulated_model import SimulatedModel
from ratchet.worker.environment import PROVIDER_KEYS

STDERR_TAIL = 8_000
LAST_OUTPUT = 1_500
"""Characters of the output that a person is shown."""
STDOUT = 200_000

_WANTS_TERMINAL = re.compile(r"not a (?:tty|terminal)|Inappropriate ioctl|/dev/tty", re.IGNORECASE)

PLACEHOLDER = "sk-simulated"
"""Beginning of the value of a key that nobody has set; its variable's name follows."""

_OF_HOOK = re.compile(
    r'^ +File "[^"\n]*ratchet_(?:recording|model)_hook[^\n]*\n(?:    [^\n]*\n)*', re.MULTILINE
)
"""Lines of a traceback that are not the program's."""


def record(
    run: CommandRun | ServiceRun,
    *,
    root: Path,
    simulated: bool,
    say: Callable[[str], None],
    timeout_s: float,
    hosts: Sequence[tuple[str, int]] = (),
    keys: Mapping[str, str] | None = None,
    absent: Sequence[str] = (),
) -> Recording:
    """Run the owner's own command once, and watch it.

    Args:
        run: The command or the service.
        root: The repository's folder, where the command is run.
        simulated: Whether the simulated model answers instead of the real one.
        say: Told what is waited for.
        timeout_s: Seconds that the command, or the service's answer, may take.
        hosts: What a contained run may reach besides the simulated model.
        keys: Of a simulated run, the placeholders for unset keys, if not all of them.
        absent: Files and folders that a contained run starts without.
    """
    began = time.perf_counter()
    root = root.resolve()
    argv = run.argv if isinstance(run, CommandRun) else run.serve
    exchanges: list[Exchange] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-recording-") as name:
        folder = Path(name).resolve()
        answering = SimulatedModel().answer if simulated else None
        with ModelRelay(answering=answering, ended=exchanges.append) as relay:
            given = placeholders_for(root, run) if keys is None else keys
            placeholders = given if simulated else {}
            variables = {**run.variables, **placeholders}
            around = RunEnvironment(root, folder, relay, variables, simulated=simulated)
            before = listing(root)
            port = urlsplit(relay.url).port or 0
            reached = [("127.0.0.1", port), *hosts]
            watch, uncontained = _watch(
                root, simulated, hosts=reached, writable=[folder], absent=absent
            )
            stage = Stage(
                root=root,
                folder=folder,
                around=around,
                watch=watch,
                say=say,
                timeout_s=timeout_s,
                model_calls=lambda: sum(map(_asks_model, list(exchanges))),
            )
            if isinstance(run, CommandRun):
                ended = run_command(run, stage)
            else:
                ended = run_service(run, stage)
        journals = Journals(folder)
    did = outside(
        journals,
        ended.acts,
        [exchange for exchange in exchanges if exchange.passed_on and not _asks_model(exchange)],
        root=root,
        home=Path.home(),
        hidden=(folder, PYTHON_HOOK),
        before=before,
        after=listing(root),
        contained=isinstance(watch, ContainedWatch),
        own_ports=[port],
    )

    def clean(text: str) -> str:
        return _OF_HOOK.sub("", as_shown(str(around.without_secrets(text))))

    ordered = sorted(filter(_asks_model, exchanges), key=lambda exchange: exchange.request.number)
    calls = tuple(_model_call(*numbered, journals, around) for numbered in enumerate(ordered))
    stderr = clean((ended.stderr + ended.problem)[-STDERR_TAIL:])
    loaded = {event["file"] for event in journals.of("module")} - {""}
    lacking: tuple[Missing, ...] = ()
    if not ended.went_well or not any(200 <= call.status < 300 for call in calls):
        lacking = missing(
            Sources(root, argv, loaded),
            argv,
            journals,
            did,
            calls,
            root=root,
            around=around,
            output=stderr + ended.stdout[-STDERR_TAIL:] + ended.response[-STDERR_TAIL:],
            went_well=ended.went_well,
            simulated=simulated,
        )
    model_keys = _model_keys(exchanges, placeholders)
    contacts = () if journals.crashed(by_network=False) else did.contacts
    return Recording(
        run=run,
        root=str(root),
        simulated=simulated,
        exit_code=ended.code,
        timed_out=ended.timed_out,
        stdout=clean(ended.stdout[-STDOUT:]),
        stderr_tail=stderr,
        response=clean(ended.response),
        response_status=ended.status,
        seconds=round(ended.seconds, 3),
        overhead_s=round(time.perf_counter() - began - ended.seconds, 3),
        calls=calls,
        base_url_variables=around.leading(
            exchange.request.url for exchange in exchanges if _asks_model(exchange)
        ),
        constructors=journals.constructors(),
        contacts=did.contacts,
        lacked_hosts=tuple(f"{contact.host}:{contact.port}" for contact in contacts),
        writes=did.writes,
        programs=did.programs,
        missing=lacking,
        data_files_read=did.data_files_read,
        settings_read=did.settings_read,
        modules_loaded=tuple(sorted(loaded)),
        python=_python_used(journals),
        placeholders=tuple(name for name in placeholders if name not in PROVIDERS),
        model_keys=model_keys,
        notes=(
            *_notes(argv, journals, ended, calls, placeholders, around.dotenv, model_keys),
            *([] if calls else [_no_call(root, contacts if not lacking else ())]),
            *uncontained,
            *(clean(text) for text in _unseen_crashes(journals, stderr)),
        ),
    )


def _unseen_crashes(journals: Journals, stderr: str) -> Iterator[str]:
    """Exceptions that ended the program where a reader of its last output would not see them."""
    for event in journals.of("crash"):
        kind, text = event["errors"][0]["type"], event["errors"][0]["text"]
        if kind not in stderr[-LAST_OUTPUT:]:
            yield f"It ended with {kind}: {text}" if text else f"It ended with {kind}."


def _watch(
    root: Path, simulated: bool, **contained: Any
) -> tuple[Watch | ContainedWatch, Sequence[str]]:
    """What starts the command: contained with a simulated model; else a note why not."""
    if not simulated:
        return Watch(), ()
    try:
        return ContainedWatch(root, **contained), ()
    except SandboxUnavailable as error:
        return Watch(), (f"The command ran uncontained, and acted for real. {error}",)


def _asks_model(exchange: Exchange) -> bool:
    return asks_model(exchange.request, request_of(exchange))


def _model_call(
    number: int, exchange: Exchange, journals: Journals, around: RunEnvironment
) -> WatchedCall:
    arrived = exchange.request
    request = around.without_secrets(request_of(exchange))
    dialect = dialect_of(arrived.path, request)
    event = journals.calls.get(arrived.call, {})
    return WatchedCall(
        number=number,
        method=arrived.method,
        path=path_without_keys(arrived.path),
        host=place_of(arrived.url),
        dialect=dialect,
        request=request,
        texts=texts_of_request(request),
        response=around.without_secrets(answer_of(exchange, dialect)),
        answer=exchange.body,
        content_type=exchange.content_type,
        status=0 if exchange.error else exchange.status,
        streamed=is_streamed(exchange),
        seconds=round(exchange.seconds, 3),
        stack=journals.stack(arrived.call),
        pid=event.get("process", 0),
        client=event.get("client", ""),
        variables=around.standing_for(arrived.url, dialect),
        by_hook=bool(event),
    )


def _model_keys(exchanges: list[Exchange], placeholders: Mapping[str, str]) -> tuple[str, ...]:
    """The keys, among placeholders, that model calls were made with."""
    requests = [exchange.request for exchange in exchanges if _asks_model(exchange)]
    sent = " ".join(part for r in requests for part in (r.path, *r.headers.values())).lower()
    used = (name for name, key in placeholders.items() if key in sent)
    return tuple(name for name in used if placeholders[name].startswith(PLACEHOLDER))


def _python_used(journals: Journals) -> PythonUsed | None:
    """The interpreter that called a model, or else the last one started."""
    started = journals.of("start")
    if not started:
        return None
    calling = {event["process"] for event in journals.calls.values()}
    chosen = next((event for event in started if event["process"] in calling), started[-1])
    return PythonUsed(executable=chosen["executable"], version=chosen["version"], sdk=chosen["sdk"])


def _notes(
    argv: Sequence[str],
    journals: Journals,
    ended: Ended,
    calls: Sequence[WatchedCall],
    placeholders: Mapping[str, str],
    dotenv: Mapping[str, str],
    keys: Sequence[str],
) -> Iterator[str]:
    """Sentences about what could not be observed."""
    if ended.blind:
        yield (
            f"System calls could not be watched: {ended.blind}. Only hosts, files and programs"
            " that Python reported are listed, and changed files of the project."
        )
    python = re.match(r"(?:python|pypy)[\d.]*$", Path(argv[0]).name) if argv else None
    if python and not journals.of("start"):
        yield (
            "This interpreter does not load modules from PYTHONPATH (for instance because of the "
            "options -I, -E or -S), so no functions were seen: the command is the entry."
        )
    elif unseen := [call for call in calls if not (call.stack or call.by_hook)]:
        yield (
            f"Of {counted(len(calls), 'model call')}, {len(unseen)} came from a program whose"
            " functions cannot be watched, so it is run as a command or service."
        )
    if not ended.went_well and _WANTS_TERMINAL.search(ended.stderr + ended.stdout):
        yield (
            "Its error says that it needs a terminal, which rollouts do not have: give its input "
            "with --stdin, or as an argument with its option for non-interactive use."
        )
    if unset := [name for name in placeholders if not dotenv.get(name)]:
        yield f"Unset keys were given placeholders, for the simulated model: {', '.join(unset)}."
    if unread := [name for name in keys if dotenv.get(name)]:
        yield (
            f".env sets {', '.join(unread)}, but the run used a placeholder for each: if the"
            " program does not load .env, set them in the environment."
        )


def _no_call(root: Path, contacts: Sequence[Contact]) -> str:
    """Says that no model call was seen, and which of the contacted hosts may be the model."""
    hosts = [
        f"{contact.host}:{contact.port}"
        + (f" ({place})" if (place := place_in_code(root, contact.host)) else "")
        for contact in contacts
    ]
    if not hosts:
        return "No model call was seen."
    return (
        f"No model call was seen. The program contacted {', '.join(hosts)}. If one is the model, "
        "let it read its URL from OPENAI_BASE_URL (or use Node, not Deno), and run this again."
    )


def placeholders_for(
    root: Path, run: CommandRun | ServiceRun, *, few: bool = False, besides: Iterable[str] = ()
) -> dict[str, str]:
    """Values for unset keys that the program names; with `few`, that it cannot do without."""
    sources = Sources(root, run.argv if isinstance(run, CommandRun) else run.serve)
    # Nothing says that the program loads .env. A key of another kind might have to be valid.
    kept = {name: text for name, text in read_dotenv(root).items() if name not in PROVIDER_KEYS}
    environ = {**kept, **os.environ, **run.variables}
    needed = {name for name, (_, is_needed) in sources.variables().items() if is_needed}
    # Frameworks that name no provider call OpenAI.
    wanted = {"OPENAI_API_KEY", *besides, *(sources.keys() & needed if few else sources.keys())}
    wanted |= {"ANTHROPIC_API_KEY"} if "anthropic" in sources.text().lower() else set()
    values = {
        **{name: f"{PLACEHOLDER}-{name.lower()}" for name in sorted(wanted)},
        **{name: base for name, base in PROVIDERS.items() if name in needed},
    }
    return {name: value for name, value in values.items() if not environ.get(name)}
