"""Runs a wired agent on a task against the simulated model, in a copy, and says what was seen.

Copies hold no files of secrets, and the agent's processes get keys that are none, addresses of the
simulator, and a proxy that leads nowhere: what it sends elsewhere does not arrive. What cannot be
told in this way is "not verified", with the one next step.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.sandbox.interpreter import find_interpreter
from ratchet.types import InputError
from ratchet.wire.checking import command, service
from ratchet.wire.checking.bytecode import compiled_once
from ratchet.wire.checking.called import (
    MARK,
    changed_prompts,
    gateway_prompts,
    marks,
    same_prompts,
)
from ratchet.wire.checking.command import CommandCheck
from ratchet.wire.checking.contained import (
    is_address,
    model_addresses,
    own_addresses,
    run_program,
)
from ratchet.wire.checking.denied import without_marks, would_act
from ratchet.wire.checking.findings import (
    CheckFinding,
    duplicates_finding,
    needed_package,
    needs,
    run_finding,
    same_finding,
    short,
    trace_finding,
)
from ratchet.wire.checking.probed import failed, probe, unseen
from ratchet.wire.checking.scratch import scratch_folder
from ratchet.wire.checking.service import ServiceCheck, app_finding
from ratchet.wire.checking.simulator import SimulatedModel
from ratchet.wire.checking.tree_copy import OwnFiles, TreeCopy
from ratchet.wire.checking.wired_project import (
    first_input,
    run_once,
    with_a_task,
    without_prompt_files,
)
from ratchet.wire.entry.service_app import ServiceApp
from ratchet.wire.facts import PromptSite, RepositoryLook
from ratchet.wire.former.plan import read
from ratchet.wire.former.record import FormerRecord, decoded, read_record
from ratchet.wire.former.undo import find_record, undone_of
from ratchet.wire.looking.former_look import look
from ratchet.wire.project_files.config_file import test_of_releases

_PROMPT = re.compile(r"\bprompt\(\s*[\"']([\w.-]+)[\"']")
_OTHER_WAYS = 2
"""Further rollouts where prompts were not seen; in each the model chooses otherwise."""
_NONE_ACTED = "None of the marked tools acted: rollouts deny them."


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


def check(
    root: Path,
    *,
    python: Path | None = None,
    tests: bool = True,
    variables: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda sentence: None,
) -> CheckReport:
    """Check a wired repository. It is not written to, and nothing of it runs in place.

    Args:
        root: The repository, or the folder of its project.
        python: The interpreter with the agent's packages; by default that of the project's own
            environment, else this one.
        tests: Whether to run the project's own tests before and after.
        variables: What the agent needs in its environment, such as the address of a test database.
        say: Told what is done next.

    Raises:
        InputError: It was not wired.
    """
    root, path = find_record(root)
    say("Reading the repository.")
    record = read_record(decoded(read(root, path) or b""), path)
    facts = look(root)
    chosen = python or _agents_python(root / record.project)
    run = _Run(root, record, facts, chosen, variables or {}, say)
    return CheckReport(str(root), str(chosen), tuple(run.findings(tests=tests)))


def _agents_python(project: Path) -> Path:
    """The interpreter that rollouts use."""
    named = _settings_of(project).get("agent", {}).get("python")
    return find_interpreter(project, named) or Path(sys.executable)


def _settings_of(project: Path) -> dict[str, Any]:
    file = project / "ratchet.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}.", hint="ratchet doctor") from None


class _Run:
    def __init__(
        self,
        root: Path,
        record: FormerRecord,
        facts: RepositoryLook,
        python: Path,
        variables: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._say = say
        self._root = root
        self._record = record
        self._facts = facts
        self._python = python
        self._variables = variables
        self._once = run_once(root, record.project)
        without = undone_of(root, without_marks(record), force=True).contents
        kept = {one.path for one in record.files if one.created}
        self._before = {path: data for path, data in without.items() if path not in kept}
        """Files as they were, but for the wiring's own new ones and the marks that deny tools."""

    def findings(self, *, tests: bool) -> list[CheckFinding]:
        """All findings; the first that makes the others impossible is the last."""
        app: ServiceApp | None = None
        agent = self._agent_section()
        if not agent:
            why = "No way to run it was found: ratchet.toml has no [agent]."
            step = "Write ratchet_agent.py with one @ratchet.agent function, then: ratchet init"
            return [CheckFinding("agent", "not verified", why, step)]
        if "url" in agent:
            found_app = app_finding(
                self._root, self._record.project, self._record.entry_path, self._once
            )
            if isinstance(found_app, CheckFinding):
                return [found_app]
            app = found_app
        also = [app.path] if app else []
        acting = would_act(self._root, self._record, self._facts, also)
        if acting:
            why = f"It was not run: {acting[0]} ({acting[1]}) would act, as nothing marks it."
            mark = "@ratchet.tool(side_effects=True)"
            if not acting[1].path.endswith(".py"):
                mark = "tool(…, { sideEffects: true }) of agent-ratchet"
            step = f"Mark it with {mark}, then: ratchet init --check"
            return [CheckFinding("agent", "not verified", why, step)]
        python = "command" not in agent or command.is_python(agent)
        missing = self._python_lacks() if python else None
        if missing:
            return [missing]
        found = []
        secret = [one.place.path for one in self._facts.secrets if one.kind == "file"]
        files = OwnFiles(self._root, secret)
        with (
            SimulatedModel() as model,
            scratch_folder(files.size) as at,
            compiled_once(self._python) as compiled,
        ):
            self._say("Running the agent once, against a simulated model.")
            own = own_addresses(self._root, self._facts, model.url)
            self._variables = {**compiled, **own, **self._variables}
            tree = TreeCopy(files, at / self._root.name, self._record.project)
            if app is not None or "command" in agent:
                return self._program(model, tree, at, agent, app, tests=tests)
            made_up = with_a_task(tree.folder / self._record.project)
            first, requests = self._probe(model, tree)
            tool = model.called
            if tool and failed(first) and not needs(str(first.get("error", ""))):
                # The arguments are made up, and no fault of the agent's.
                model.call_no_tools()
                tree.show({})
                with_a_task(tree.folder / self._record.project)
                first, requests = self._probe(model, tree)
                failed_after = "" if failed(first) else tool
            else:
                failed_after = ""
            addresses = [one.name for one in self._facts.secrets if is_address(one)]
            found.append(
                run_finding(
                    first,
                    requests,
                    made_up=made_up,
                    failed_after=failed_after,
                    addresses=addresses,
                    once=self._once,
                )
            )
            if found[0].state != "verified":
                return found
            found.append(trace_finding(first))
            found.append(duplicates_finding(first, requests))
            found += self._prompts(model, tree, first, requests)
            found.append(self._effects(first))
            if tests:
                found += self._tests(tree)
        return found

    def _agent_section(self) -> dict[str, Any]:
        return dict(self._settings().get("agent", {}))

    def _settings(self) -> dict[str, Any]:
        return _settings_of(self._root / self._record.project)

    def _program(
        self,
        model: SimulatedModel,
        tree: TreeCopy,
        scratch: Path,
        agent: Mapping[str, Any],
        app: ServiceApp | None,
        *,
        tests: bool,
    ) -> list[CheckFinding]:
        """The findings of a service or a command: called as it is, as it was, and with marks."""
        record = self._record
        given = first_input(tree.folder / record.project)
        known: dict[str, Any] = {
            "facts": self._facts,
            "project": record.project,
            "python": self._python,
            "model": model,
            "given": given,
            "variables": self._variables,
        }
        program: ServiceCheck | CommandCheck
        if app is not None:
            url = str(agent["url"])
            program = ServiceCheck(
                tree.folder, scratch, entry=record.entry, url=url, app=app, **known
            )
            first = program.call()
            found = [service.agent_finding(record.entry, first, self._once)]
        else:
            program = CommandCheck(tree.folder, scratch, agent=agent, **known)
            first = program.call()
            line = str(agent["command"])
            found = [command.agent_finding(line, first, made_up=given is None, once=self._once)]
        if found[0].state != "verified":
            return found
        step = "Run a task, and see: ratchet run, then ratchet traces --rollouts"
        why = "Its spans are those of the gateway and of its own tracing, which a check has not."
        found.append(CheckFinding("trace", "not verified", why, step))
        tree.show(self._before)
        also = [app.path] if app else []
        acting = would_act(tree.folder, record, look(tree.folder), also)
        if acting:
            why = f"Without the wiring it was not run: {acting[0]} ({acting[1]}) would act there."
            step = "Read what was changed: git show ratchet/init"
            found.append(CheckFinding("same prompts", "not verified", why, step))
        else:
            found.append(same_prompts(program.call(), first))
        names = self._declared()
        if names:
            tree.show({})
            found.append(changed_prompts(names, program.call(marks(names))))
        sites = self._gateway_sites()
        if sites:
            found.append(gateway_prompts(sites, first))
        denied = f"Denied: the tool {first.blocked!r}." if first.blocked else _NONE_ACTED
        found.append(CheckFinding("side effects", "verified", denied))
        return [*found, *(self._tests(tree) if tests else [])]

    def _declared(self) -> list[str]:
        """Names of the prompts that the wiring declared in the code."""
        pieces = [piece for one in self._record.files for piece in one.pieces]
        return [name for one in pieces for name in _PROMPT.findall(one.inserted)]

    def _gateway_sites(self) -> dict[str, PromptSite]:
        """Prompts that the gateway is to replace, as the code has them now."""
        declared = {name.rpartition(".")[0] or name for name in self._declared()}
        declared |= set(self._declared())
        names = {
            (one.path, one.site): one.name
            for one in self._record.prompts
            if one.way == "gateway"
            or (one.way == "code" and one.name not in declared and not one.path.endswith(".py"))
        }
        sites = {(site.place.path, site.name): site for site in self._facts.prompts}
        return {name: sites[key] for key, name in names.items() if key in sites}

    def _python_lacks(self) -> CheckFinding | None:
        done = run_program(self._facts, [str(self._python), "-c", "import ratchet"], self._root, {})
        if isinstance(done, str) or done.returncode:
            return CheckFinding(
                "agent",
                "not verified",
                f"Ratchet is not installed for {self._python}.",
                "Install the project's requirements, then: ratchet init --check",
            )
        return None

    def _prompts(
        self,
        model: SimulatedModel,
        tree: TreeCopy,
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
        found = [self._compared(model, tree, requests)]
        marked, changed = self._marked(model, tree)
        lost = unseen(bound, changed)
        for way in range(1, 1 + _OTHER_WAYS):
            if not lost or not changed or failed(marked):
                break
            model.take_way(way)
            _, more = self._marked(model, tree)
            lost = unseen(lost, more)
        model.take_way(0)
        arrived = [name for name in bound if name not in lost]
        if failed(marked):
            why = f"With changed prompts the agent did not run: {short(marked.get('error', ''))}"
            found.append(CheckFinding("changed prompts", "not verified", why, "ratchet doctor"))
        elif not changed:
            step = "Check with a task that makes one: write it into the task file."
            found.append(
                CheckFinding("changed prompts", "not verified", "No model call was made.", step)
            )
        elif lost:
            why = (
                f"{len(arrived)} of {len(bound)} changed prompts reached the model, which took"
                f" {1 + _OTHER_WAYS} ways through one task."
            )
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

    def _marked(
        self, model: SimulatedModel, tree: TreeCopy
    ) -> tuple[dict[str, Any], list[list[str]]]:
        """One rollout with a mark in each prompt."""
        self._say("Running it with changed prompts.")
        tree.show({})
        with_a_task(tree.folder / self._record.project)
        return self._probe(model, tree, mark=MARK)

    def _compared(
        self, model: SimulatedModel, tree: TreeCopy, requests: Sequence[Sequence[str]]
    ) -> CheckFinding:
        """Whether the model is sent what it was before; tools stay denied there too."""
        self._say("Running it as it was without the wiring.")
        tree.show(self._before)
        before = tree.folder
        acting = would_act(before, self._record, look(before))
        if acting:
            why = f"Without the wiring it was not run: {acting[0]} ({acting[1]}) would act there."
            step = "Read what was changed: git show ratchet/init"
            return CheckFinding("same prompts", "not verified", why, step)
        with_a_task(before / self._record.project)
        without_prompt_files(before / self._record.project / "ratchet.toml")
        old, earlier = self._probe(model, tree)
        return same_finding(old, earlier, requests)

    def _effects(self, first: Mapping[str, Any]) -> CheckFinding:
        if first["status"] == "inconclusive":
            return CheckFinding("side effects", "verified", f"Denied: {short(first['error'])}")
        return CheckFinding("side effects", "verified", _NONE_ACTED)

    def _tests(self, tree: TreeCopy) -> list[CheckFinding]:
        own = [one for one in self._facts.tests if one.project == self._record.project]
        return [self._tested(tree, one.command) for one in own[:1]]

    def _tested(self, tree: TreeCopy, command: str) -> CheckFinding:
        """Whether tests end as they did without the wiring."""
        step = f"Run them: {command}"
        self._say(f"Running the project's tests without the wiring and with it: {command}")
        tree.show(dict(undone_of(self._root, self._record, force=True).contents))
        before = self._test(command, tree)
        if isinstance(before, str):
            return CheckFinding("tests", "not verified", before, step)
        if before.returncode and (lacking := needed_package(before.stderr + before.stdout)):
            return CheckFinding("tests", "not verified", lacking, step)
        tree.show({})
        now = self._test(command, tree)
        if isinstance(now, str):
            return CheckFinding("tests", "not verified", now, step)
        old, new = before.returncode, now.returncode
        if old != new:
            why = f"`{command}` ended with {old} before, and ends with {new} now."
            return CheckFinding("tests", "failed", why, "ratchet init --undo")
        if new:
            return CheckFinding("tests", "verified", f"`{command}`: they end with {new} as before.")
        why = f"`{command}`: they pass as before."
        untested = "test" not in self._settings().get("ship", {})
        proposed = json.dumps(test_of_releases(command))
        take = f"Let no branch be made without them: test = {proposed} under [ship]."
        return CheckFinding("tests", "verified", why, take if untested else "")

    def _test(self, command: str, tree: TreeCopy) -> subprocess.CompletedProcess[str] | str:
        words = command.split()
        if words[0] in ("python", "python3"):
            words[0] = str(self._python)
        folder = tree.folder / self._record.project
        return run_program(self._facts, words, folder, self._variables)

    def _probe(
        self, model: SimulatedModel, tree: TreeCopy, mark: str = ""
    ) -> tuple[dict[str, Any], list[list[str]]]:
        """One rollout: what the probe printed, and the texts that the model was sent."""
        model.taken()
        found = probe(
            self._facts,
            self._python,
            tree.folder / self._record.project,
            {**self._variables, **model_addresses(model.url)},
            mark,
        )
        return found, model.taken()
