"""Finds the agents that a request concerns, for keys that are limited to one agent.

A route says how its agents are found, in what is asked or in what it answers, or that it concerns
none. A limited key opens no other route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import msgspec

from ratchet.observe.agent_names import agent_name
from ratchet.server.http_problems import HttpProblem

if TYPE_CHECKING:
    from ratchet.server.access import Caller
    from ratchet.server.services import Services

Given: TypeAlias = Mapping[str, Any]
"""A handler's arguments by name: the path's values, `query`, `body`."""


class Concerns(msgspec.Struct, frozen=True, kw_only=True):
    """How to find the agents that a request concerns; with neither way, it concerns none."""

    asked: Callable[[Services, Given], Awaitable[Iterable[str] | None]] | None = None
    """Finds their names before the handler is called; None if it may be any."""
    answered: Callable[[Any], Iterable[str]] | None = None
    """Finds their names in what the handler of a GET returned."""


NO_AGENT = Concerns()
"""Of routes that read and change nothing of an agent, or only what has the requested hash: whoever
knows that hash got it with something that concerns their agent."""


def of_request(names: Callable[[Any], Iterable[str | None]]) -> Concerns:
    """The agents named in a body or a query; if the name is left out, any."""

    async def asked(_: Services, arguments: Given) -> Iterable[str] | None:
        agents = list(names(arguments.get("body", arguments.get("query"))))
        stated = [name for name in agents if name is not None]
        return stated if len(stated) == len(agents) else None

    return Concerns(asked=asked)


async def _by_name(_: Services, arguments: Given) -> Iterable[str]:
    return [arguments["name"]]


BY_NAME = Concerns(asked=_by_name)
"""The agent whose name is in the path."""

BY_QUERY = of_request(lambda query: [query.agent])
"""The agent that the query names."""

BY_QUEUE = of_request(lambda query: [query.queue and agent_of_queue(query.queue)])
"""The agent of the queue that the query names."""


def of_rollouts(ids: Callable[[Given], Iterable[str]]) -> Concerns:
    """The agents of rollouts, by their queues; unknown ids belong to no agent."""

    async def asked(server: Services, arguments: Given) -> Iterable[str]:
        return await _owners(server, rollouts=list(ids(arguments)))

    return Concerns(asked=asked)


BY_ID = of_rollouts(lambda arguments: [arguments["id"]])
"""The agent of the rollout whose id is in the path."""

BY_IDS = of_rollouts(lambda arguments: arguments["body"].ids)
"""The agents of the rollouts that the body names."""

BY_ATTEMPTS = of_rollouts(lambda arguments: [id for id, _ in arguments["body"].attempts])
"""The agents of the attempts that the body names."""


async def _by_trace(server: Services, arguments: Given) -> Iterable[str] | None:
    # What is unknown may be the beginning of an id, and so any.
    return await _owners(server, traces=[arguments["id"]]) or None


BY_TRACE = Concerns(asked=_by_trace)
"""The agents of the trace whose whole id is in the path."""


async def _by_conversation(server: Services, arguments: Given) -> Iterable[str] | None:
    id = arguments["id"]
    return await _owners(server, conversations=[id, unquote(id)]) or None


BY_CONVERSATION = Concerns(asked=_by_conversation)
"""The agents of the conversation whose id is in the path."""


async def _by_trace_or_agent(server: Services, arguments: Given) -> Iterable[str] | None:
    query = arguments["query"]
    if query.trace_id is None:
        return None if query.agent is None else [query.agent]
    return await _owners(server, traces=[query.trace_id])


BY_TRACE_OR_AGENT = Concerns(asked=_by_trace_or_agent)
"""The agents of the trace that the query names, or the agent that it names."""


async def _by_subjects(server: Services, arguments: Given) -> Iterable[str]:
    items = arguments["body"].feedback
    return await _owners(
        server,
        rollouts=[feedback.rollout_id for feedback in items if feedback.rollout_id],
        traces=[feedback.trace_id for feedback in items if feedback.trace_id],
        conversations=[feedback.conversation_id for feedback in items if feedback.conversation_id],
    )


BY_SUBJECTS = Concerns(asked=_by_subjects)
"""The agents of what feedback is about; unknown ids belong to no agent."""


async def _owners(
    server: Services,
    *,
    rollouts: Sequence[str] = (),
    traces: Sequence[str] = (),
    conversations: Sequence[str] = (),
) -> set[str]:
    owners = server.store.owners

    def read() -> set[str]:
        agents = set(map(agent_of_queue, owners.of_rollouts(rollouts)) if rollouts else ())
        for id in set(traces):
            agents.update(map(agent_of_queue, owners.of_trace(id)))
        for id in set(conversations):
            agents.update(map(agent_of_queue, owners.of_conversation(id)))
        return agents

    return await server.in_thread(read)


def of_answer(names: Callable[[Any], Iterable[str]]) -> Concerns:
    """The agents that an answer is about."""
    return Concerns(answered=names)


def agent_of_queue(queue: str) -> str:
    """The agent whose rollouts are in a queue: its name up to the first slash or `@`."""
    return unquote(queue.partition("/")[0].partition("@")[0])


async def check_asked(
    caller: Caller, concerns: Concerns | None, server: Services, arguments: Given
) -> None:
    """Check that a request concerns only the agent that the caller's key is limited to.

    Raises:
        HttpProblem: It does, or may (403).
    """
    if not caller.agent:
        return
    if concerns is None:
        raise HttpProblem(
            403,
            f"This key is limited to the agent {caller.agent!r}, but this route concerns more "
            "than one agent.",
            hint="Use a key that was created without --agent.",
        )
    if concerns.asked is not None:
        check_agents(caller, await concerns.asked(server, arguments))


def check_answered(caller: Caller, concerns: Concerns | None, answer: Any) -> None:
    """Check the same for an answer.

    Raises:
        HttpProblem: It is about another agent (403).
    """
    if caller.agent and concerns is not None and concerns.answered is not None:
        check_agents(caller, concerns.answered(answer))


def check_agents(caller: Caller, names: Iterable[str] | None) -> None:
    """Check that a caller's key may be used for these agents.

    Args:
        caller: The caller.
        names: The agents; None if they may be any.

    Raises:
        HttpProblem: It may not (403).
    """
    if not caller.agent:
        return
    if names is None:
        raise HttpProblem(
            403,
            f"This key is limited to the agent {caller.agent!r}, but the request names no agent.",
            hint="Name that agent in the request.",
        )
    for name in names:
        if not opens(caller, name):
            raise HttpProblem(
                403,
                f"This key is limited to the agent {caller.agent!r}, and gives no access to"
                f" {name[:100]!r}.",
                hint="Use a key for that agent: ratchet keys create NAME --scope … --agent AGENT",
            )


def opens(caller: Caller, agent: str) -> bool:
    """Whether a caller's key may be used for an agent; names are compared as they are stored."""
    return not caller.agent or agent_name(agent, "") == agent_name(caller.agent, "")
