"""Everything that a recorded run reveals about wiring its agent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from ratchet.types.scripts import has_several_words
from ratchet.wire.deriving.allowed import OutsideAct, outside_acts
from ratchet.wire.deriving.entry import EntryPoint, entry_points
from ratchet.wire.deriving.owner_input import OwnerValue, as_text, owner_values, reached, sent_files
from ratchet.wire.deriving.program import program_template
from ratchet.wire.deriving.prompts import SentPrompt, sent_prompts
from ratchet.wire.recording.environment import PROVIDERS
from ratchet.wire.recording.recording import CommandRun, Recording, ServiceRun


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run the agent for a task."""

    mode: Literal["entry", "command", "service"]
    label: str
    """The function and its place, the command, or the URL."""
    agent: dict[str, Any]
    """The table [agent] of ratchet.toml."""
    task_input: Any
    """The recorded input, as a task has it; None if the command takes none."""
    output: Any
    """The output of the recorded run."""
    fields: tuple[str, ...]
    """Names of the input's fields; empty if it is a single value."""
    parameter: str
    """Name of that single value."""
    absent: tuple[str, ...] = ()
    """Files that the recorded run created in the project; each rollout starts without them."""


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """The facts for a wiring that a recorded run reveals."""

    wirings: tuple[Wiring, ...]
    """The ways to run it, best first."""
    inputs: tuple[OwnerValue, ...]
    """The owner's values that are the task's input."""
    prompts: tuple[SentPrompt, ...]
    acts: tuple[OutsideAct, ...]
    written_input: str
    """Where the source itself has the first user message, as FILE:LINE; empty if nowhere, or if the
    owner gave it."""
    input_file: str = ""
    """Without an input: the file whose text is the task's, relative to the project's folder."""
    sent_files: tuple[str, ...] = ()
    """Without an input: the files that may each be that file."""
    read_word: str = ""
    """Without an input: a word of the command that names a data file which the run read."""
    function: str = ""
    """Where the interpreter has no SDK: the function that would be the entry, and its place."""


def derive(
    recording: Recording,
    root: Path,
    paths: Iterable[str],
    *,
    chosen: Sequence[str] = (),
    allowed: Iterable[str] = (),
) -> Derived:
    """Derive the wirings of a recorded run.

    Args:
        recording: The recorded run.
        root: The project's folder.
        paths: Its files, relative to it.
        chosen: Values that the owner names as the task's input.
        allowed: Hosts, programs and folders that the owner allows.
    """
    values = owner_values(recording.run)
    inputs = tuple(value for value in values if as_text(value.value) in chosen)
    inputs = inputs if chosen else reached(recording, values)
    python = recording.python
    hosts, wirings, function = model_hosts(recording), list[Wiring](), ""
    if inputs and python is not None:
        entries = [_of_entry(entry, hosts) for entry in entry_points(root, recording, inputs)]
        if python.sdk:
            wirings = entries
        elif entries:
            function = entries[0].label
    is_fixed = not inputs and isinstance(recording.run, CommandRun)
    # A setting may also be a prompt: only the owner knows which one is the task.
    files = sent_files(recording, settings=True) if is_fixed else ()
    own = sent_files(recording) if is_fixed else ()
    named = [file for file in files if file in map(os.path.normpath, chosen)]
    input_file = (named or [*own])[0] if named or len(own) == 1 else ""
    own_inputs = inputs if chosen else _for_program(recording, inputs)
    program = _of_program(recording, own_inputs, input_file)
    if (movable := _on_any_port(program)) is not None:
        wirings.append(movable)
    wirings.append(program)
    if program.output == "" and "output" in program.agent:  # the file may hold something else
        agent = {key: value for key, value in program.agent.items() if key != "output"}
        wirings.append(
            msgspec.structs.replace(program, agent=agent, output=recording.stdout.strip())
        )
    words = (as_text(value.value) for value in values if value.place == "word")
    read_word = next((word for word in words if word in recording.data_files_read), "")
    texts = [as_text(value.value) for value in inputs]
    prompts, question = sent_prompts(root, paths, recording, [*texts, input_file])
    return Derived(
        wirings=tuple(wirings),
        inputs=inputs,
        prompts=prompts,
        acts=outside_acts(recording, allowed),
        written_input="" if inputs or input_file else question,
        input_file=input_file,
        sent_files=() if input_file else files,
        read_word="" if inputs or input_file else read_word,
        function=function,
    )


def _for_program(recording: Recording, inputs: Sequence[OwnerValue]) -> tuple[OwnerValue, ...]:
    """The inputs of a program: texts with a space, lines that it asked for, and what a function got
    beside one of them."""
    sentences = {
        as_text(value.value) for value in inputs if has_several_words(as_text(value.value))
    }
    beside = sentences | {as_text(line.value) for line in inputs if line.place == "stdin"}
    for frame in (frame for call in recording.calls for frame in call.stack):
        got = {as_text(argument.value) for argument in frame.arguments}
        beside |= got if got & sentences else set()
    return tuple(value for value in inputs if not sentences or as_text(value.value) in beside)


def model_hosts(recording: Recording) -> list[str]:
    """Hosts of model calls of Python and Node for which no variable is set; every rollout may reach
    them.

    Whether a client would take its address from a variable that is not set cannot be seen, nor
    which one it takes where a variable besides the libraries' own holds it as well.
    """
    return sorted(
        {
            call.host.lower()
            for call in recording.calls
            if call.host
            and call.by_hook
            and (not call.variables or not set(call.variables) <= PROVIDERS.keys())
        }
    )


def _of_entry(entry: EntryPoint, hosts: Sequence[str]) -> Wiring:
    agent: dict[str, Any] = {"entry": entry.entry}
    if entry.path != ".":
        agent["path"] = [entry.path]
    agent["prompts"] = "calls"
    if hosts:
        agent["model_hosts"] = list(hosts)
    agent["arguments"] = entry.arguments
    if entry.construct is not None:
        agent["construct"] = entry.construct
    parameter = next(
        (name for name, template in entry.arguments.items() if template == "{input}"), "input"
    )
    return Wiring(
        mode="entry",
        label=f"{entry.entry} ({entry.place})",
        agent=agent,
        task_input=entry.task_input,
        output=entry.output,
        fields=entry.fields,
        parameter=parameter,
    )


def _on_any_port(service: Wiring) -> Wiring | None:
    """A started service whose command names its port, so that rollouts can use another port."""
    serve = service.agent.get("serve", "")
    port = urlsplit(service.agent.get("url", "")).port
    moved = re.sub(rf"(?<!\d){port}(?!\d)", "{port}", serve) if port else serve
    if moved == serve:
        return None
    return msgspec.structs.replace(service, agent={**service.agent, "serve": moved})


def _of_program(recording: Recording, inputs: Sequence[OwnerValue], input_file: str) -> Wiring:
    template = program_template(recording, inputs, input_file)
    service = isinstance(recording.run, ServiceRun)
    agent = dict(template.settings)
    if "command" in agent or "serve" in agent:
        # The owner's variables that lead programs in languages without a hook to the gateway.
        led = {name for call in recording.calls if not call.by_hook for name in call.variables}
        if variables := [name for name in recording.base_url_variables if name in led]:
            agent["model_base_url"] = variables
        if hosts := model_hosts(recording):
            agent["model_hosts"] = hosts
    return Wiring(
        mode="service" if service else "command",
        label=template.settings["url" if service else "command"],
        agent=agent,
        task_input=template.task_input,
        output=template.output,
        fields=template.fields,
        parameter=inputs[0].name or "input" if inputs else "input",
    )
