"""Finds the models that an agent calls, by running it on a few tasks."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ratchet.autopilot.discovery_run import run_unchanged
from ratchet.autopilot.failed_rollout import require_success
from ratchet.autopilot.project import Project
from ratchet.autopilot.runner import Say
from ratchet.run.program import AnyAgent
from ratchet.store import Store
from ratchet.types import AgentError, Dataset, InputError, Span, content_hash
from ratchet.types.wording import counted

MAX_TASKS_RUN = 3


async def asked_models(
    project: Project, store: Store, agent: AnyAgent, dataset: Dataset, say: Say
) -> Counter[str]:
    """Number of calls to each model over a few train tasks, without embeddings.

    Args:
        project: The project.
        store: Its store.
        agent: The agent.
        dataset: The tasks.
        say: Called with a sentence before rollouts are spent.

    Raises:
        AgentError: The agent fails on all of these tasks, or calls no model through the gateway.
    """
    tasks = dataset.split("train")[:MAX_TASKS_RUN]
    say(f"Running the agent on {counted(len(tasks), 'train task')}, to see which models it calls…")
    # Each time anew: the model may be named by a variable, so the same source may name another.
    identity = content_hash(["models", agent.spec.entry, agent.source_version(), time.time()])
    ended = await run_unchanged(
        project, store, agent, tasks, queue=identity, scope=[identity], say=say
    )
    models: Counter[str] = Counter()
    for rollout in ended:
        models.update(filter(None, map(_asked_model, store.spans.of(rollout.id))))
    if models:
        return models
    require_success(ended, store)
    raise AgentError(
        f"The agent made no model call through the gateway on {counted(len(ended), 'task')}.",
        hint="Name the variable that holds its base URL, or its model's host: model_base_url or"
        " model_hosts under [agent]. A model that the agent asks for in another way can be declared"
        ' in its source: ratchet.model("answers", "NAME").',
    )


def only_model(models: Counter[str]) -> str:
    """The model that all calls use.

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
    """The model named in a call's request; empty for other spans."""
    attributes: dict[str, Any] = span.attributes
    if attributes.get("gen_ai.operation.name") == "embeddings":
        return ""
    model = attributes.get("ratchet.asked_model") or attributes.get("gen_ai.request.model")
    return model if isinstance(model, str) else ""
