"""Agents that a module makes for others to run: a framework's server, command or user."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.wire.facts import EntryPoint, Place
from ratchet.wire.looking.input_sites import InputSite
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeModule,
    ImportedName,
    Invocation,
    NameUse,
    Syntax,
    last_name,
    walk_syntax,
)

AGENTS = {
    "google-adk": {"Agent", "LlmAgent", "SequentialAgent", "ParallelAgent", "LoopAgent"},
    "openai-agents": {"Agent"},
    "pydantic-ai": {"Agent", "Agent.from_file", "Agent.from_spec"},
    "autogen": {"Agent", "AssistantAgent", "ConversableAgent"},
    "llama-index": {"FunctionAgent", "ReActAgent", "AgentWorkflow", "from_tools_or_functions"},
    "smolagents": {"CodeAgent", "ToolCallingAgent"},
    "agno": {"Agent", "Team"},
    "strands": {"Agent"},
    "mastra": {"Agent"},
    "vercel-ai-sdk": {"ToolLoopAgent", "Experimental_Agent", "Agent"},
}
"""Classes whose objects run by themselves, by framework."""
_GRAPHS = {
    *("create_react_agent", "create_agent", "create_deep_agent", "create_supervisor"),
    "define_deep_agent",
}
"""Functions of LangChain and LangGraph that make a whole graph."""
_ROOT = "root_agent"
"""The name by which ADK's own commands find an agent."""
_PARTS = ("tools", "sub_agents", "handoffs", "agents", "members", "workflows")
"""What an agent works with: one that has some is likelier the outer one."""


_WORKFLOWS = {"createWorkflow"}
"""Functions of Mastra that make a workflow."""


def _workflows(names: Names, path: str) -> Iterator[EntryPoint]:
    """Workflows of Mastra at the top of a module; of those, what holds another is further out."""
    module = names.program.module(path)
    assert module is not None
    for name, bounds in module.scope.bindings.items():
        made: Syntax | ImportedName = bounds[-1].value
        steps = 0
        while isinstance(made, Invocation) and isinstance(made.function, AttributeUse):
            made, steps = made.function.base, steps + 1  # createWorkflow(…).then(…).commit()
        if not isinstance(made, Invocation) or last_name(made.function) not in _WORKFLOWS:
            continue
        if not any(one.startswith("@mastra/") for one in names.outside_names(made, module.scope)):
            continue
        place = Place(path, bounds[-1].line)
        others = names.program.users_of(name)
        held = any(
            one.path != path and any(name in _within(call) for call in one.scope.invocations)
            for one in others
            if not _registers(one)
        )
        confidence = 0.4 if held else 0.5
        reason = f"a workflow of mastra, made at {place}"
        call = f"the workflow {name}, which `mastra dev` serves"
        yield EntryPoint(name, "app", place, call, (), "", "mastra", confidence, reason)


def _registers(module: CodeModule) -> bool:
    """Whether a module makes the instance of Mastra, which holds all workflows."""
    return any(last_name(call.function) == "Mastra" for call in module.scope.invocations)


def find_agents(names: Names, sites: list[InputSite], live: frozenset[str]) -> Iterator[EntryPoint]:
    """Agents at the top of live modules, each under the name that its module gives it."""
    made = [one for one in sites if one.what.symbol in AGENTS.get(one.framework, ())]
    graphs = {id(one.invocation): one for one in sites if one.what.symbol in _GRAPHS}
    given = {name for one in made for name in _within(one.invocation)}
    bound = {id(one.invocation): one for one in made if one.scope.kind == "module"}
    for module in names.program.modules:
        if module.path not in live or module.notebook:
            continue
        if "mastra" in names.program.frameworks_of(module):
            yield from _workflows(names, module.path)
        for name, bounds in module.scope.bindings.items():
            site = bound.get(id(bounds[-1].value))
            place = Place(module.path, bounds[-1].line)
            root = name == _ROOT and isinstance(bounds[-1].value, (NameUse, Invocation))
            if root and "google-adk" in names.program.frameworks_of(module):
                reason = f"{_ROOT} is what ADK's commands run"
                yield _entry(name, place, "google-adk", 0.97, reason)
            elif (graph := graphs.get(id(bounds[-1].value))) is not None:
                reason = f"a graph of {graph.framework}, made at {place}"
                call = f"{name}.invoke(…)"
                yield EntryPoint(name, "graph", place, call, (), "", "langgraph", 0.6, reason)
            elif site is not None:
                confidence = 0.35 if name in given else 0.45
                if site.framework == "llama-index":
                    confidence += 0.1  # its programs run it at the end of a script
                if any(part in site.invocation.keywords for part in _PARTS):
                    confidence += 0.1
                reason = f"an agent of {site.framework}, made at {place}"
                yield _entry(name, place, site.framework, confidence, reason)


def _within(call: Invocation) -> set[str]:
    """Names in a call's arguments."""
    arguments = [*call.arguments, *call.keywords.values()]
    return {
        part.name for one in arguments for part in walk_syntax(one) if isinstance(part, NameUse)
    }


def _entry(name: str, place: Place, framework: str, confidence: float, reason: str) -> EntryPoint:
    return EntryPoint(
        name, "agent", place, f"the agent {name}", ("message",), "", framework, confidence, reason
    )
