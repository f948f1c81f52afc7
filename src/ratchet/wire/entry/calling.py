"""How an entry is called: the ways of its framework, tried one after another."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.agents import call_agent
from ratchet.wire.entry.conversations import call_autogen, call_chatkit
from ratchet.wire.entry.functions import call_function
from ratchet.wire.entry.graphs import call_graph
from ratchet.wire.entry.pages import SERVED, call_page
from ratchet.wire.entry.programs import call_behind, call_program
from ratchet.wire.entry.python_file import Function
from ratchet.wire.entry.run_calls import call_run
from ratchet.wire.entry.site import Site
from ratchet.wire.entry.turns import call_turn
from ratchet.wire.entry.workflows import call_workflow

Way = Callable[[Site], AgentAdapter]


def adapter_of(site: Site, *, depth: int = 3) -> AgentAdapter:
    """The adapter of an entry.

    Raises:
        CannotCall: No way fits; the message says why the first and the last did not.
    """
    problems: list[str] = []
    if depth and site.entry.call.startswith(SERVED):
        try:
            return call_behind(site, lambda one: adapter_of(one, depth=depth - 1))
        except CannotCall:
            pass  # without a function behind it, the page is used itself
    for way in _ways(site):
        try:
            return way(site)
        except CannotCall as error:
            problems.append(str(error))
    if depth and not isinstance(site.node, ast.ClassDef):
        try:
            return call_behind(site, lambda one: adapter_of(one, depth=depth - 1))
        except CannotCall:
            pass
    raise CannotCall("; ".join(dict.fromkeys([problems[0], problems[-1]])))


def _ways(site: Site) -> tuple[Way, ...]:
    entry = site.entry
    if entry.call.startswith(SERVED):
        return (call_page,)
    if entry.kind == "agent":
        return (call_agent,)
    if site.derives(site.owner, "ChatKitServer"):
        return (call_chatkit,)
    if site.framework == "llama-index" and (
        site.derives(site.owner, "Workflow") or entry.kind in ("script", "workflow")
    ):
        return (call_workflow, call_run, call_turn)
    if site.framework == "autogen" and isinstance(site.node, Function):
        return (call_autogen, call_function)
    if entry.kind == "graph" or _compiled(site):
        return (call_graph,)
    if isinstance(site.node, ast.ClassDef):
        return (call_program,)
    if entry.kind == "crew":
        return (call_run, call_function)
    if entry.kind in ("script", "notebook", "app", "program"):
        return (call_run, call_workflow, call_turn)
    return (call_function, call_run, call_workflow, call_turn)


def _compiled(site: Site) -> bool:
    return (
        site.framework == "langgraph"
        and isinstance(site.node, ast.ClassDef)
        and any(
            isinstance(one, ast.Attribute) and one.attr == "compile" for one in ast.walk(site.node)
        )
    )
