"""Verifies a wiring: runs the recorded input again, wired and contained."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ratchet.autopilot.prompt_discovery import texts_in
from ratchet.bind.recorded_time import without_times
from ratchet.cli.wiring_probe import CHANGED, DeniedAct, ProbeAnswer, ProbeRequest
from ratchet.models.simulated import beside
from ratchet.observe.project_paths import FILE_NAME
from ratchet.run.model_hosts import STAND_IN, operation_of
from ratchet.run.model_relay import Exchange, ModelRelay, RelayAnswer, RelayedRequest
from ratchet.run.program_results import result_of
from ratchet.source.dotenv import read_dotenv
from ratchet.types.scripts import has_several_words
from ratchet.types.wording import counted
from ratchet.wire.deriving.derive import Wiring
from ratchet.wire.deriving.program import says_answer
from ratchet.wire.deriving.sent_texts import nearest_call, system_texts, unlike
from ratchet.wire.recording.model_calls import asks_model, body_of, request_of, texts_of_request
from ratchet.wire.recording.recording import ModelText, Recording, is_embedding
from ratchet.worker.environment import address_for, dialect_of

ROLLOUTS_TIMEOUT_S = 180.0
"""Seconds that both rollouts may take, in addition to twice the recorded run's time."""
TELL_EVERY_S = 15.0
END_TIMEOUT_S = 10.0
"""Seconds that a check has to stop its rollouts once it is told to stop."""

NO_KEY = "ratchet-check-no-key"


class SeenCall(NamedTuple):
    """A model call of the wired agent."""

    started_at: float
    """In seconds since the epoch."""
    exchange: Exchange


class WiringFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    holds: bool | None
    """None where it could not be verified."""
    said: str


class WiringVerification(msgspec.Struct, frozen=True, kw_only=True):
    """The results of running a wiring."""

    works: bool
    """Whether the wired agent ran the recorded input to its end."""
    findings: tuple[WiringFinding, ...]
    denied: tuple[DeniedAct, ...]
    """What the agent tried to do, but is not allowed to."""
    why: str
    """Why the wiring does not work, with what to do; empty if it works."""
    learned: tuple[str, ...] = ()
    """The names that `ratchet improve` gives the prompts, each with its place in the source."""
    not_arrived: tuple[str, ...] = ()
    """Prompts whose changed text did not reach the model."""
    agent_s: float = 0.0
    """Seconds that the agent itself ran."""

    def holds(self, name: str) -> bool:
        """Whether nothing speaks against a finding."""
        return all(finding.holds for finding in self.findings if finding.name == name)

    @property
    def differences(self) -> int:
        """How much of the wired run's model calls differs from the recorded ones."""
        if not self.works:
            return len(SENT) + 1 if NO_CALL in self.why else 0
        return sum(not finding.holds for finding in self.findings if finding.name in SENT)


NO_CALL = "No model call reached the gateway."

SECOND_RUN = "second run"
"""The finding that a second run in the same process depends on the first."""

TOOLS_DIFFER = "; what tools returned is not"

SENT = ("model calls", "prompts", SECOND_RUN)
"""How the wired run's requests compare with the recorded requests, and with its own next ones."""
MINUTES_OF_CHECK = 50
"""Times in this many last minutes count as those of the recorded run or of its check."""


def _unchanged(request: RelayedRequest) -> RelayedRequest:
    """A request with the agent's own prompts put back."""
    body = CHANGED.sub(b"", request.body)
    return msgspec.structs.replace(request, body=body)


