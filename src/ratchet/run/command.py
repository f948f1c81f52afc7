"""The command executor: each attempt runs a program in any language, in its own process.

The program gets the task's input where a `Handover` says, or else reads the task as JSON (see
`task_json`) from standard input. Its result is what it prints on standard output, or is where the
`Handover` says. Standard error is for logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from ratchet.bind import BINDING_VARIABLE, SEED_VARIABLE, Binding
from ratchet.observe import BLOCKED_SUFFIX, capture
from ratchet.observe.ids import attempt_span_id, attempt_trace_id
from ratchet.run.attempt_relay import AttemptRelays
from ratchet.run.child import ChildEnd, ChildProcess
from ratchet.run.denials import with_denials
from ratchet.run.handover import LAST_LINE, Handover
from ratchet.run.measured_slots import MeasuredSlots
from ratchet.run.model_hosts import MODEL_RELAY
from ratchet.run.program_results import OutputFile, ended_with_input, last_line, result_of
from ratchet.run.reachable import hosts_of
from ratchet.sandbox.containment import AgentContainment
from ratchet.sandbox.executables import shim_of
from ratchet.sandbox.limits import SandboxFailed
from ratchet.types import (
    AgentError,
    AttemptStatus,
    Claim,
    InputError,
    Outcome,
    Resource,
    Span,
)
from ratchet.types.wording import size_text
from ratchet.worker.attempt import MAX_OUTPUT_BYTES, AttemptClock, blocked, cut_off, timed_out
from ratchet.worker.environment import (
    PROVIDER_KEYS,
    STORE_SECRETS,
    gateway_variables,
    trace_variables,
    without,
)
from ratchet.worker.placeholders import filled_text

TASK_FILE = "task.json"
BINDING_FILE = "binding.json"
STDIN_FILE = "stdin"
INPUT_FILE = "input"
OUTPUT_FILE = "output"

MAX_AT_ONCE, MAX_PER_CORE = 16, 4
"""Maximum number of attempts at once, of commands that mostly wait."""


class CommandExecutor:
    """Runs a command for each attempt, without a shell.

    At a time-out and at the command's end, all that is left in its process group is killed.

    Args:
        command: Program and arguments; they may have placeholders.
        folder: Working folder of the command.
        state: Folder for scratch files.
        slots: Attempts at once; None for as many as the cores can keep up with.
        timeout_s: Seconds that one attempt may take.
        server: URL of the server whose gateway serves model calls; empty for none.
        variables: Further variables of the command; they take precedence over the gateway's.
        base_urls: Further variables for the gateway's base URL, besides the providers' own.
        keys: Further variables for the gateway's API key.
        model_hosts: Hosts that model calls of Python and Node go to by themselves; they are led to
            the gateway.
        environ: Environment to start from; that of this process when left out.
        stdin: As in a `Handover`.
        input: As in a `Handover`.
        output: As in a `Handover`. With a file that is not in a copy, one attempt runs at a time.
        containment: What keeps the command from acting outside; None to let it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        state: Path,
        slots: int | None,
        timeout_s: float,
        server: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
        base_urls: Sequence[str] = (),
        keys: Sequence[str] = (),
        model_hosts: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        stdin: str | None = None,
        input: str = "",
        output: str = "",
        containment: AgentContainment | None = None,
    ) -> None:
        self._command = tuple(command)
        self._containment = containment
        self._handover = Handover(words=self._command, stdin=stdin, input=input, output=output)
        self._folder = folder
        self._scratch = state / "tmp"
        self._copies = containment is not None and containment.level == "bubblewrap"
        """Whether each rollout has a copy of the project's files."""
        self._slots = 1 if self._handover.file and not self._copies else slots
        cores = os.cpu_count() or 1
        self._measured = MeasuredSlots(cores, min(MAX_AT_ONCE, MAX_PER_CORE * cores))
        self._timeout_s = timeout_s
        self._server = server
        self._relays = AttemptRelays(server, model_hosts) if server and model_hosts else None
        self._numbers = itertools.count()
        self._variables_given = dict(variables)
        self._base_urls = tuple(base_urls)
        self._keys = tuple(keys)
        base = os.environ if environ is None else environ
        self._environ = without(base, STORE_SECRETS, PROVIDER_KEYS if server else frozenset())

    @property
    def slots(self) -> int:
        """Number of concurrent attempts."""
        return self._slots or self._measured.slots

    async def start(self) -> None:
        """Check that the command exists.

        Raises:
            AgentError: There is no such program, or no such folder; or its rollouts have no copy of
                the file that holds the input.
        """
        check_program(self._command, self._folder, self._environ)
        if self._handover.input:
            self._check_copies()
        await asyncio.to_thread(os.makedirs, self._scratch, exist_ok=True)
        if self._relays is not None:
            await asyncio.to_thread(self._relays.start)

    def _check_copies(self) -> None:
        file = self._handover.input_file
        if not self._copies:
            raise AgentError(
                f"Each rollout needs its own copy of the project, in which {file} holds its input.",
                hint="Run them contained by bubblewrap (docs/containment.md), or let the command "
                "take its input as an argument.",
            )
        if not (self._folder / file).is_file():
            raise AgentError(
                f"{file}, which input under [agent] names, does not exist.",
                hint="Create it with any content: each rollout finds its own input there.",
            )

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Run the command for one attempt, to its end or its time-out."""
        clock = AttemptClock()
        try:
            words, stdin = self._handover.command(claim.rollout.input)
            folder = await asyncio.to_thread(self._prepared, claim, resources, stdin)
            output_file = await asyncio.to_thread(self._output_file, folder)
        except InputError as error:
            return cut_off(claim, "failed", error.message)
        except OSError as error:
            return cut_off(claim, "failed", f"The scratch folder cannot be written: {error}.")
        variables = self._variables(claim, folder)
        relay = None if self._relays is None else self._relays.of(next(self._numbers))
        if relay is not None:
            relay.lead_to(claim)
            variables |= relay.hook_variables(variables)
        child = ChildProcess(
            words,
            cwd=self._folder,
            environ=variables,
            stdin=folder / (TASK_FILE if stdin is None else STDIN_FILE),
            containment=self._containment,
            hosts=hosts_of(
                [
                    self._server,
                    variables.get(MODEL_RELAY, ""),
                    *self._variables_given.values(),
                ]
            ),
            given=self._replaced(folder, {INPUT_FILE: self._handover.input_file}),
            taken=self._replaced(folder, {OUTPUT_FILE: self._handover.file}),
            writable=[folder, *([output_file.path] if output_file and not self._copies else [])],
        )
        try:
            with self._measured.running():
                ended = await child.run(self._timeout_s, MAX_OUTPUT_BYTES)
            if output_file is not None:
                await asyncio.to_thread(output_file.read)
        except (OSError, ValueError) as error:
            return cut_off(claim, "failed", _not_started(error))
        except SandboxFailed as error:
            return cut_off(claim, "failed", error.message)
        finally:
            if relay is not None:
                relay.lead_to(None)
            tool = await asyncio.shield(asyncio.to_thread(_delete_scratch, folder))
        outcome = with_denials(self._outcome(claim, clock, ended, tool, output_file), ended.denied)
        denied = outcome.status != "succeeded" and any(a.kind == "program" for a in ended.denied)
        if denied and (shim := shim_of(words[0], variables.get("PATH"))):
            said = (
                f"{outcome.error} {words[0]} is the script {shim}, which starts an interpreter from"
                " elsewhere. Activate the agent's environment, and run this again."
            )
            outcome = msgspec.structs.replace(outcome, error=said.strip())
        return outcome

    def _prepared(
        self, claim: Claim, resources: Mapping[str, Resource], stdin: bytes | None
    ) -> Path:
        """Make a scratch folder with the task and the binding."""
        rollout = claim.rollout
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        binding = Binding(
            resources=dict(resources), candidate_id=rollout.candidate_id, seed=rollout.seed
        )
        (folder / TASK_FILE).write_bytes(task_json(claim, resources))
        (folder / BINDING_FILE).write_bytes(msgspec.json.encode(binding))
        if stdin is not None:
            (folder / STDIN_FILE).write_bytes(stdin)
        if self._handover.input:
            text = filled_text("{input}", rollout.input, "[agent] input")
            (folder / INPUT_FILE).write_text(text, encoding="utf-8")
        return folder

    def _replaced(self, folder: Path, files: Mapping[str, str]) -> dict[str, str]:
        """Files of a scratch folder that stand for the project's, by the paths of those."""
        return {
            os.path.realpath(self._folder / file): str(folder / name)
            for name, file in files.items()
            if file and self._copies
        }

    def _output_file(self, folder: Path) -> OutputFile | None:
        file = self._handover.file
        if not file:
            return None
        if self._copies:
            return OutputFile(folder / OUTPUT_FILE, file)
        path = self._folder / file
        if self._containment is not None:  # which can let it write a file that is there
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return OutputFile(path, file)

    def _variables(self, claim: Claim, folder: Path) -> dict[str, str]:
        """Environment of the command."""
        gateway: dict[str, str] = {}
        if self._server:
            gateway = gateway_variables(self._server, claim, self._base_urls, self._keys)
        return {
            **self._environ,
            **gateway,
            **trace_variables(self._environ, self._server, claim),
            **self._variables_given,
            "RATCHET_ROLLOUT_ID": claim.rollout.id,
            "RATCHET_ATTEMPT": str(claim.fence),
            "RATCHET_TASK_FILE": str(folder / TASK_FILE),
            "RATCHET_SCRATCH": str(folder),
            BINDING_VARIABLE: str(folder / BINDING_FILE),
            SEED_VARIABLE: str(claim.rollout.seed),
        }

    def _outcome(
        self,
        claim: Claim,
        clock: AttemptClock,
        ended: ChildEnd,
        tool: str,
        output_file: OutputFile | None,
    ) -> Outcome:
        status: AttemptStatus = "failed"
        output: object = None
        if tool:
            status, error = "inconclusive", blocked(tool)
        elif ended.why == "late":
            status, error = "timed_out", timed_out(self._timeout_s) + ended.tail()
        elif ended.why == "flood":
            error = (
                f"The command printed more than {size_text(MAX_OUTPUT_BYTES)} on standard output, "
                "which is for the result only. Write log messages to standard error."
            )
        elif ended.code and not (self._handover.stdin and ended_with_input(ended.error_text)):
            status = "crashed" if ended.code < 0 else "failed"
            error = ended.sentence() + ended.tail()
        else:
            try:
                status, error, output = "succeeded", "", self._result(ended, output_file)
            except InputError as missing:
                status, error = "failed", missing.message + ended.tail()
        outcome = msgspec.structs.replace(cut_off(claim, status, error, clock), output=output)
        return msgspec.structs.replace(outcome, spans=(self._span(claim, outcome),))

    def _result(self, ended: ChildEnd, output_file: OutputFile | None) -> object:
        """The result of a command that succeeded.

        Raises:
            InputError: It is not where it should be.
        """
        if output_file is not None:
            return output_file.result()
        if self._handover.output == LAST_LINE:
            return last_line(ended.stdout)
        return result_of(ended.stdout)

    def _span(self, claim: Claim, outcome: Outcome) -> Span:
        """Root span of the attempt; spans of the gateway and of the program are its children."""
        name = Path(self._command[0]).name
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "ratchet.command": shlex.join(self._command),
        }
        return root_span(claim, outcome, shlex.join(self._command), attributes)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: no other process holds outcomes."""

    async def close(self) -> None:
        """End the relay of calls to model hosts; commands end with their attempts."""
        if self._relays is not None:
            await asyncio.to_thread(self._relays.close)


def check_program(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Check that the program of a command exists.

    Args:
        command: Program and arguments.
        folder: Its working folder.
        environ: Its environment.

    Raises:
        AgentError: There is no such program, or no such folder.
    """
    program = command[0]
    if not folder.is_dir():
        raise AgentError(f"The command cannot run in {folder}: there is no such folder.")
    place = program if os.sep not in program else str(folder / program)
    if shutil.which(place, path=environ.get("PATH")) is None:
        where = "on the PATH" if os.sep not in program else f"in {folder}"
        raise AgentError(
            f"The command {program!r} was not found {where}, or is not executable.",
            hint="Install it, or give its path.",
        )


