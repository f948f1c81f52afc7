"""Runs a wired agent on a task against the simulated model, in a copy, and says what was seen.

Copies hold no files of secrets, and the agent's processes get keys that are none, addresses of the
simulator, and a proxy that leads nowhere: what it sends elsewhere does not arrive. What cannot be
told in this way is "not verified", with the one next step.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ratchet.wire.applying.plan import read
from ratchet.wire.applying.record import Record, decoded, read_record
from ratchet.wire.applying.undo import find_record, undone_of
from ratchet.wire.checking.denied import without_marks, would_act
from ratchet.wire.checking.simulator import SimulatedModel
from ratchet.wire.facts import RepositoryLook
from ratchet.wire.looking.look import look

State = Literal["verified", "failed", "not verified"]

SECONDS = 180.0
"""How long one run of the agent, or the project's tests, may take."""
MARK = "ratchet-check"
_KEY = "ratchet-check-no-key"
_SIMULATED = {
    "OPENAI_BASE_URL": "/v1",
    "OPENAI_API_BASE": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GROQ_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "GOOGLE_VERTEX_BASE_URL": "",
    "MISTRAL_BASE_URL": "",
    "DEEPSEEK_API_BASE": "/v1",
    "OPENROUTER_API_BASE": "/v1",
    "FIREWORKS_BASE_URL": "/v1",
    "TOGETHER_BASE_URL": "/v1",
}
"""Variables that clients read their address from, and the path that each expects."""
_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("MISTRAL_API_KEY", "COHERE_API_KEY", "TAVILY_API_KEY", "SERPER_API_KEY"),
)


