"""Host: describes the agent to the tool and runs the user's evaluators, in the agent's interpreter.

`python -m ratchet.worker.host DESCRIPTOR`; the descriptor is a socket to the tool.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any

import msgspec

from ratchet.types import AgentError, ConfigError, InputError, RatchetError
from ratchet.worker.agent import Agent, load_agent
from ratchet.worker.evaluator import FunctionEvaluator, is_outage
from ratchet.worker.host_messages import (
    HEADER,
    AgentDescription,
    AgentVersion,
    CheckInput,
    DescribeAgent,
    DescribeEvaluator,
    EvaluatorDescription,
    HostRefusal,
    HostReply,
    HostRequest,
    Judged,
    JudgeRollout,
    NotJudged,
    Reply,
    Request,
    Text,
    decode_request,
    frame,
)
from ratchet.worker.messages import OTHER_BUILD
from ratchet.worker.own_evaluator import own_evaluator


class Host:
    """Answers the tool's requests about one agent and its evaluators."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._evaluators: dict[tuple[str, str], FunctionEvaluator] = {}

    async def reply(self, request: Request) -> Reply:
        """The reply to a request; an exception from the user's code is also a reply."""
        try:
            return await self._reply(request)
        except RatchetError as error:
            if isinstance(error, ConfigError):
                return HostRefusal("ConfigError", error.message, error.hint)
            if isinstance(error, InputError):
                return HostRefusal("InputError", error.message, error.hint)
            return HostRefusal("AgentError", error.message, error.hint)
        except Exception as error:
            message = f"The agent's interpreter cannot answer: {type(error).__name__}: {error}."
            return HostRefusal("AgentError", message, None)

    async def _reply(self, request: Request) -> Reply:
        match request:
            case DescribeAgent(spec):
                os.environ.update(spec.variables)
                self._agent = load_agent(spec)
                return _described(self._agent)
            case AgentVersion():
                return Text(self._loaded().source_version())
            case CheckInput(value):
                try:
                    self._loaded().check_input(value)
                except InputError as error:
                    return Text(str(error))
                return Text("")
            case DescribeEvaluator(use, options):
                return _of_evaluator(self._evaluator(use, options))
            case JudgeRollout(use, options, rollout, spans):
                evaluator = self._evaluator(use, options)
                try:
                    return Judged(await evaluator.verdict(rollout, lambda _: spans))
                except Exception as error:
                    return NotJudged(type(error).__name__, _said(error), is_outage(error))

    def _evaluator(self, use: str, options: dict[str, Any]) -> FunctionEvaluator:
        key = (use, json.dumps(options, sort_keys=True))
        if key not in self._evaluators:
            self._evaluators[key] = own_evaluator(use, options)
        return self._evaluators[key]

    def _loaded(self) -> Agent:
        if self._agent is None:
            raise AgentError("No agent is loaded.")
        return self._agent


def _described(agent: Agent) -> AgentDescription:
    return AgentDescription(
        kind=agent.kind,
        is_async=agent.is_async,
        declarations=agent.declarations,
        optional=agent.optional,
        docstring=agent.docstring,
        loaded_version=agent.loaded_version(),
        misfits=agent.misfits(),
    )


def _of_evaluator(evaluator: FunctionEvaluator) -> EvaluatorDescription:
    return EvaluatorDescription(
        name=evaluator.name,
        unit=evaluator.unit,
        version=evaluator.version,
        asks_for=evaluator.asks_for,
        needs_expected=evaluator.needs_expected,
        basis=evaluator.basis,
        on_error=evaluator.on_error,
        timeout_s=evaluator.timeout_s,
    )


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # a user's exception whose __str__ fails
        return ""


async def serve(connection: socket.socket) -> None:
    """Answer requests until the tool disconnects."""
    host = Host()
    reader, writer = await asyncio.open_connection(sock=connection)
    answering: set[asyncio.Task[None]] = set()

    async def answer(request: HostRequest) -> None:
        reply = await host.reply(request.request)
        try:
            framed = frame(HostReply(request.number, reply))
        except (TypeError, ValueError, RecursionError) as error:  # a value that is no JSON
            message = f"The reply of the agent's interpreter is not JSON: {error}."
            framed = frame(HostReply(request.number, HostRefusal("AgentError", message, None)))
        writer.write(framed)
        await writer.drain()

    while True:
        try:
            size = HEADER.unpack(await reader.readexactly(HEADER.size))[0]
            request = decode_request(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return
        except msgspec.DecodeError:
            sys.exit(OTHER_BUILD)
        task = asyncio.create_task(answer(request))
        answering.add(task)
        task.add_done_callback(answering.discard)


def main(descriptor: int) -> None:
    """Serve the tool at the other end of a socket until it disconnects."""
    os.set_inheritable(descriptor, False)
    asyncio.run(serve(socket.socket(fileno=descriptor)))
    os._exit(0)  # threads of the user's code that do not end must not keep this process alive


if __name__ == "__main__":
    main(int(sys.argv[1]))
