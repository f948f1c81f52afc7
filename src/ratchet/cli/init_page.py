"""Prints what `ratchet init` recorded, verified, and did not verify."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from ratchet.cli.console import one_line, out
from ratchet.cli.init_verify import (
    SENT,
    TOOLS_DIFFER,
    WiringFinding,
    WiringVerification,
    entries_needed,
)
from ratchet.types.wording import counted
from ratchet.wire.applying import RunTrace, tracked_among
from ratchet.wire.changes import LeftAlone
from ratchet.wire.deriving.derive import Derived, Wiring
from ratchet.wire.deriving.owner_input import as_text
from ratchet.wire.deriving.prompts import SentPrompt
from ratchet.wire.recording.recording import Recording

MAX_WRITES = 8
LABEL = 400
"""Characters shown of a command: enough to show where its input is."""
_WITHOUT = {
    "hosts": "not allowed in rollouts",
    "programs": "not allowed in rollouts",
    "folders": "rollouts write to copies",
}
"""What happens to an act that is not allowed."""


def same_for_all(derived: Derived) -> str:
    """What to do for an agent without an input; empty if it has one."""
    if derived.inputs:
        return ""
    if derived.input_file:
        return (
            "None of the values that you gave reached the model, but the text of "
            f"{derived.input_file} did: in rollouts, that file holds the task's input."
        )
    if derived.sent_files:
        return (
            "Nothing that you gave reached the model, so every task would run the same. If one of"
            f" the files that did is the task: ratchet init --input FILE …, with one of"
            f" {', '.join(derived.sent_files)}"
        )
    place = derived.written_input
    pointer = f" The request to the model is written at {place}." if place else ""
    if derived.read_word:
        return (
            "Nothing that you gave reached the model unchanged, so every task would run the same. "
            f"If the file {derived.read_word}, which the run read, is the task: ratchet init"
            f" --input {derived.read_word} …"
        )
    return (
        f"Nothing that you gave reached the model, so every task would run the same.{pointer} "
        "Give the input as a separate argument, on standard input (--stdin), or in the request's "
        "body (--data), and run ratchet init again."
    )


def print_recorded(recording: Recording, derived: Derived) -> None:
    """Print what the recorded run showed."""
    calls = counted(len(recording.calls), "model call")
    model = ", answered by a simulated model" if recording.simulated else ""
    _say(f"\nRecorded {calls} in {recording.seconds:.1f} s{model}.")
    if derived.prompts:
        _say("\nPrompts in the source that reached the model:")
    for prompt in derived.prompts:
        times = "" if prompt.calls == 1 else f" ({counted(prompt.calls, 'call')})"
        _say(f"  {prompt.path}:{prompt.line}  “{prompt.beginning}”{times}")
    if derived.acts:
        _say("\nOutside the project, the run did the following:")
    started = [act.subject for act in derived.acts if act.key == "programs" and act.allow]
    if started:
        _say(f"  programs started: {', '.join(map(_program_name, started))}; allowed in rollouts")
    for act in derived.acts:
        if act.subject not in started:
            word = "allowed in rollouts" if act.allow else _WITHOUT[act.key]
            _say(f"  {act.key[:-1]} {act.subject}: {act.said}; {word}")
    in_project = [write for write in recording.writes if write.place == "project"]
    if in_project:
        _say("\nThe run changed these files of the project; rollouts change only copies:")
    for write in in_project[:MAX_WRITES]:
        _say(f"  {write.how} {write.path}")
    if len(in_project) > MAX_WRITES:
        _say(f"  and {counted(len(in_project) - MAX_WRITES, 'more file')}")
    for note in recording.notes:
        _say(f"\nNote: {note}")
    if sentence := same_for_all(derived):
        _say(f"\n{sentence}")


def _program_name(subject: str) -> str:
    """A program as the page names it: one of the system without its folders."""
    return PurePosixPath(subject).name if subject.startswith("/") else subject


def print_dry_run(diff: str) -> None:
    """Print what would be written."""
    _say(f"\n{diff}")
    _say("Nothing was written, and nothing was verified.")


def print_verified(
    recording: Recording,
    wiring: Wiring,
    verification: WiringVerification,
    findings: Iterable[WiringFinding],
    left: Iterable[LeftAlone],
    prompts: Iterable[SentPrompt],
) -> None:
    """Print what works in the wiring, what does not, and what was not checked."""
    findings = list(findings)
    same = all(
        finding.holds and TOOLS_DIFFER not in finding.said
        for finding in verification.findings
        if finding.name in SENT
    )
    with_what = ", for its single input" if wiring.task_input is None else ""
    how = "works" if same else "runs, but not as recorded"
    _say(f"\nThe wiring {how}{with_what}: {one_line(wiring.label, LABEL)}")
    for finding in findings:
        if finding.holds is not None:
            word = "verified" if finding.holds else "FAILED"
            _say(f"  {word}: {finding.name}. {finding.said}")
    for act in verification.denied:
        _say(f"  It tried {act.said}; this was denied.")
    if verification.denied and same and not recording.simulated:
        _say("  Even so, the agent sent its model the same texts, so rollouts do not need it.")
    elif verification.denied:
        if recording.simulated:
            _say("  The recorded run was contained, too.")
        needed = entries_needed(verification.denied, recording)
        if allowing := "".join(f" --allow {entry}" for entry in needed):
            _say(f"  If the agent needs this, undo, and record again with{allowing}")
    if verification.learned:
        _say("\nIts prompts, by the names that ratchet improve uses:")
    for prompt in verification.learned:
        _say(f"  {prompt}")
    named = " ".join(verification.learned)
    places = (f"{prompt.path}:{prompt.line}" for prompt in prompts)
    others = [place for place in places if not re.search(rf"{re.escape(place)}(?!\d)", named)]
    if others and named:
        _say(f"  Also sent with these, but not changed by ratchet improve: {', '.join(others)}")
    _say("\nNot verified:")
    for sentence in not_verified(recording, findings):
        _say(f"  {sentence}")
    left = list(left)
    if left:
        _say("\nLeft unchanged:")
    for alone in left:
        _say(f"  {alone.place}  {alone.what}: {alone.why}")


def constant_values(derived: Derived, wiring: Wiring) -> str:
    """What else reached the model but is not part of a task's input, as a sentence; else empty."""
    if wiring.task_input is None:
        return ""
    varies = as_text(wiring.task_input)
    texts = [as_text(value.value) for value in derived.inputs]
    in_json = {text: json.dumps(text, ensure_ascii=False)[1:-1] for text in texts}
    constant = [
        text
        for text in texts
        if text not in varies and in_json[text] not in varies and text in str(wiring.agent)
    ]
    if not constant:
        return ""
    named = " ".join(f"--input {shlex.quote(text)}" for text in texts)
    return (
        f"{', '.join(map(repr, constant))} reached the model too, and stays the same in every "
        f"task. To let tasks vary it, undo this and run ratchet init again with {named}"
    )


