"""Runs a LlamaIndex workflow, and answers for the person whom it asks."""

from __future__ import annotations

import ast

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall, call_lines
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes
from ratchet.wire.entry.site import Site, calls, is_text_name
from ratchet.wire.entry.transplant import Transplant, blocks

_PERSON = ("InputRequiredEvent", "HumanResponseEvent")


def call_workflow(site: Site) -> AgentAdapter:
    """An adapter that runs a workflow as the program does.

    Raises:
        CannotCall: The entry leads to no run of a workflow, or it needs what only the program has.
    """
    found = _run(site)
    if found is None:
        raise CannotCall(f"no run of a workflow was found around {site.entry.name}")
    file, block, call, made = found
    text = next((one.arg for one in call.keywords if one.arg and is_text_name(one.arg)), None)
    if text is None:
        raise CannotCall("the workflow's run is given no text by name")
    needs = Transplant(site.modules, file, block, {text: text})
    workflow = needs.expression(made)
    given = [
        f"{one.arg}={text if one.arg == text else needs.expression(one.value)}"
        for one in call.keywords
        if one.arg and one.arg not in ("ctx", "stepwise")
    ]
    run = call_lines(f"handler = {workflow}.run(", given)
    said = ""
    asking = _person_events(site.modules, site.file.path)
    imports = dict(needs.imports)
    if asking is not None:
        request, answer, where, fields = asking
        module = site.modules.name_of(where)
        imports[f"from {module} import {request}"] = None
        imports[f"from {module} import {answer}"] = None
        run += [
            "async for event in handler.stream_events():",
            f"    if isinstance(event, {request}):",
            *(f"        {one}" for one in call_lines(f"answer = {answer}(", fields)),
            "        handler.ctx.send_event(answer)",
        ]
        said = " Nobody approves in a rollout: what it asks a person is declined."
    ending, shown = _ending(block, file)
    run.append(f"return (await handler){ending}" if ending else "return await handler")
    taken = {line.rpartition(" ")[2] for line in imports} | {text, "handler", "event", "answer"}
    where_ = f"{block.name} of {file.path}" if isinstance(block, Function) else file.path
    return AgentAdapter(
        name=site.function_name(taken),
        parameters=(f"{text}: str",),
        returns=shown,
        assumes=f"Runs the workflow as {where_} does, for one message.{said}",
        body=(*needs.statements, *run),
        imports=tuple(imports),
        asynchronous=True,
        used=tuple(dict.fromkeys([file.path, site.file.path, *needs.used])),
    )


def _run(
    site: Site,
) -> tuple[PythonFile, Function | ast.If | ast.Module, ast.Call, ast.expr] | None:
    """Where the project runs a workflow: file, block, call and the expression that makes it."""
    paths = dict.fromkeys([site.file.path, *site.modules.paths])
    near = [one for one in paths if site.file.path in site.modules.closure(one)]
    for path in near:
        file = site.modules.file(path)
        if file is None:
            continue
        for block in [*(one for _, one in file.functions()), *blocks(file), file.tree]:
            for call in calls(block):
                if not isinstance(call.func, ast.Attribute) or call.func.attr != "run":
                    continue
                made = _assigned(block, file, call.func.value)
                if isinstance(made, ast.Call) and _is_workflow(site, file, made):
                    return file, block, call, made
    return None


def _assigned(block: ast.AST, file: PythonFile, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        for place in (block, file.tree):
            for one in own_nodes(place):
                if isinstance(one, ast.Assign) and dotted(one.targets[0]) == node.id:
                    return one.value
    return node


def _is_workflow(site: Site, file: PythonFile, made: ast.Call) -> bool:
    found = site.modules.definition(dotted(made.func), file.path)
    return (
        found is not None
        and isinstance(found[1], ast.ClassDef)
        and any(dotted(one).rpartition(".")[2] == "Workflow" for one in found[1].bases)
    )


def _person_events(modules: Modules, path: str) -> tuple[str, str, str, list[str]] | None:
    """The event that asks a person, that of the answer, their file, and the answer's arguments.

    Raises:
        CannotCall: The answer has a field that cannot be known.
    """
    events: dict[str, tuple[str, ast.ClassDef]] = {}
    for one in modules.closure(path):
        file = modules.file(one)
        for node in file.tree.body if file else ():
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    if dotted(base).rpartition(".")[2] in _PERSON:
                        events[dotted(base).rpartition(".")[2]] = (one, node)
    if len(events) < 2:
        return None
    (where, request), (_, answer) = events[_PERSON[0]], events[_PERSON[1]]
    asked = {dotted(one.target) for one in _fields(request)}
    fields = []
    for field in _fields(answer):
        name, kind = dotted(field.target), ast.unparse(field.annotation)
        if name in asked:
            fields.append(f"{name}=event.{name}")
        elif kind == "bool":
            fields.append(f"{name}=False")
        elif field.value is None and kind == "str":
            fields.append(f'{name}="no"')
        elif field.value is None:
            raise CannotCall(f"how {answer.name} is answered is not known: it needs `{name}`")
    return request.name, answer.name, where, fields


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [
        one
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]


def _ending(block: ast.AST, file: PythonFile) -> tuple[str, str]:
    """What the program reads of the result first, and the annotation of the output."""
    awaited = {
        dotted(one.targets[0])
        for one in own_nodes(block)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Await)
    }
    for one in own_nodes(block):
        if (
            isinstance(one, ast.Subscript)
            and isinstance(one.value, ast.Name)
            and one.value.id in awaited
            and isinstance(one.slice, ast.Constant)
            and isinstance(one.slice.value, str)
        ):
            return f'["{one.slice.value}"]', ""
    return "", ""