class CheckFinding(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    what: str
    state: State
    why: str
    next_step: str = ""
    """Where it is not verified or failed: the one thing to do."""


class CheckReport(msgspec.Struct, frozen=True):
    """What a check found."""

    root: str
    python: str
    """The interpreter that ran the agent."""
    findings: tuple[CheckFinding, ...]

    @property
    def failed(self) -> bool:
        """Whether something is wrong, rather than unknown."""
        return any(one.state == "failed" for one in self.findings)


def check(root: Path, *, python: Path | None = None, tests: bool = True) -> CheckReport:
    """Check a wired repository. It is not written to, and nothing of it runs in place.

    Args:
        root: The repository, or the folder of its project.
        python: The interpreter with the agent's packages; by default that of the project's own
            environment, else this one.
        tests: Whether to run the project's own tests before and after.

    Raises:
        InputError: It was not wired.
    """
    root, path = find_record(root)
    record = read_record(decoded(read(root, path) or b""), path)
    facts = look(root)
    chosen = python or _own_python(root, record.project)
    run = _Run(root, record, facts, chosen)
    return CheckReport(str(root), str(chosen), tuple(run.findings(tests=tests)))


def _own_python(root: Path, project: str) -> Path:
    for folder in (root / project, root):
        for name in (".venv", "venv", "env"):
            found = folder / name / "bin" / "python"
            if found.exists():
                return found
    return Path(sys.executable)


class _Run:
    def __init__(self, root: Path, record: Record, facts: RepositoryLook, python: Path) -> None:
        self._root = root
        self._record = record
        self._facts = facts
        self._python = python
        without = undone_of(root, without_marks(record), force=True).contents
        kept = {one.path for one in record.files if one.created}
        self._before = {path: data for path, data in without.items() if path not in kept}
        """Files as they were, but for the wiring's own new ones and the marks that deny tools."""

    def findings(self, *, tests: bool) -> list[CheckFinding]:
        """All findings; the first that makes the others impossible is the last."""
        if self._record.run == "service":
            return [
                CheckFinding(
                    "agent",
                    "not verified",
                    "It is a service, which a check does not start.",
                    "Start it, then: ratchet run --split val --limit 1",
                )
            ]
        acting = would_act(self._root, self._record, self._facts)
        if acting:
            why = f"It was not run: {acting[0]} ({acting[1]}) would act, as nothing marks it."
            step = "Mark it with @ratchet.tool(side_effects=True), then: ratchet init --check"
            return [CheckFinding("agent", "not verified", why, step)]
        missing = self._python_lacks()
        if missing:
            return [missing]
        found = []
        with SimulatedModel() as model, tempfile.TemporaryDirectory(prefix="ratchet-check-") as at:
            after = self._copied(Path(at) / "after", {})
            made_up = _with_a_task(after / self._record.project)
            first, requests = self._probe(model, after)
            found.append(self._agent(first, requests, made_up=made_up))
            if first.get("status") not in ("succeeded", "inconclusive"):
                return found
            found.append(_trace(first))
            found.append(_duplicates(first, requests))
            found += self._prompts(model, Path(at), after, first, requests)
            found.append(self._effects(first))
            if tests:
                found += self._tests(Path(at), after)
        return found

    def _python_lacks(self) -> CheckFinding | None:
        done = self._start([str(self._python), "-c", "import ratchet"], self._root, {})
        if isinstance(done, str) or done.returncode:
            return CheckFinding(
                "agent",
                "not verified",
                f"Ratchet is not installed for {self._python}.",
                "Install the project's requirements, then: ratchet init --check",
            )
        return None

    def _agent(
        self, first: Mapping[str, Any], requests: Sequence[Sequence[str]], *, made_up: bool
    ) -> CheckFinding:
        status, error = str(first.get("status", "")), str(first.get("error", ""))
        if status in ("succeeded", "inconclusive"):
            asked = f"{len(requests)} calls of the simulated model"
            task = "a made-up question, since there are no tasks," if made_up else "one task"
            return CheckFinding("agent", "verified", f"It ran {task} with {asked}.")
        step = first.get("hint") or "Run it yourself: ratchet run --split val --limit 1"
        needs = _needs(error)
        return CheckFinding(
            "agent",
            "not verified" if needs else "failed",
            needs or f"It did not run: {_short(error)}",
            step if not needs else f"Provide it, then: ratchet init --check ({_short(error, 160)})",
        )

    def _prompts(
        self,
        model: SimulatedModel,
        scratch: Path,
        after: Path,
        first: Mapping[str, Any],
        requests: Sequence[Sequence[str]],
    ) -> list[CheckFinding]:
        bound = {
            name: one for name, one in first["prompts"].items() if not name.startswith("ratchet.")
        }
        if not bound:
            return [
                CheckFinding("prompts", "not verified", "No prompt is declared.", "ratchet doctor")
            ]
        found = [self._compared(model, scratch, requests)]
        marked, changed = self._probe(model, after, mark=MARK)
        sent = "\n".join(text for request in changed for text in request)
        arrived = [name for name in bound if f"{MARK}:{name}" in sent]
        lost = [name for name in bound if name not in arrived]
        if marked.get("status") not in ("succeeded", "inconclusive"):
            why = f"With changed prompts the agent did not run: {_short(marked.get('error', ''))}"
            found.append(CheckFinding("changed prompts", "not verified", why, "ratchet doctor"))
        elif not changed:
            step = "Check with a task that makes one: write it into the task file."
            found.append(
                CheckFinding("changed prompts", "not verified", "No model call was made.", step)
            )
        elif lost:
            why = f"{len(arrived)} of {len(bound)} changed prompts reached the model in this task."
            found.append(
                CheckFinding(
                    "changed prompts",
                    "not verified" if arrived else "failed",
                    f"{why} Not seen: {', '.join(lost)}.",
                    "Check with a task that takes the way through them.",
                )
            )
        else:
            why = f"All {len(bound)} prompts, when changed, reached the model."
            found.append(CheckFinding("changed prompts", "verified", why))
        return found

    def _compared(
        self, model: SimulatedModel, scratch: Path, requests: Sequence[Sequence[str]]
    ) -> CheckFinding:
        """Whether the model is sent what it was before; tools stay denied there too."""
        before = self._copied(scratch / "before", self._before)
        acting = would_act(before, self._record, look(before))
        if acting:
            why = f"Without the wiring it was not run: {acting[0]} ({acting[1]}) would act there."
            step = "Read what was changed: git show ratchet/init"
            return CheckFinding("same prompts", "not verified", why, step)
        _with_a_task(before / self._record.project)
        _without_prompt_files(before / self._record.project / "ratchet.toml")
        old, earlier = self._probe(model, before)
        return _same(old, earlier, requests)

    def _effects(self, first: Mapping[str, Any]) -> CheckFinding:
        if first["status"] == "inconclusive":
            return CheckFinding("side effects", "verified", f"Denied: {_short(first['error'])}")
        return CheckFinding(
            "side effects", "verified", "None of the marked tools acted: rollouts deny them."
        )

    def _tests(self, scratch: Path, after: Path) -> list[CheckFinding]:
        own = [one for one in self._facts.tests if one.project == self._record.project]
        found = []
        for one in own[:1]:
            folder = self._record.project
            before = scratch / "before-tests"
            ran = [
                self._test(one.command, self._copied(before, self._before_all()) / folder),
                self._test(one.command, after / folder),
            ]
            if isinstance(ran[0], str) or isinstance(ran[1], str):
                why = next(each for each in ran if isinstance(each, str))
                found.append(CheckFinding("tests", "not verified", why, f"Run them: {one.command}"))
            elif ran[0] == ran[1]:
                end = "pass" if ran[0] == 0 else f"end with {ran[0]}"
                why = f"`{one.command}`: they {end} as before."
                found.append(CheckFinding("tests", "verified", why))
            else:
                why = f"`{one.command}` ended with {ran[0]} before, and ends with {ran[1]} now."
                found.append(CheckFinding("tests", "failed", why, "ratchet init --undo"))
        return found

    def _before_all(self) -> dict[str, bytes | None]:
        return dict(undone_of(self._root, self._record, force=True).contents)

    def _test(self, command: str, folder: Path) -> int | str:
        words = command.split()
        if words[0] in ("python", "python3"):
            words[0] = str(self._python)
        done = self._start(words, folder, {})
        return done if isinstance(done, str) else done.returncode

    def _copied(self, target: Path, contents: Mapping[str, bytes | None]) -> Path:
        """The repository's own files, without secrets, with other contents for some."""
        secret = {one.place.path for one in self._facts.secrets if one.kind == "file"}
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self._root,
            capture_output=True,
            check=False,
        ).stdout.decode(errors="surrogateescape")
        for path in filter(None, listed.split("\0")):
            source = self._root / path
            if path in secret or contents.get(path, b"") is None or not source.is_file():
                continue
            if not source.resolve().is_relative_to(self._root):
                continue  # a link that leads out of the repository
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / path)
        for path, data in contents.items():
            if data is not None:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(data)
        return target

    def _probe(
        self, model: SimulatedModel, folder: Path, mark: str = ""
    ) -> tuple[dict[str, Any], list[list[str]]]:
        """One rollout: what the probe printed, and the texts that the model was sent."""
        model.taken()
        variables = {name: model.url + path for name, path in _SIMULATED.items()}
        command = [str(self._python), "-m", "ratchet.autopilot.probe", "."]
        done = self._start(
            [*command, *(["--mark", mark] if mark else [])],
            folder / self._record.project,
            variables,
        )
        if isinstance(done, str):
            return {"error": done}, model.taken()
        lines = done.stdout.strip().splitlines()
        try:
            found = json.loads(lines[-1])
        except (ValueError, IndexError):
            found = {"error": done.stderr[-600:] or "It ended without a word."}
        return found, model.taken()

    def _start(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str] | str:
        """Run a program with no real key and no way out; a sentence if it cannot be."""
        named = [one.name for one in self._facts.secrets if one.kind == "variable"]
        keys = {name: _KEY for name in (*_KEYS, *named) if _is_key(name)}
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        nowhere = "http://127.0.0.1:9"
        with tempfile.TemporaryDirectory(prefix="ratchet-home-") as home:
            environment = {
                **kept,
                **keys,
                **variables,
                "HOME": home,
                **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), nowhere),
                **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), nowhere),
                "NO_PROXY": "127.0.0.1,localhost",
                "no_proxy": "127.0.0.1,localhost",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            try:
                return subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"It did not end within {SECONDS:g} s."
            except OSError as error:
                return f"It could not be started: {error}."