class RecordedAnswers:
    """A context manager that replays the recorded answers to model calls.

    A call that was not recorded, such as one with a changed prompt, gets the answer of the recorded
    call whose texts are most like it.
    """

    def __init__(self, recording: Recording) -> None:
        self._calls = recording.calls
        self._relay = ModelRelay(answering=self._answer, ended=self._ended)
        self.seen: list[SeenCall] = []

    def variables(self, base_urls: Sequence[str], root: Path) -> dict[str, str]:
        """Direct the gateway's calls here.

        Args:
            base_urls: The agent's own variables that the gateway takes its upstreams from.
            root: The project's folder, whose `.env` may name them.
        """
        url = self._relay.url
        owner = {**read_dotenv(root), **os.environ}
        return {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": NO_KEY,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": NO_KEY,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_API_KEY": NO_KEY,
            **{
                name: address_for(name, f"{url}/v1" if dialect_of(name) == "openai" else url, owner)
                for name in base_urls
            },
            STAND_IN: url,
        }

    def __enter__(self) -> RecordedAnswers:
        self._relay.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._relay.__exit__(*error)

    def _answer(self, request: RelayedRequest) -> RelayAnswer:
        path = request.path.partition("?")[0].rstrip("/")
        if request.method != "POST":
            return self._about_models(path)
        if other := beside(path):  # is not recorded, so a simulated one has to do
            return RelayAnswer(pieces=(json.dumps(other).encode(),))
        call = nearest_call(self._calls, body_of(_unchanged(request)))
        return RelayAnswer(
            pieces=(call.answer,), status=call.status, content_type=call.content_type
        )

    def _about_models(self, path: str) -> RelayAnswer:
        """The recorded calls' models, which some clients ask for first; nothing else is known."""
        bodies = [call.request for call in self._calls if isinstance(call.request, dict)]
        names = dict.fromkeys(str(body["model"]) for body in bodies if body.get("model"))
        listed, _, name = path.partition("/models")
        if path.endswith("/api/tags"):
            answer: Any = {"models": [{"name": name, "model": name} for name in names]}
        elif name.lstrip("/") in names:
            answer = {"id": name.lstrip("/"), "object": "model"}
        elif listed != path and not name:
            answer = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        else:
            error = {"error": {"message": f"{path} was not a model call, so it is not replayed."}}
            return RelayAnswer(pieces=(json.dumps(error).encode(),), status=404)
        return RelayAnswer(pieces=(json.dumps(answer).encode(),))

    def _ended(self, exchange: Exchange) -> None:
        if asks_model(exchange.request, request_of(exchange)):
            self.seen.append(SeenCall(time.time() - exchange.seconds, exchange))


def verify(
    root: Path,
    settings: bytes,
    wiring: Wiring,
    recording: Recording,
    replay: RecordedAnswers,
    say: Callable[[str], None],
) -> WiringVerification:
    """Run the wired agent on the recorded input, with its own prompts and with changed ones.

    Args:
        root: The project's folder, in which nothing is written.
        settings: The content of the wiring's `ratchet.toml`.
        wiring: The wiring.
        recording: The recorded run.
        replay: Answers the model calls.
        say: Told what is waited for.
    """
    request = ProbeRequest(task_input=wiring.task_input, prompts=system_texts(recording))
    seconds = ROLLOUTS_TIMEOUT_S + 2 * recording.seconds
    variables = {
        **dict.fromkeys(recording.placeholders, NO_KEY),
        **replay.variables(wiring.agent.get("model_base_url", ()), root),
    }
    answer = _probed(root, settings, request, variables, seconds, say)
    calls = list(replay.seen)
    if answer.own is None or answer.own.status != "succeeded":
        error = answer.error or (answer.own.error if answer.own else "")
        denied = answer.own.denied if answer.own else ()
        if calls and answer.own is None:
            made = counted(len(calls), "model call")
            error += f" It had made {made}; the recorded run made {len(recording.calls)}."
        return WiringVerification(
            works=False, findings=(), denied=denied, why=f"{error} {answer.hint}"
        )
    own = [call.exchange for call in calls if call.started_at < answer.started_changed_at]
    changed = [call.exchange for call in calls if call.started_at >= answer.started_changed_at]
    arrived = {
        int(number) for exchange in changed for number in CHANGED.findall(exchange.request.body)
    }
    second = answer.changed is not None and answer.changed.status == "succeeded"
    is_comparable = (
        second and "command" not in wiring.agent
    )  # each run of a command is a new process
    prompts = _same_prompts(recording, own)
    findings = (
        _calls(recording, own),
        prompts,
        _change_arrives(recording, len(answer.names), arrived, changed),
        _same_shape(wiring, answer.own.output, recording),
        *(_second_run(recording, changed) if is_comparable and prompts.holds else ()),
    )
    # A changed prompt that does not arrive is no reason not to run and measure the agent.
    needed = [finding for finding in findings if finding.name in ("model calls", "answer")]
    refuted = [finding.said for finding in needed if finding.holds is False]
    works = not refuted
    return WiringVerification(
        works=works,
        findings=findings,
        denied=answer.own.denied,
        why=" ".join(refuted),
        learned=answer.learned,
        not_arrived=tuple(
            name for number, name in enumerate(answer.names) if number not in arrived
        ),
        agent_s=answer.own.seconds + (answer.changed.seconds if answer.changed else 0.0),
    )


