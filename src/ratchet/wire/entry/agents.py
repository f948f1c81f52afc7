"""Runs an agent that a module makes, with one message."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.site import Site
from ratchet.wire.entry.transplant import Transplant


class _Run(NamedTuple):
    """How a framework runs an agent with one message."""

    lines: tuple[str, ...]
    """With AGENT for the agent."""
    imports: tuple[str, ...] = ()
    asynchronous: bool = True


_RUNS = {
    "google-adk": _Run(
        (
            "runner = InMemoryRunner(agent=AGENT)",
            'owner = {"app_name": runner.app_name, "user_id": "task"}',
            "session = runner.session_service.create_session(**owner)",
            "if inspect.isawaitable(session):",
            "    session = await session",
            'said = types.Content(role="user", parts=[types.Part(text=message)])',
            'answer = ""',
            "async for event in runner.run_async(",
            '    user_id="task", session_id=session.id, new_message=said',
            "):",
            "    if event.is_final_response() and event.content:",
            '        answer = "".join(part.text or "" for part in event.content.parts or ())',
            "return answer",
        ),
        (
            "import inspect",
            "from google.adk.runners import InMemoryRunner",
            "from google.genai import types",
        ),
    ),
    "openai-agents": _Run(
        ("result = await Runner.run(AGENT, message)", "return result.final_output"),
        ("from agents import Runner",),
    ),
    "pydantic-ai": _Run(("result = await AGENT.run(message)", "return result.output")),
    "llama-index": _Run(("return str(await AGENT.run(user_msg=message))",)),
    "smolagents": _Run(("return AGENT.run(message)",), asynchronous=False),
    "agno": _Run(("result = await AGENT.arun(message)", "return result.content")),
    "strands": _Run(("return str(AGENT(message))",), asynchronous=False),
}
_ASK = _Run(("reply = await AGENT.ask(message)", 'return reply.body or ""'))
_CHAT = _Run(("result = await AGENT.run(task=message)", "return result.messages[-1].to_text()"))
_AG2 = _Run(
    (
        'reply = await AGENT.a_generate_reply(messages=[{"role": "user", "content": message}])',
        'return reply.get("content") or "" if isinstance(reply, dict) else reply or ""',
    )
)


def call_agent(site: Site) -> AgentAdapter:
    """An adapter that runs the agent with the task's message, in a session of its own.

    Raises:
        CannotCall: How the framework runs an agent is not known, or the agent needs more than a
            message.
    """
    name = site.entry.name
    made = _construction(site)
    run = _RUNS.get(site.framework)
    if site.framework == "autogen":
        run = _AG2
        if _imports(site, "autogen_agentchat"):
            run = _CHAT
        elif _imports(site, "autogen.beta") or _imports(site, "ag2"):
            run = _ASK
    if run is None:
        raise CannotCall(f"how {site.framework} runs {name} with one message is not known")
    if made is not None and any(one.arg == "deps_type" for one in made.keywords):
        raise CannotCall(f"{name} needs dependencies that only the program has")
    needs = Transplant(site.modules, site.file, None)
    needs.name(name)
    return AgentAdapter(
        name=site.function_name({name, *(one.rpartition(" ")[2] for one in run.imports)}),
        parameters=("message: str",),
        returns="Any"
        if site.framework in ("openai-agents", "pydantic-ai", "smolagents")
        else "str",
        assumes=f"Runs {name} of {site.file.path} with one message, in a session of its own. The"
        " output is its last answer.",
        body=tuple(line.replace("AGENT", name) for line in run.lines),
        imports=(*needs.imports, *run.imports),
        asynchronous=run.asynchronous,
        used=tuple(needs.used) or (site.file.path,),
    )


def _construction(site: Site) -> ast.Call | None:
    for one in site.file.tree.body:
        target = one.targets[0] if isinstance(one, ast.Assign) else None
        target = one.target if isinstance(one, ast.AnnAssign) else target
        if isinstance(target, ast.Name) and target.id == site.entry.name:
            value = getattr(one, "value", None)
            return value if isinstance(value, ast.Call) else None
    return None


def _imports(site: Site, module: str) -> bool:
    return any(
        isinstance(one, ast.ImportFrom) and f"{one.module or ''}.".startswith(f"{module}.")
        for one in ast.walk(site.file.tree)
    )
