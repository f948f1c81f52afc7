"""`ratchet.toml` and the task file of a wiring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ratchet.types import PromptFile
from ratchet.wire.deriving.allowed import OutsideAct
from ratchet.wire.deriving.derive import Wiring
from ratchet.wire.deriving.starters import Starters
from ratchet.wire.project_files.toml_text import toml_text

TASKS_FILE = "tasks.jsonl"

_HEAD = (
    "# How Ratchet runs, scores and improves this agent. Written by: ratchet init {arguments}\n\n"
)
_SHOWN = ("hosts", "programs", "folders")
"""Keys of [agent.allow] that are written even without a value, to be filled in."""
_COMMENTS = {
    "agent": "What a rollout runs; {input} stands for the task's input.",
    "agent.prompts": "The source declares no prompts: they are found in the model calls.",
    "agent.model_hosts": "Hosts that the agent's model calls go to directly.",
    "agent.restart": "The service remembers earlier requests: each rollout starts it anew.",
    "agent.arguments": "The value of each parameter.",
    "agent.construct": "Arguments of the class's constructor.",
    "agent.allow": "What rollouts may do outside their own copy of the project.",
    "prompt_files": "Files whose texts are prompts.",
    "run.timeout_s": "Time limit of a rollout, and of a service's start, in seconds.",
    "run.import_per_candidate": "The agent reads its prompts while it is imported.",
    "evaluators": "The evaluator that scores an answer; to list others: ratchet evaluators list "
    "--built-in",
}


def settings_text(
    wiring: Wiring,
    acts: Sequence[OutsideAct],
    starters: Starters,
    *,
    arguments: str,
    python: str = "",
    prompt_files: Sequence[PromptFile] = (),
    import_per_candidate: bool = False,
    timeout_s: float | None = None,
) -> str:
    """The content of `ratchet.toml`.

    Args:
        wiring: How the agent runs.
        acts: What the recorded run did outside; those allowed are written.
        starters: The tasks to begin with.
        arguments: Those of `ratchet init`, for the comment at the top.
        python: Interpreter of the agent, where it is not found by itself.
        prompt_files: Files whose texts are declared as prompts.
        import_per_candidate: Whether a declared text is read while its module is imported.
        timeout_s: Seconds that a rollout may take; None for as many as without the key.
    """
    agent: dict[str, Any] = dict(wiring.agent)
    if python and wiring.mode == "entry":
        agent["python"] = python
    allow = {
        key: [act.subject for act in acts if act.allow and act.key == key]
        for key in ("hosts", "programs", "folders")
    }
    allow["absent"] = list(wiring.absent)
    if wiring.mode == "entry" and "prompts" not in agent:
        # With declared prompts no gateway is between the agent and its model.
        hosts = agent.pop("model_hosts", ())
        allow["hosts"] += [host if ":" in host else f"{host}:443" for host in hosts]
    agent["allow"] = {key: subjects for key, subjects in allow.items() if subjects or key in _SHOWN}
    tables: dict[str, Any] = {"agent": agent}
    if prompt_files:
        tables["prompt_files"] = [_prompt_file(file) for file in prompt_files]
    run: dict[str, Any] = {}
    if timeout_s is not None:
        run["timeout_s"] = timeout_s
    if import_per_candidate or prompt_files:
        run["import_per_candidate"] = True
    if run:
        tables["run"] = run
    if starters.evaluator:
        tables["evaluators"] = [{"use": starters.evaluator}]
    return _HEAD.format(arguments=arguments) + toml_text(tables, _COMMENTS)


def _prompt_file(file: PromptFile) -> dict[str, Any]:
    table: dict[str, Any] = {"path": file.path}
    if file.name:
        table["name"] = file.name
    if file.fields:
        table["fields"] = list(file.fields)
    return table


def tasks_text(starters: Starters) -> str:
    """The content of the task file: one JSON object per line."""
    lines = (json.dumps(task, ensure_ascii=False) for task in starters.tasks)
    return "".join(f"{line}\n" for line in lines)
