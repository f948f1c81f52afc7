"""Checks an agent that is a command: runs it once for a task, as a rollout would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ratchet.run.handover import parse_command
from ratchet.wire.checking.called import Called, CheckBinding
from ratchet.wire.checking.contained import model_addresses, own_address, run_program
from ratchet.wire.checking.findings import ELSEWHERE, CheckFinding, last_error, needs, short
from ratchet.wire.checking.simulator import SimulatedModel
from ratchet.wire.checking.wired_project import QUESTION
from ratchet.wire.facts import RepositoryLook

_PYTHON = ("python", "python3")
_AGAIN = "then: ratchet init --check"


class CommandCheck:
    """One command, in a copy of its repository.

    Args:
        folder: The copy.
        scratch: A folder for what the command inherits.
        facts: What a look found.
        project: Folder of the project.
        agent: `[agent]` of ratchet.toml.
        python: The interpreter, for a command of Python.
        model: The simulator.
        given: The input of a task; None without tasks.
        variables: What else is in its environment.
    """

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        *,
        facts: RepositoryLook,
        project: str,
        agent: Mapping[str, Any],
        python: Path,
        model: SimulatedModel,
        given: Any = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._variables = variables or {}
        self._folder = folder
        self._binding = CheckBinding(scratch)
        self._facts = facts
        self._project = project
        self._agent = agent
        self._python = python
        self._model = model
        self._task = json.dumps({"input": QUESTION if given is None else given, "metadata": {}})

    def call(self, prompts: Mapping[str, str] | None = None) -> Called:
        """Run it once.

        Args:
            prompts: Texts that prompts are replaced by, by name; a program in another language
                than Python does not see them.
        """
        called = self._once(prompts or {})
        fewer = self._with_fewer_keys()
        if called.ran or needs(called.said) != ELSEWHERE or fewer == self._facts:
            return called
        # A key may choose a provider whose address is written out: without it, another is asked.
        self._facts = fewer
        return self._once(prompts or {})

    def _with_fewer_keys(self) -> RepositoryLook:
        """The facts without the keys that do not belong to the model behind the gateway."""
        named = self._agent.get("model_key", ())
        own = [named] if isinstance(named, str) else named
        kept = tuple(one for one in self._facts.secrets if one.kind == "file" or one.name in own)
        return msgspec.structs.replace(self._facts, secrets=kept)

    def _once(self, prompts: Mapping[str, str]) -> Called:
        self._binding.write(prompts)
        self._model.taken()
        words = list(parse_command(str(self._agent["command"])))
        words[0] = str(self._python) if words[0] in _PYTHON else words[0]
        url = self._model.url
        named = self._agent.get("model_base_url", ())
        own = [named] if isinstance(named, str) else named
        variables = {
            **self._variables,
            **model_addresses(url),
            **{name: own_address(name, url) for name in own},
            **self._binding.variables,
        }
        folder = self._folder / self._project
        done = run_program(self._facts, words, folder, variables, given=self._task)
        requests, denied = self._model.taken(), self._binding.denied()
        if isinstance(done, str):
            return Called(False, done, requests, denied)
        log = done.stderr or done.stdout
        said = done.stdout if not done.returncode else f"{last_error(log)} {log[-100_000:]}"
        return Called(not done.returncode, said, requests, denied)


def is_python(agent: Mapping[str, Any]) -> bool:
    """Whether a command is one of Python."""
    return parse_command(str(agent["command"]))[0] in _PYTHON


def agent_finding(command: str, call: Called, *, made_up: bool, once: str) -> CheckFinding:
    """Whether a command ran, and asked the model."""
    task = "a made-up question, since there are no tasks" if made_up else "one task"
    asked = f"the simulated model was asked {len(call.requests)} times"
    if call.blocked:
        why = f"`{command}` ran until the denied tool {call.blocked!r}; {asked}."
        return CheckFinding("agent", "verified", why)
    if call.ran and call.requests:
        return CheckFinding("agent", "verified", f"`{command}` ran {task}; {asked}.")
    if call.ran:
        why = f"`{command}` ran {task}, and asked no model: {short(call.said, 160)}"
        step = "Name the variable that its model's address is read from: [agent] model_base_url."
        return CheckFinding("agent", "not verified", why, step)
    lacking = needs(call.said)
    if lacking:
        step = f"Provide it, {_AGAIN} ({short(call.said, 160)})"
        return CheckFinding("agent", "not verified", lacking, step)
    why = f"`{command}` did not run: {short(call.said)}"
    return CheckFinding("agent", "failed", why, f"Run it yourself: {once}")
