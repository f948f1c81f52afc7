"""What a run showed, as findings: verified, failed, or not verified with the one next step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ratchet.wire.entry.functions import TOLD_IN_LOG

State = Literal["verified", "failed", "not verified"]


class CheckFinding(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    what: str
    state: State
    why: str
    next_step: str = ""
    """Where it is not verified or failed: the one thing to do."""


def run_finding(
    first: Mapping[str, Any],
    requests: Sequence[Sequence[str]],
    *,
    made_up: bool,
    failed_after: str,
    addresses: Sequence[str],
    once: str,
) -> CheckFinding:
    """Whether the agent ran, and asked the model.

    Args:
        first: What the probe printed.
        requests: The texts that the model was sent.
        made_up: Whether there was no task.
        failed_after: The tool whose made-up arguments an earlier run failed with.
        addresses: Variables that lead the agent to services.
        once: The command that runs it once.
    """
    error, told = str(first.get("error", "")), last_error(str(first.get("log", "")))
    ran = first.get("status") in ("succeeded", "inconclusive")
    task = "a made-up question, since there are no tasks," if made_up else "one task"
    if ran and requests:
        why = f"It ran {task} with {len(requests)} calls of the simulated model."
        if failed_after:
            why += (
                f" The model called no tools: with made-up arguments of {failed_after!r} it failed."
            )
        return CheckFinding("agent", "verified", why)
    if ran and not needs(told):
        said = short(first.get("output", ""), 200)
        why = f"It ran {task} and asked no model. Its output: {said}"
        step = f"See what it did: {once}"
        return CheckFinding("agent", "not verified", why, step)
    if TOLD_IN_LOG in error:
        error = f"{error}: {told}"
    error = error or told
    lacking = needs(error)
    if not lacking:
        step = first.get("hint") or f"Run it yourself: {once}"
        return CheckFinding("agent", "failed", f"It did not run: {both_ends(error)}", step)
    again = "ratchet init --check"
    if lacking == SERVER and addresses:
        again += f" --variable {addresses[0]}"
    step = f"Provide it, then: {again} ({short(error, 160)})"
    return CheckFinding("agent", "not verified", lacking, step)


def trace_finding(first: Mapping[str, Any]) -> CheckFinding:
    if first["traces"] == 1 and first["roots"] == 1:
        return CheckFinding("trace", "verified", f"One connected trace of {first['spans']} spans.")
    why = f"{first['spans']} spans in {first['traces']} traces with {first['roots']} roots."
    step = "Pass contexts on to threads and tasks: docs/tracing.md"
    return CheckFinding("trace", "failed", why, step)


def duplicates_finding(first: Mapping[str, Any], requests: Sequence[Sequence[str]]) -> CheckFinding:
    seen, sent = first["model_calls"], len(requests)
    if not sent:
        step = "Check with a task that makes one: write it into the task file."
        return CheckFinding("spans", "not verified", "No model call was made.", step)
    if seen > sent:
        why = f"{seen} spans of model calls, and {sent} were made: some are recorded twice."
        return CheckFinding(
            "spans", "failed", why, "Set instruments in ratchet.init(): docs/tracing.md"
        )
    if seen < sent:
        why = f"{sent} model calls were made, and {seen} are in the trace."
        step = "Install the framework's instrumentation: pip install 'agent-ratchet[instruments]'"
        unfit = first.get("unfit") or ()
        if unfit:
            named = ", ".join(
                f"{what} {version} does not fit {of} {installed}"
                for of, installed, what, version, _ in unfit
            )
            why = f"{why[:-1]}: {named}."
            # By the extra `instruments` pip chooses the version; without one, an older is tried.
            wanted = " ".join(
                f"'{what}[instruments]' '{of}=={installed}'" if told else f"'{what}<{version}'"
                for of, installed, what, version, told in unfit
            )
            step = f"Install the version that fits: pip install {wanted}"
        return CheckFinding("spans", "not verified", why, step)
    return CheckFinding("spans", "verified", f"Each of {sent} model calls is recorded once.")


def same_finding(
    old: Mapping[str, Any], earlier: Sequence[Sequence[str]], later: Sequence[Sequence[str]]
) -> CheckFinding:
    """Whether the model was sent the same texts before; as far as both runs went."""
    ran = old.get("status") in ("succeeded", "inconclusive")
    both = min(len(earlier), len(later))
    if not both:
        why = "No model call was made."
        if not ran:
            why = f"Without the wiring the agent did not run: {short(old.get('error', ''))}"
        step = "Check with a task that makes one: write it into the task file."
        return CheckFinding("same prompts", "not verified", why, step)
    texts = ["\n".join(one) for one in earlier]
    now = ["\n".join(one) for one in later]
    whole = ran and len(texts) == len(now)
    # Calls that run side by side arrive in any order.
    old_order, new_order = [*map(_timeless, texts)], [*map(_timeless, now)]
    turned = old_order != new_order and whole and sorted(old_order) == sorted(new_order)
    if turned:
        texts, now = sorted(texts, key=_timeless), sorted(now, key=_timeless)
    clocks = False
    for number, (one, other) in enumerate(zip(texts, now, strict=False), 1):
        if one != other and _timeless(one) == _timeless(other):
            clocks = True
        elif one != other:
            pairs = enumerate(zip(one, other, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
            why = (
                f"Call {number} differs: {one[at : at + 40]!r} was sent before, and"
                f" {other[at : at + 40]!r} now."
            )
            step = "If that is a date or a random number, it is no fault of the wiring."
            return CheckFinding("same prompts", "not verified", why, step)
    calls = f"all {both} model calls" if whole else f"the first {both} model calls"
    why = f"The texts of {calls} are the same to the byte as before"
    why += ", but for the time of day in them." if clocks else "."
    if turned:
        why += " They came in another order: some run side by side."
    if not whole:
        why += " Then a denied tool or an error ended one of the runs."
    return CheckFinding("same prompts", "verified", why)


_CLOCK = re.compile(r"(?<=\d[T ])\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?")
"""The time of day after a date: it changes between two runs."""


def _timeless(text: str) -> str:
    return _CLOCK.sub("", text)


ELSEWHERE = "It calls a model at an address that the check cannot set."
SERVER = "It needs a server, such as a database, that does not run."
_NEEDS = {
    "No such file or directory: 'node'": "It needs Node, which is not installed.",
    "onnection refused": SERVER,
    "could not connect": SERVER,
    "Connect call failed": SERVER,
    "EOF when reading a line": "It asks a person.",
    "Input is not a terminal": "It asks a person.",
    "did not end within": "It did not end in time.",
    "environment variable": "It needs a variable of its environment.",
    "No such file": "It needs a file that is not in the repository.",
    "There is no task": "There is no task to run it on.",
    "ProxyError": "It needs the network.",
    "Cannot connect to API": ELSEWHERE,
    "getaddrinfo": "It needs the network.",
    "APIConnectionError": ELSEWHERE,
}


def needs(error: str) -> str:
    """What an error says is missing here, if that is what it says."""
    if package := needed_package(error):
        return package
    file = re.search(r"No such file or directory: '([^']+)'", error)
    if file and file[1] != "node":
        return f"It needs the file {file[1]}, which is not in the repository."
    return next((why for part, why in _NEEDS.items() if part in error), "")


def needed_package(error: str) -> str:
    """The package that an error says is not installed, if that is what it says."""
    found = re.search(
        r"(?:No module named|Cannot find (?:package|module)) '?([\w@./-]+)"
        r"|ENOTCACHED\n.* request to \S*/(\S+) failed",
        error,
    )
    name = found and (found[1] or found[2])
    return f"It needs the package {name}, which is not installed." if name else ""


def short(text: Any, most: int = 400) -> str:
    return " ".join(str(text).split())[:most]


def both_ends(text: str) -> str:
    """A long error without its middle: its last line says what went wrong."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 400 else f"{flat[:150]} … {flat[-250:]}"


def last_error(log: str) -> str:
    """The line of a log that says what went wrong: of Python the last such, of Node the first."""
    lines = [one.strip() for one in log.splitlines()]
    named = [
        one for one in lines if re.match(r"(?:\w+\.)*\w*(?:Error|Exception)\b[^:]*(?::|$)", one)
    ]
    if named:
        return named[-1] if "Traceback" in log else named[0]
    told = [one for one in lines if re.search(r"(?:Error|Exception)\b", one)]
    return (told or lines or [""])[-1]
