"""Routes of the API, one module per noun."""

from ratchet.server.api import (
    agents,
    aliases,
    candidates,
    conversations,
    cycles,
    datasets,
    events,
    experiments,
    feedback,
    fleet,
    health,
    keys,
    labels,
    recordings,
    releases,
    resources,
    rollouts,
    scores,
    spans,
    traces,
    traffic,
    transitions,
)

GROUPS = (
    rollouts.group,
    fleet.group,
    resources.group,
    candidates.group,
    agents.group,
    traffic.group,
    cycles.group,
    datasets.group,
    spans.group,
    transitions.group,
    traces.group,
    recordings.group,
    conversations.group,
    scores.group,
    feedback.group,
    labels.group,
    experiments.group,
    releases.group,
    events.group,
    keys.group,
    health.group,
    aliases.group,
)
"""Order of the groups in the OpenAPI description."""

__all__ = ["GROUPS"]
