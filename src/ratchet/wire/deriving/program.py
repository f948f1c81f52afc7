"""The recorded command or request as a template for the task's input."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ratchet.run.program_results import events_of, result_in
from ratchet.types import InputError
from ratchet.wire.deriving.entry import escaped
from ratchet.wire.deriving.owner_input import OwnerValue, as_text, body_of, decoded, leaves
from ratchet.wire.recording.recording import Recording, ServiceRun
from ratchet.worker.results import joined

_WORD = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"\{input(\.\w+)*\}")


class ProgramTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """How a task runs the owner's command, or is sent to the owner's service."""

    settings: dict[str, Any]
    """Keys of [agent]: `command`, `stdin` and `input`, or `url`, `serve`, `body` and `output`."""
    task_input: Any
    """The recorded input, as a task has it."""
    output: Any
    """The program's answer in the recorded run."""
    fields: tuple[str, ...]
    """Names of the task input's fields; empty if it is a single value."""


def program_template(
    recording: Recording, inputs: Sequence[OwnerValue], input_file: str = ""
) -> ProgramTemplate:
    """The owner's command with placeholders for the inputs.

    Args:
        recording: The recorded run.
        inputs: The owner's values that are the task's input.
        input_file: Without any: the file that holds it; empty for none.
    """
    names = _field_names(inputs)
    slots = {
        value: f"{{input.{name}}}" if len(inputs) > 1 else "{input}"
        for value, name in zip(inputs, names, strict=True)
    }
    task_input = (
        {name: value.value for value, name in zip(inputs, names, strict=True)}
        if len(inputs) > 1
        else (inputs[0].value if inputs else None)
    )
    run = recording.run
    settings: dict[str, Any]
    output: Any = recording.stdout.strip()
    if isinstance(run, ServiceRun):
        settings = _request_settings(run, slots)
        if run.serve:
            settings["serve"] = shlex.join(run.serve)
        output = decoded(recording.response)
        if isinstance(output, str) and (streamed := answer_in_events(output, recording)):
            path, output = streamed
            settings |= {"output": path} if path else {}
        elif (answer := answer_in(output, recording)) is not None:
            settings["output"], output = answer
    else:
        words = [escaped(word) for word in run.argv]
        for value, slot in slots.items():
            if value.place == "word":
                index = value.path[0]
                assert isinstance(index, int)
                joined = value.prefix if value.prefix.endswith("=") else ""
                words[index] = f"{joined}{slot}"
        quoted = (word if _PLACEHOLDER.fullmatch(word) else shlex.quote(word) for word in words)
        settings = {"command": " ".join(quoted)}
        if run.stdin is not None or not inputs:  # without a word on it, a task is given as JSON
            settings["stdin"] = _stdin(run.stdin or "", slots)
        if input_file:
            settings["input"] = f"file:{input_file}"
            task_input = Path(recording.root, input_file).read_text(encoding="utf-8")
        file = _answer_file(recording)
        if not says_answer(output, recording) or (file and file[0].partition(":")[2] in run.argv):
            stems = [Path(as_text(value.value)).stem for value in inputs]
            if file is not None and not any(stem in file[0] for stem in stems):
                settings["output"], output = file
    return ProgramTemplate(
        settings=settings,
        task_input=task_input,
        output=output,
        fields=names if len(inputs) > 1 else (),
    )


def says_answer(output: Any, recording: Recording) -> bool:
    """Whether an output contains most words of one of the model's answers."""
    printed = {*_WORD.findall(as_text(output))}
    answers = [leaves(decoded(call.response), ()) for call in recording.calls]  # of JSON, no keys
    texts = [" ".join(as_text(leaf.value) for leaf in answer) for answer in answers]
    said = [words for text in texts if (words := {*_WORD.findall(text)})]
    is_said = not said or any(2 * len(printed & words) >= len(words) for words in said)
    return bool(printed) and is_said