def not_verified(recording: Recording, findings: Iterable[WiringFinding]) -> Iterator[str]:
    """What the checks do not show, a sentence each."""
    for finding in findings:
        if finding.holds is None:
            yield f"{finding.name}: {finding.said}"
    if recording.simulated:
        yield "the model: a simulated model answered, and its answers mean nothing."
    else:
        yield "the model: the checks replayed recorded answers instead of asking it again."
    yield "other inputs: only the recorded input was run."


def left_by_run(root: Path, traces: Iterable[RunTrace]) -> Iterator[str]:
    """What the recorded run left in the project, with commands to remove or show it."""
    paths: dict[str, list[str]] = {}
    traces = list(traces)
    in_git = tracked_among(root, [trace.path for trace in traces])
    for trace in traces:
        path = os.path.relpath(root / trace.path)
        kind = "tracked" if trace.how != "created" and trace.path in in_git else trace.how
        paths.setdefault(kind, []).append(path)
    if created := paths.pop("created", None):
        yield (
            f"The recorded run created {', '.join(created)}, and left it there. To remove it:"
            f" rm -r -- {shlex.join(created)}"
        )
    if tracked := paths.pop("tracked", None):
        yield (
            f"The recorded run changed {', '.join(tracked)}, and left the change in place. To see "
            f"it: git diff -- {shlex.join(tracked)}"
        )
    for how, untracked in paths.items():
        are = "is" if len(untracked) == 1 else "are"
        yield (
            f"The recorded run {how} {', '.join(untracked)}, which {are} not in git: there is no"
            " earlier copy."
        )


def _say(sentence: str) -> None:
    out.print(sentence, markup=False)