def _trace(first: Mapping[str, Any]) -> CheckFinding:
    if first["traces"] == 1 and first["roots"] == 1:
        return CheckFinding("trace", "verified", f"One connected trace of {first['spans']} spans.")
    why = f"{first['spans']} spans in {first['traces']} traces with {first['roots']} roots."
    step = "Pass contexts on to threads and tasks: docs/tracing.md"
    return CheckFinding("trace", "failed", why, step)


def _duplicates(first: Mapping[str, Any], requests: Sequence[Sequence[str]]) -> CheckFinding:
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
        return CheckFinding("spans", "not verified", why, step)
    return CheckFinding("spans", "verified", f"Each of {sent} model calls is recorded once.")


def _same(
    old: Mapping[str, Any], earlier: Sequence[Sequence[str]], later: Sequence[Sequence[str]]
) -> CheckFinding:
    """Whether the model was sent the same texts before; as far as both runs went."""
    ran = old.get("status") in ("succeeded", "inconclusive")
    both = min(len(earlier), len(later))
    if not both:
        why = "No model call was made."
        if not ran:
            why = f"Without the wiring the agent did not run: {_short(old.get('error', ''))}"
        step = "Check with a task that makes one: write it into the task file."
        return CheckFinding("same prompts", "not verified", why, step)
    for number, (one, other) in enumerate(zip(earlier, later, strict=False), 1):
        text, now = "\n".join(one), "\n".join(other)
        if text != now:
            pairs = enumerate(zip(text, now, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(text), len(now)))
            why = (
                f"Call {number} differs: {text[at : at + 40]!r} was sent before, and"
                f" {now[at : at + 40]!r} now."
            )
            step = "If that is a date or a random number, it is no fault of the wiring."
            return CheckFinding("same prompts", "not verified", why, step)
    whole = ran and len(earlier) == len(later)
    calls = f"all {both} model calls" if whole else f"the first {both} model calls"
    why = f"The texts of {calls} are the same to the byte as before."
    if not whole:
        why += " Then a denied tool or an error ended one of the runs."
    return CheckFinding("same prompts", "verified", why)