def root_span(claim: Claim, outcome: Outcome, name: str, attributes: Mapping[str, str]) -> Span:
    """Root span of an attempt in another process, with its input and output.

    Args:
        claim: The attempt.
        outcome: Its outcome.
        name: Name of the span; cut after 200 characters.
        attributes: Further attributes.
    """
    captured = {"ratchet.input": capture(claim.rollout.input)}
    if outcome.status == "succeeded":
        captured["ratchet.output"] = capture(outcome.output)
    start_ns = int(outcome.started_at * 1e9)
    return Span(
        trace_id=attempt_trace_id(claim.rollout.id, claim.fence),
        span_id=attempt_span_id(claim.rollout.id, claim.fence),
        name=name[:200],
        start_ns=start_ns,
        end_ns=start_ns + int((outcome.duration_s or 0.0) * 1e9),
        status="ok" if outcome.status == "succeeded" else "error",
        message=outcome.error,
        attributes={**attributes, **captured},
    )


def task_json(claim: Claim, resources: Mapping[str, Resource]) -> bytes:
    """The task as JSON for the program; without the expected answer."""
    rollout = claim.rollout
    return msgspec.json.encode(
        {
            "rollout_id": rollout.id,
            "attempt": claim.fence,
            "task_id": rollout.task_id,
            "input": rollout.input,
            "metadata": rollout.metadata,
            "seed": rollout.seed,
            "candidate_id": rollout.candidate_id,
            "resources": resources,
        }
    )


def _not_started(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return (
            "The command cannot be started: the task's input is longer than an argument may be. "
            'Pass it on standard input: stdin = "{input}" under [agent] in ratchet.toml.'
        )
    return f"The command cannot be started: {error}."


def _delete_scratch(folder: Path) -> str:
    """Delete a scratch folder. Returns the blocked tool that was called; empty for none."""
    tool = ""
    with contextlib.suppress(OSError):
        tool = (folder / f"{BINDING_FILE}{BLOCKED_SUFFIX}").read_text(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    return tool
