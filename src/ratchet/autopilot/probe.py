"""Runs one task of a project once, and prints what happened as JSON: for checks of a wiring.

    python -m ratchet.autopilot.probe FOLDER [--mark TEXT] [--python PATH]

With a mark, every prompt gets it at its end, followed by a digest of the prompt's name: whether a
changed text reaches the model is then seen there. The agent runs with the interpreter at PATH.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.config import read_config
from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import open_runner
from ratchet.curate import read_tasks
from ratchet.observe.project_paths import FILE_NAME
from ratchet.run.program import ProgramAgent
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    PromptTemplate,
    RatchetError,
    Resource,
    Rollout,
    Span,
    Task,
    defaults,
)
from ratchet.types.trace import CALLS

QUEUE = "probe"
_CALLS = CALLS - {"embeddings"}
"""Operations of model calls that texts are sent in. A step beside one may name its model too."""
SHOWN = 300
"""Characters of an output that are printed."""


def main(arguments: list[str] | None = None) -> int:
    """Run the probe; the exit code is 1 when it could not run at all."""
    parser = argparse.ArgumentParser(prog="python -m ratchet.autopilot.probe")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mark", default="")
    parser.add_argument("--python")
    given = parser.parse_args(arguments)
    try:
        with redirect_stdout(sys.stderr):  # the agent may print while it is imported
            found = asyncio.run(_probe(given.folder.resolve(), given.mark, given.python))
    except RatchetError as error:
        print(json.dumps({"error": error.message, "hint": error.hint or ""}))
        return 1
    print(json.dumps(found))
    return 0


async def _probe(folder: Path, mark: str, python: str | None) -> dict[str, Any]:
    config = read_config(folder / FILE_NAME)
    if python is not None and config.agent.entry is not None:
        section = config.agent.model_copy(update={"python": python})
        config = config.model_copy(update={"agent": section})
    project = Project(folder, config)
    agent = project.load_agent()
    declared = defaults(agent.declarations)
    resources = {name: _marked(name, one, mark) for name, one in declared.items()}
    candidate = Candidate.of(resources, reason="A check of the wiring.")
    with Store.open(project.store_url) as store:
        tasks = _tasks(project)
        if not tasks:
            raise RatchetError("There is no task to run.", hint="Write one into the task file.")
        store.candidates.put(candidate, time.time())
        rollout = Rollout.of(
            tasks[0],
            candidate.id,
            scope=[time.time_ns()],
            seed_parts=[0],
            queue=QUEUE,
            purpose="check",
            max_attempts=1,
        )
        async with open_runner(project, store, agent, QUEUE, _say, take_over=True) as runner:
            ended = (await runner.run([rollout], [candidate]))[rollout.id]
        spans = store.spans.of(rollout.id)
    calls = {
        one.span_id: one for one in spans if one.attributes.get("gen_ai.operation.name") in _CALLS
    }
    parents = {one.span_id: one.parent_id for one in spans}
    output = msgspec.json.encode(ended.output).decode() if ended.output is not None else ""
    return {
        "status": ended.status,
        "error": ended.error,
        "output": output[:SHOWN],
        "prompts": {
            name: one.text for name, one in declared.items() if isinstance(one, PromptTemplate)
        },
        "traces": len({one.trace_id for one in spans}),
        "spans": len(spans),
        "roots": sum(one.parent_id is None for one in spans),
        "unfit": [] if isinstance(agent, ProgramAgent) else agent.misfits(),
        # A framework may wrap a call in a span of its own: the outermost counts.
        "model_calls": sum(not _is_within(one, calls, parents) for one in calls),
    }


def _is_within(span: str, calls: Mapping[str, Span], parents: Mapping[str, str | None]) -> bool:
    """Whether a span has one of these around it."""
    above, seen = parents.get(span), {span}
    while above is not None and above not in seen:
        if above in calls:
            return True
        seen.add(above)
        above = parents.get(above)
    return False


def _tasks(project: Project) -> tuple[Task, ...]:
    """All tasks, however few; splits do not matter here."""
    tasks = project.config.tasks
    if tasks.dataset is not None:
        return project.dataset(needs=())[0].tasks
    fields = {"id": tasks.id, "input": tasks.input, "expected": tasks.expected}
    return tuple(read_tasks(project.root / tasks.file, fields=fields, skip_bad=True).tasks)


def _marked(name: str, resource: Resource, mark: str) -> Resource:
    if not mark or not isinstance(resource, PromptTemplate):
        return resource
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    text = resource.text.rstrip()  # a field of YAML may end with a line break
    return msgspec.structs.replace(
        resource, text=f"{text} {mark}-{digest}{resource.text[len(text) :]}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
