"""Finds the models that an agent's calls name, by running it on a few tasks."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ratchet.autopilot.failed_rollout import failure_of
from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import Say, open_runner
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import AgentError, Candidate, Dataset, InputError, Rollout, Span, content_hash
from ratchet.types.wording import counted

TASKS = 3
"""Most tasks that the agent is run on."""


async def asked_models(
    project: Project, store: Store, agent: AnyAgent, dataset: Dataset, say: Say
) -> Counter[str]:
    """Number of calls by the model that they name, over a few train tasks; embeddings left out.

    Args:
        project: The project; it has [[agent.models]], so that the calls go through the gateway.
        store: Its store.
        agent: The agent.
        dataset: The tasks.
        say: Called with a sentence before rollouts are spent.

    Raises:
        AgentError: The agent fails on all of these tasks, or calls no model through the gateway.
    """
    tasks = dataset.split("train")[:TASKS]
    say(f"Running the agent on {counted(len(tasks), 'train task')}, to see its model…")
    identity = content_hash(["models", agent.spec.entry, agent.source_version(), time.time()])
    unchanged = Candidate.of({}, reason="The agent as it is, before its models are known.")
    store.candidates.put(unchanged, time.time())
    rollouts = [
        Rollout.of(
            task,
            unchanged.id,
            scope=[identity],
            seed_parts=[0],
            queue=identity,
            purpose="discover",
            max_attempts=project.config.run.attempts,
        )
        for task in tasks
    ]
    async with open_runner(project, store, agent, identity, say, take_over=True) as runner:
        ended = (await runner.run(rollouts, [unchanged])).values()
    models: Counter[str] = Counter()
    for rollout in ended:
        models.update(filter(None, map(_asked_model, store.spans.of(rollout.id))))
    if models:
        return models
    failed = [rollout for rollout in ended if rollout.status != "succeeded"]
    if len(failed) == len(rollouts):
        raise AgentError(
            f"The agent failed on all {counted(len(failed), 'task')}. The first"
            f" ({failed[0].task_id}): {failure_of(failed[0], store)}",
            hint="Run one by hand: ratchet run.",
        )
    raise AgentError(
        f"The agent made no model call through the gateway on {counted(len(rollouts), 'task')}.",
        hint="Name the variable that holds its base URL, or its model's host: model_base_url or"
        " model_hosts under [agent]. A model that the agent asks for in another way can be declared"
        ' in its source: ratchet.model("answers", "NAME").',
    )


def only_model(models: Counter[str]) -> str:
    """The model that all calls name.

    Raises:
        InputError: They name several.
    """
    if len(models) > 1:
        listed = ", ".join(
            f"{name} ({counted(count, 'call')})" for name, count in models.most_common()
        )
        raise InputError(
            f"The agent uses several models: {listed}.",
            hint="Name the one to move from: --from MODEL.",
        )
    return next(iter(models))


def _asked_model(span: Span) -> str:
    """The model that a call's request names; empty for other spans."""
    attributes: dict[str, Any] = span.attributes
    if attributes.get("gen_ai.operation.name") == "embeddings":
        return ""
    model = attributes.get("ratchet.asked_model") or attributes.get("gen_ai.request.model")
    return model if isinstance(model, str) else ""