def _probed(
    root: Path,
    settings: bytes,
    request: ProbeRequest,
    variables: Mapping[str, str],
    seconds: float,
    say: Callable[[str], None],
) -> ProbeAnswer:
    with tempfile.TemporaryDirectory(prefix="ratchet-wiring-") as folder:
        file = Path(folder) / FILE_NAME
        file.write_bytes(settings)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ratchet.cli.wiring_probe", str(root), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **variables},
            cwd=root,
            start_new_session=True,
        )
        try:
            output = _output(process, msgspec.json.encode(request), seconds, say)
        finally:
            _end(process)
    if output is None:
        return ProbeAnswer(error=f"It did not finish within {seconds:.0f} s.")
    try:
        return msgspec.json.decode(output[0], type=ProbeAnswer)
    except msgspec.DecodeError:
        tail = output[1].decode(errors="replace").strip()[-1_500:]
        return ProbeAnswer(error=f"The check ended with exit code {process.returncode}. {tail}")


def _output(
    process: subprocess.Popen[bytes], stdin: bytes, seconds: float, say: Callable[[str], None]
) -> tuple[bytes, bytes] | None:
    """Standard output and error of a process that ended; None at the time limit."""
    begun = time.monotonic()
    data: bytes | None = stdin
    while (left := begun + seconds - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(data, timeout=min(left, TELL_EVERY_S))
        data = None
        say(f"The check is still running after {time.monotonic() - begun:.0f} s.")
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a check and all that it started; when interrupted, it stops its rollouts."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=END_TIMEOUT_S)


def _calls(recording: Recording, own: Sequence[Exchange]) -> WiringFinding:
    expected, got = len(recording.calls), len(own)
    if not got and expected:
        sentence = NO_CALL
        return WiringFinding(name="model calls", holds=False, said=sentence)
    sentence = (
        f"{counted(got, 'model call')}, as recorded."
        if got == expected
        else f"{counted(got, 'model call')}; the recorded run made {expected}."
    )
    return WiringFinding(name="model calls", holds=True if got == expected else None, said=sentence)


def _same_prompts(recording: Recording, own: Sequence[Exchange]) -> WiringFinding:
    sent = [texts_of_request(request_of(exchange)) for exchange in own]
    different = unlike(recording, sent)
    now = time.time()

    def timeless(text: ModelText) -> str:
        return without_times(text.text, began=now - MINUTES_OF_CHECK * 60, ended=now)

    def own_words(text: ModelText) -> str:
        return "" if text.role == "tool" else timeless(text)

    for differs, how in (
        (different, ", byte for byte"),
        (different and unlike(recording, sent, timeless), ", apart from the current date and time"),
        (different and unlike(recording, sent, own_words), TOOLS_DIFFER),
    ):
        if not differs:
            return WiringFinding(name="prompts", holds=True, said=f"The prompts are the same{how}.")
    return WiringFinding(
        name="prompts",
        holds=None,
        said=f"Prompts differ: {'; '.join(different[:3])}. Rollouts run all the same. If what "
        "differs is left over from earlier runs, as in a database, let each run begin anew: write"
        " {fresh} for the id of a conversation, or clear it and record again.",
    )


def _change_arrives(
    recording: Recording, prompts: int, arrived: set[int], changed: Sequence[Exchange]
) -> WiringFinding:
    if not changed and (foreign := _foreign_protocols(recording)):
        sentence = (
            f"Its model calls use {foreign}, in which the gateway cannot replace prompts. ratchet "
            "run and eval work; to improve the agent, declare the prompts: ratchet init --declare"
        )
        return WiringFinding(name="changed prompt", holds=None, said=sentence)
    if not prompts:
        sentence = "No prompt in the source was sent, so the gateway has nothing to replace."
        return WiringFinding(name="changed prompt", holds=None, said=sentence)
    with_prompt = [
        exchange
        for exchange in changed
        if not is_embedding(exchange.request.path) and texts_of_request(request_of(exchange))
    ]
    calls = sum(bool(CHANGED.search(exchange.request.body)) for exchange in with_prompt)
    made = counted(len(with_prompt), "call")
    sentence = f"The changed prompts arrived in {calls} of {made} of a second run."
    return WiringFinding(name="changed prompt", holds=bool(arrived), said=sentence)


def _second_run(recording: Recording, changed: Sequence[Exchange]) -> list[WiringFinding]:
    """The finding that a second run in the same process sent other texts than the first, if it did.

    The first one repeated the recorded run, so the agent may keep messages or answers between runs.
    """
    unchanged = [
        msgspec.structs.replace(exchange, request=_unchanged(exchange.request))
        for exchange in changed
    ]
    if _same_prompts(recording, unchanged).holds:
        return []
    said = (
        f"In the same process it sent other texts, in {counted(len(changed), 'call')}, than the "
        "first run: rollouts may influence one another."
    )
    return [WiringFinding(name=SECOND_RUN, holds=None, said=said)]


_PROTOCOLS = {"bedrock": "Bedrock's protocol"}


def _foreign_protocols(recording: Recording) -> str:
    """The protocols of the run that the gateway does not know, as text; empty if it knows all."""
    names = {
        _PROTOCOLS.get(call.dialect, "an unknown protocol")
        for call in recording.calls
        if operation_of(f"https://{call.host}{call.path}") is None
    }
    return " and ".join(sorted(names))


def entries_needed(denied: Iterable[DeniedAct], recording: Recording) -> list[str]:
    """Entries of [agent.allow] for what was denied although the recorded run did it."""
    contacted = {f"{contact.host}:{contact.port}" for contact in recording.contacts}
    return [act.allow for act in denied if act.allow in contacted]


def _same_shape(wiring: Wiring, output: Any, recording: Recording) -> WiringFinding:
    before, after = _shape(wiring.output), _shape(output)
    file = str(wiring.agent.get("output", "")).partition("file:")[2]
    place = f" in {file}" if file else ""
    if file and wiring.output == "":
        holds = says_answer(output, recording)
        said = "what the model said" if holds else "not what the model said"
        return WiringFinding(
            name="answer", holds=holds, said=f"The answer is {after}{place}: {said}."
        )
    files = [write.path for write in recording.writes if write.place == "project"]
    may_be_file = "command" in wiring.agent and files and not file
    pointer = (
        f' If the answer is a file: output = "file:{files[0]}" under [agent].'
        if may_be_file
        else ""
    )
    if output in ("", None):
        sentence = f"The answer is empty, so every task would get the same score.{pointer}"
        return WiringFinding(name="answer", holds=None, said=sentence)
    if isinstance(output, str) and not says_answer(output, recording):
        pointer = pointer or " Does the program print its answer only on a terminal?"
        sentence = (
            f"The answer is {after}{place}, but has none of the words that the model said, so there"
            f" may be nothing to score.{pointer}"
        )
        return WiringFinding(name="answer", holds=None, said=sentence)
    if before == after:
        rest, _, last = str(output).strip().rpartition("\n")
        only_last = "command" in wiring.agent and not file and rest
        if only_last and says_answer(last, recording) and not says_answer(rest, recording):
            place = (
                f" of {counted(len(rest.splitlines()) + 1, 'line')}, with the model's words in the"
                ' last (for that line alone: output = "last_line" under [agent])'
            )
        repeated = (
            " It repeats the input outside of what the model said: an evaluator that looks for"
            " words may find the input's."
            if isinstance(output, str) and _repeats_input(output, wiring, recording)
            else ""
        )
        return WiringFinding(
            name="answer", holds=True, said=f"The answer is {before}{place}, as recorded.{repeated}"
        )
    return WiringFinding(
        name="answer", holds=None, said=f"The answer is {after}; the recorded answer was {before}."
    )


def _repeats_input(output: str, wiring: Wiring, recording: Recording) -> bool:
    """Whether an answer has the input outside of what the model said, as a banner of npm's has."""
    replies = {call.response.strip() for call in recording.calls}
    said = [reply for reply in replies if reply and reply in output]
    return any(
        has_several_words(text) and output.count(text) > sum(reply.count(text) for reply in said)
        for text in texts_in(wiring.task_input)
    )


def _shape(value: Any) -> str:
    if isinstance(value, str):  # the recorded text, as a rollout reads it
        value = result_of(value.encode())
    if isinstance(value, dict):
        return f"an object with {', '.join(sorted(map(str, value)))}" if value else "an object"
    if isinstance(value, list):
        return "a list"
    names = {"str": "text", "bool": "true or false", "int": "a number", "float": "a number"}
    return names.get(type(value).__name__, "nothing")