def _without_prompt_files(file: Path) -> None:
    """Let `ratchet.toml` of the copy declare no files: there they are read as they are."""
    lines, skipped = [], False
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("["):
            skipped = line.startswith("[[prompt_files]]")
        if not skipped:
            lines.append(line)
    file.write_text("".join(lines), encoding="utf-8")


def _with_a_task(folder: Path) -> bool:
    """Give a copy without tasks a made-up one; return whether it did."""
    settings = tomllib.loads((folder / "ratchet.toml").read_text(encoding="utf-8"))
    tasks = settings.get("tasks", {})
    file = folder / tasks.get("file", "tasks.jsonl")
    if "dataset" in tasks or file.exists():
        return False
    file.write_text(json.dumps({"input": "What can you do for me today?"}) + "\n")
    return True


def _is_key(name: str) -> bool:
    return any(part in name for part in ("KEY", "TOKEN", "SECRET", "PASSWORD"))


_NEEDS = {
    "onnection refused": "It needs a server, such as a database, that does not run.",
    "could not connect": "It needs a server, such as a database, that does not run.",
    "EOF when reading a line": "It asks a person.",
    "did not end within": "It did not end in time.",
    "environment variable": "It needs a variable of its environment.",
    "No such file": "It needs a file that is not in the repository.",
    "There is no task": "There is no task to run it on.",
    "ProxyError": "It needs the network.",
    "APIConnectionError": "It calls a model at an address that the check cannot set.",
}


def _needs(error: str) -> str:
    """What an error says is missing here, if that is what it says."""
    package = re.search(r"No module named '([\w.]+)'", error)
    if package:
        return f"It needs the package {package[1]}, which is not installed."
    return next((why for part, why in _NEEDS.items() if part in error), "")


def _short(text: Any, most: int = 400) -> str:
    return " ".join(str(text).split())[:most]
