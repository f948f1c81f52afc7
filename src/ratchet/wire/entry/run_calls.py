"""Repeats a run of a framework as a program makes it, with the task's input for the user's."""

from __future__ import annotations

import ast

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.functions import ending_of
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes
from ratchet.wire.entry.site import Site, calls
from ratchet.wire.entry.transplant import Transplant, asks, blocks

Block = Function | ast.If | ast.Module


def call_run(site: Site) -> AgentAdapter:
    """An adapter that repeats the run in the entry.

    Raises:
        CannotCall: The entry has no run that is known, or it needs what only the program has.
    """
    problem: CannotCall | None = None
    for file, block in blocks_of(site):
        for call in calls(block):
            for read in (_crew, _agents_run, _agent_run):
                try:
                    adapter = read(site, file, block, call)
                except CannotCall as error:
                    problem = problem or error
                    continue
                if adapter is not None:
                    return adapter
    raise problem or CannotCall(f"{site.entry.name} has no run of a framework that can be repeated")


def blocks_of(site: Site) -> list[tuple[PythonFile, Block]]:
    """The entry, or the main block, functions and top of its script."""
    if site.function is not None:
        return [(site.file, site.function)]
    found: list[Block] = [*blocks(site.file), *(one for _, one in site.file.functions())]
    return [(site.file, one) for one in [*found, site.file.tree]]


def _crew(site: Site, file: PythonFile, block: Block, call: ast.Call) -> AgentAdapter | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr not in ("kickoff", "kickoff_async", "akickoff"):
        return None
    inputs = next((one.value for one in call.keywords if one.arg == "inputs"), None)
    inputs = _assigned(block, inputs) if inputs is not None else None
    if inputs is not None and not isinstance(inputs, ast.Dict):
        raise CannotCall("the crew's inputs are no dictionary that stands in the code")
    needs = Transplant(site.modules, file, block)
    receiver = needs.expression(call.func.value)
    parameters, passed = [], []
    if inputs is not None:
        given_by_task = _given_by_task(block, inputs)
        for key, value in zip(inputs.keys, inputs.values, strict=True):
            if not isinstance(key, ast.Constant) or not str(key.value).isidentifier():
                raise CannotCall("a key of the crew's inputs is no plain name")
            name = str(key.value)
            if value not in given_by_task:
                passed.append(f'"{name}": {needs.expression(value)}')
                continue
            parameters.append(f"{name}: {_kind(value)}")
            passed.append(f'"{name}": {name}')
    given = "inputs={" + ", ".join(passed) + "}" if passed else ""
    waits = "" if call.func.attr == "kickoff" else "await "
    body = [*needs.statements]
    if len(given) > 50:
        lines = [f"    {one}," for one in passed]
        body += ["inputs = {", *lines, "}"]
        given = "inputs=inputs"
    body.append(f"result = {waits}{receiver}.{call.func.attr}({given})")
    body.append("return result.raw")
    if not parameters:
        raise CannotCall("the crew takes no inputs")
    says = f"Kicks off the crew as {_where(site, file, block)} does. The task's input gives its"
    return _adapter(
        site,
        needs,
        file,
        parameters,
        body,
        f"{says} inputs, the output is the raw text of the last task.",
        bool(waits),
        "str",
    )


def _agents_run(site: Site, file: PythonFile, block: Block, call: ast.Call) -> AgentAdapter | None:
    """A run of the OpenAI Agents SDK."""
    if dotted(call.func) not in ("Runner.run", "Runner.run_sync", "Runner.run_streamed"):
        return None
    keywords = {one.arg: one.value for one in call.keywords}
    agent = keywords.pop("starting_agent", None) or next(iter(call.args), None)
    if agent is None:
        return None
    for hidden in ("input", "session", "hooks", "previous_response_id", "conversation_id"):
        keywords.pop(hidden, None)
    needs = Transplant(site.modules, file, block)
    shown = needs.expression(agent)
    given = [shown, "question"]
    for name, value in keywords.items():
        if name is None:
            raise CannotCall("its arguments are not known by name")
        given.append(f"{name}={needs.expression(value)}")
    needs.name("Runner")
    body = [*needs.statements, f"result = await Runner.run({', '.join(given)})"]
    body.append("return result.final_output")
    says = f"Runs {shown} as {_where(site, file, block)} does, in a conversation of its own for"
    says += " each task."
    return _adapter(site, needs, file, ["question: str"], body, says, True, "")


def _agent_run(site: Site, file: PythonFile, block: Block, call: ast.Call) -> AgentAdapter | None:
    """A run of a pydantic-ai agent, where a program asks a person for its text."""
    ending = ending_of(site, file, call)
    if not ending or not isinstance(call.func, ast.Attribute) or ending == ".final_output":
        return None
    needs = Transplant(site.modules, file, block)
    receiver = needs.expression(call.func.value)
    given = ["question"]
    for one in call.keywords:
        if one.arg == "message_history":
            continue
        if one.arg is None:
            raise CannotCall("its arguments are not known by name")
        given.append(f"{one.arg}={needs.expression(one.value)}")
    body = [*needs.statements, f"result = await {receiver}.run({', '.join(given)})"]
    body.append(f"return result{ending}")
    says = f"Runs the agent as {_where(site, file, block)} does, without earlier messages."
    return _adapter(site, needs, file, ["question: str"], body, says, True, "")


def _adapter(
    site: Site,
    needs: Transplant,
    file: PythonFile,
    parameters: list[str],
    body: list[str],
    says: str,
    asynchronous: bool,
    returns: str,
) -> AgentAdapter:
    taken = {line.rpartition(" ")[2] for line in needs.imports} | {"result", "inputs"}
    taken |= {one.partition(":")[0] for one in parameters}
    return AgentAdapter(
        name=site.function_name(taken),
        parameters=tuple(parameters),
        returns=returns,
        assumes=says,
        body=tuple(body),
        imports=tuple(needs.imports),
        asynchronous=asynchronous,
        used=tuple(needs.used) or (file.path,),
    )


def _where(site: Site, file: PythonFile, block: Block) -> str:
    name = f"{block.name} of " if isinstance(block, Function) else ""
    return f"{name}{file.path}"


def _assigned(block: ast.AST, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        for one in own_nodes(block):
            if isinstance(one, ast.Assign) and dotted(one.targets[0]) == node.id:
                return one.value
    return node


def _given_by_task(block: ast.AST, inputs: ast.Dict) -> list[ast.expr]:
    """The values that a task replaces: literals, names and what a person types.

    Where every value is computed, those that are picked out of data: `examples["first"]`.
    """
    plain = [
        one
        for one in inputs.values
        if isinstance(one, ast.Constant | ast.Name) or _is_asked(block, one)
    ]
    return plain or [one for one in inputs.values if isinstance(one, ast.Subscript)]


def _is_asked(block: ast.AST, node: ast.expr) -> bool:
    return asks(_assigned(block, node))


def _kind(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and type(value.value) in (int, float, bool):
        return type(value.value).__name__
    return "str"
