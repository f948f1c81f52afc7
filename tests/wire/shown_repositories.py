"""Takes real repositories, each with its real framework, through init, check, run and improve.

`RATCHET_WIRE_REPOS=FOLDER python -m tests.wire.shown_repositories [NAME …]` does so for those of
`SHOWN` whose checkouts lie in the folder; they stay as they are. The model is the simulator of
`ratchet init --check`, which has no abilities: what is seen is that every step works, not that
anything gets better. Seconds are from the clone on, without the installation of packages. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ratchet.wire import look
from ratchet.wire.checking.contained import environment, model_addresses
from ratchet.wire.checking.simulator import SimulatedModel
from tests.frameworks.environments import CannotInstall, python_of
from tests.frameworks.table import Framework
from tests.javascript.built import built
from tests.wire.real_improve import _AUTHOR, TASKS, _exact, _git
from tests.wire.shown_table import SHOWN, Place, Shown

PATIENCE_S = 900.0


def main() -> int:
    """Take those that are asked for; 1 if a step of one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="repositories; by default all that are there")
    parser.add_argument("--logs", type=Path, help="a folder for what the commands print")
    asked = parser.parse_args()
    folder = os.environ.get("RATCHET_WIRE_REPOS")
    if not folder:
        parser.error("RATCHET_WIRE_REPOS names the folder of the checkouts.")
    unknown = set(asked.name) - {one.name for one in SHOWN}
    if unknown:
        parser.error(f"Not in the table: {', '.join(sorted(unknown))}.")
    results: dict[str, dict[str, Any]] = {}
    for one in SHOWN:
        checkout = Path(folder) / one.name
        if not checkout.is_dir() or (asked.name and one.name not in asked.name):
            continue
        results[one.name] = found = {"framework": one.framework, "answers": len(one.answers) // 2}
        with tempfile.TemporaryDirectory(prefix="ratchet-shown-") as scratch:
            try:
                _Journey(one, checkout, Path(scratch), found, asked.logs).take()
            except (_Failed, CannotInstall) as error:
                found["failed"] = str(error)
        print(one.name, json.dumps(found, indent=1, ensure_ascii=False), flush=True)
    print(json.dumps(results, ensure_ascii=False))
    return 1 if any("failed" in one for one in results.values()) else 0


class _Failed(Exception):
    """A step that did not work."""


class _Journey:
    def __init__(
        self,
        one: Shown,
        checkout: Path,
        scratch: Path,
        found: dict[str, Any],
        logs: Path | None,
    ) -> None:
        self._one = one
        self._checkout = checkout
        self._root = scratch / one.name
        self._found = found
        self._logs = logs
        self._python = python_of(
            Framework(
                one.name,
                one.name,
                (),
                packages=(*one.packages, "agent-ratchet[instruments]"),
            )
        )
        self._seconds = 0.0
        self._steps: dict[str, list[float]] = {}

    def take(self) -> None:
        """Take the repository through all steps; what is seen is put into `found`."""
        found = self._found
        started = time.monotonic()
        _git(self._root.parent, ["clone", "-q", str(self._checkout), str(self._root)])
        self._seconds += time.monotonic() - started
        if self._one.node:
            self._install_node_packages()
        facts = look(self._root)
        with ExitStack() as opened:
            model = opened.enter_context(SimulatedModel())
            variables = {**model_addresses(model.url), **_AUTHOR, "PYTHONDONTWRITEBYTECODE": ""}
            given = opened.enter_context(environment(facts, variables))
            self._environment = {k: v for k, v in given.items() if k not in self._one.unset}
            self._provides = self._provided(opened)
            self._environment |= self._provides
            self._wire()
            if self._one.node:
                self._install_our_package(self._root.parent)
            if self._check():
                model.call_no_tools()
            agent = found["check"]["agent"]
            if agent == "failed":
                raise _Failed(found["not_verified"][0])
            if agent == "verified":
                self._try_and_improve(model)
            else:
                found["stopped"] = "It needs what is not here."
        found["seconds_and_cpu_seconds"] = self._steps

    def _install_node_packages(self) -> None:
        words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(words, cwd=self._root, capture_output=True, text=True)
        if done.returncode:
            raise CannotInstall(f"not installed: {done.stderr[-400:]}")

    def _install_our_package(self, scratch: Path) -> None:
        """Install the npm package of this checkout, which the wiring added to the manifest."""
        made = scratch / "package"
        made.mkdir()
        package = built()
        try:
            pack = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(made)]
            subprocess.run(pack, cwd=package, check=True, capture_output=True)
        finally:
            shutil.rmtree(package, ignore_errors=True)
        (file,) = made.iterdir()
        words = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            [*words, str(file)], cwd=self._project, capture_output=True, text=True
        )
        if done.returncode:
            raise CannotInstall(f"not installed: {done.stderr[-400:]}")

    def _provided(self, opened: ExitStack) -> dict[str, str]:
        """What the repository needs beside its packages."""
        given: dict[str, str] = {}
        for provide in self._one.needs:
            place = Place(self._root, self._python, {**self._environment, **given})
            try:
                given |= opened.enter_context(provide(place))
            except subprocess.CalledProcessError as error:
                raise _Failed(f"what it needs: {error.stderr.decode()[-800:]}") from None
        return given

    def _wire(self) -> None:
        words = ["init", "--yes", "--no-check", "--json", *self._one.answers]
        wired = self._ratchet(self._root, *words)
        if wired.returncode:
            raise _Failed(f"init: {wired.stderr[-800:]}")
        choices = json.loads(wired.stdout)["choices"]
        self._found["entry"] = choices["entry"]["name"]
        self._found["prompts"] = len(choices["prompts"])
        self._project = next(self._root.rglob("ratchet.toml")).parent

    def _check(self) -> bool:
        """Check the wiring; whether its tools cannot take made-up arguments."""
        words = ["init", "--check", "--json", "--python", str(self._python)]
        for name in self._provides:
            words += ["--variable", name]
        checked = self._ratchet(self._root, *words)
        if not checked.stdout:
            raise _Failed(f"check: {checked.stderr[-800:]}")
        findings = json.loads(checked.stdout)["findings"]
        self._found["check"] = {each["what"]: each["state"] for each in findings}
        self._found["not_verified"] = [
            f"{each['what']}: {each['why']} Next: {each['next_step']}"
            for each in findings
            if each["state"] != "verified"
        ]
        return any("called no tools" in each["why"] for each in findings)

    def _try_and_improve(self, model: SimulatedModel) -> None:
        tasks = self._project / "tasks.jsonl"
        found = self._found
        found["tasks"] = len(tasks.read_text().splitlines()) if tasks.exists() else 0
        rows = [self._one.task(number) for number in range(TASKS)]
        tasks.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
        settings = self._project / "ratchet.toml"
        _exact(settings)
        if self._one.node:  # a command's model calls pass the gateway
            upstream = f'[upstreams.simulated]\ndialect = "openai"\nbase_url = "{model.url}/v1"\n'
            settings.write_text(f"{settings.read_text()}\n{upstream}")
        ran = self._ratchet(self._project, "run", "--split", "val", "--limit", "1")
        found["first_trace_s"] = round(self._seconds, 1)
        if "succeeded" not in ran.stdout and "inconclusive" not in ran.stdout:
            raise _Failed(f"run: {ran.stdout[-800:]} {ran.stderr[-800:]}")
        found["run"] = "succeeded" if "succeeded" in ran.stdout else "inconclusive"
        if found["run"] == "inconclusive":
            # The model called a tool that acts: no score could be told from such rollouts.
            model.call_no_tools()
        scored = self._ratchet(self._project, "eval", "--split", "val", "--json")
        found["baseline_s"] = round(self._seconds, 1)
        if scored.returncode:
            raise _Failed(f"eval: {scored.stderr[-800:]}")
        found["baseline"] = _score(json.loads(scored.stdout))
        words = ("improve", "--no-ship", "--json", "--algorithm", "few_shot", "--rollouts", "60")
        improved = self._ratchet(self._project, *words)
        if improved.returncode:
            raise _Failed(f"improve: {improved.stdout[-400:]} {improved.stderr[-800:]}")
        report = json.loads(improved.stdout)
        found["improve"] = f"{report['stage']}: {report['message']}"

    def _ratchet(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        started, busy = time.monotonic(), _worked()
        try:
            done = subprocess.run(
                [str(self._python), "-m", "ratchet", *words],
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise _Failed(f"{words[0]} did not end within {PATIENCE_S:.0f} s") from None
        took, worked = time.monotonic() - started, _worked() - busy
        self._seconds += took
        step = "check" if "--check" in words else words[0]
        self._steps[step] = [round(took, 1), round(worked, 1)]
        if self._logs is not None:
            self._logs.mkdir(parents=True, exist_ok=True)
            text = f"ratchet {' '.join(words)}\n\n{done.stdout}\n\n{done.stderr}"
            (self._logs / f"{self._one.name}-{step}.txt").write_text(text)
        return done


def _worked() -> float:
    """Seconds of processor time of all programs that have ended: a busy machine does not add."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _score(report: Any) -> str:
    """The first figure of `ratchet eval --json`: that of the evaluator which decides."""
    figure = report["candidates"][0]["evaluators"][0]
    return f"{figure['evaluator']} {figure['mean']:.2f} of {figure['n']} tasks"


if __name__ == "__main__":
    sys.exit(main())