def _answer_file(recording: Recording) -> tuple[str, Any] | None:
    """The one file that a run wrote which does not print its answer, as a setting, and its content.

    The copies of a contained run are gone by then, so its content is not known: an empty text. Of
    another run that prints something, the file must hold what the model said.
    """
    writes = [write for write in recording.writes if write.place == "project"]
    written = [write.path for write in writes if write.how != "deleted"]
    if len(written) != 1:
        return None
    path = Path(recording.root, written[0])
    try:
        answer = "" if recording.simulated and not path.exists() else result_in(path)
    except InputError:
        return None
    if "\0" in as_text(answer):  # a database
        return None
    if recording.simulated:
        return f"file:{written[0]}", ""
    holds = not recording.stdout.strip() or says_answer(answer, recording)
    return (f"file:{written[0]}", answer) if answer and holds else None


def _request_settings(run: ServiceRun, slots: Mapping[OwnerValue, str]) -> dict[str, Any]:
    url, _, query = run.url.partition("?")
    settings: dict[str, Any] = {"url": url}
    if run.method != "POST":
        settings["method"] = run.method
    if run.headers:
        settings["headers"] = dict(run.headers)
    in_query = {value.path: slot for value, slot in slots.items() if value.place == "query"}
    in_body = {value.path: slot for value, slot in slots.items() if value.place == "body"}
    if query:
        settings["query"] = escaped(dict(parse_qsl(query, keep_blank_values=True)), in_query)
    if (body := escaped(body_of(run), in_body)) is not None:
        is_written = run.form or isinstance(body, str)
        settings["form" if run.form else "body"] = body if is_written else json.dumps(body)
    return settings


def _stdin(text: str, slots: Mapping[OwnerValue, str]) -> str:
    """Standard input with placeholders: for all of it, or for the lines that are input."""
    lines = text.splitlines(keepends=True)
    of_stdin = {value.path: slot for value, slot in slots.items() if value.place == "stdin"}
    if () in of_stdin:
        return of_stdin[()] + text[len(text.rstrip("\r\n")) :]
    by_line = {path[0]: slot for path, slot in of_stdin.items()}
    if not by_line:
        return str(escaped(text))
    return "".join(
        by_line[index] + line[len(line.rstrip("\r\n")) :]
        if index in by_line
        else line.replace("{", "{{").replace("}", "}}")
        for index, line in enumerate(lines)
    )


def answer_in(response: Any, recording: Recording) -> tuple[str, str] | None:
    """The path in a service's answer at which the model's last text is, and that text.

    In the last item of a list of several, it is looked for in the last: their number may vary.
    """
    responses = [call.response.strip() for call in recording.calls if call.response.strip()]
    if not responses or not isinstance(response, dict | list):
        return None
    for text in reversed(responses):
        for leaf in leaves(response, ()):
            if isinstance(leaf.value, str) and text in leaf.value:
                return ".".join(_keys(response, leaf.path)), leaf.value
    return None


def answer_in_events(response: str, recording: Recording) -> tuple[str, Any] | None:
    """The path in a stream's events at which the model's last text is, and the texts there; if it
    is nowhere, an empty path and all data; None without events."""
    events = events_of(response.encode(), streamed=bool(re.search(r"^data:", response, re.M)))
    texts: dict[str, str] = {}
    for event in events:
        for leaf in leaves(decoded(event.decode()), ()):
            if leaf.path and isinstance(leaf.value, str):
                path = ".".join(map(str, leaf.path))
                texts[path] = texts.get(path, "") + leaf.value
    replies = [reply for call in reversed(recording.calls) if (reply := call.response.strip())]
    for reply in replies:
        if holding := [path for path, text in texts.items() if reply in text]:
            path = min(holding, key=lambda path: len(texts[path]))
            return path, texts[path]
    return ("", joined([decoded(event.decode()) for event in events])) if events else None


def _keys(value: Any, place: Sequence[str | int]) -> Iterator[str]:
    for key in place:
        last = isinstance(key, int) and key > 0 and key == len(value) - 1
        yield "-1" if last else str(key)
        value = value[key]


def _field_names(inputs: Sequence[OwnerValue]) -> tuple[str, ...]:
    names: list[str] = []
    for number, value in enumerate(inputs, 1):
        name = value.name or f"{'line' if value.place == 'stdin' else 'word'}_{number}"
        names.append(name if name not in names else f"{name}_{number}")
    return tuple(names)
