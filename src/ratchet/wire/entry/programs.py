"""Calls a DSPy program, and follows scripts and routes to the function behind them."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.functions import construct
from ratchet.wire.entry.python_file import Function, dotted, own_nodes
from ratchet.wire.entry.site import Site, calls
from ratchet.wire.entry.transplant import Transplant, blocks


def call_program(site: Site) -> AgentAdapter:
    """An adapter that calls a DSPy module.

    Raises:
        CannotCall: The entry is none.
    """
    owner = site.node if isinstance(site.node, ast.ClassDef) else site.owner
    if owner is None or not site.derives(owner, "Module"):
        raise CannotCall(f"{site.entry.name} is no DSPy module")
    forward = next(
        (one for one in owner.body if isinstance(one, Function) and one.name in _FORWARD), None
    )
    if forward is None:
        raise CannotCall(f"{owner.name} has no forward()")
    needs = Transplant(site.modules, site.file, None)
    made = construct(site, owner, needs)
    arguments = [one for one in forward.args.args[1:] if site.is_data(one)]
    if not arguments:
        raise CannotCall(f"{owner.name}.{forward.name} takes no input")
    asynchronous = isinstance(forward, ast.AsyncFunctionDef)
    given = ", ".join(f"{one.arg}={one.arg}" for one in arguments)
    call = f"await {made}.acall({given})" if asynchronous else f"{made}({given})"
    outputs = _outputs(site, forward)
    body = [f"prediction = {call}"]
    if len(outputs) == 1:
        body.append(f"return prediction.{outputs[0]}")
    else:
        body.append("return dict(prediction)")
    configured = _configuration(site, needs)
    said = (
        f"Its output is `{outputs[0]}`." if len(outputs) == 1 else "Its output is all it predicts."
    )
    return AgentAdapter(
        name=site.function_name({"prediction", *(one.arg for one in arguments)}),
        parameters=tuple(site.parameter(one) for one in arguments),
        returns="",
        assumes=f"Calls the program {owner.name} of {site.file.path}. {said}",
        body=tuple(body),
        imports=tuple(needs.imports),
        asynchronous=asynchronous,
        before=tuple(configured),
        used=tuple(dict.fromkeys([site.file.path, *needs.used])),
    )


_FORWARD = ("forward", "aforward")


def _outputs(site: Site, forward: Function) -> list[str]:
    """Fields of the prediction: those of `Prediction(…)`, else the outputs of the signature."""
    for one in own_nodes(forward):
        value = one.value if isinstance(one, ast.Return) else None
        if isinstance(value, ast.Call) and dotted(value.func).endswith("Prediction"):
            named = [each.arg for each in value.keywords if each.arg]
            answers = [each for each in named if each in ("answer", "response", "output")]
            return answers[:1] or named
    outputs = []
    for node in site.file.tree.body:
        if isinstance(node, ast.ClassDef) and site.derives(node, "Signature"):
            for line in node.body:
                if not isinstance(line, ast.Assign | ast.AnnAssign):
                    continue
                if isinstance(line.value, ast.Call):
                    target = line.targets[0] if isinstance(line, ast.Assign) else line.target
                    made = dotted(line.value.func)
                    outputs += [dotted(target)] if made.endswith("OutputField") else []
    return outputs


def _configuration(site: Site, needs: Transplant) -> list[str]:
    """What sets the language model, where the program does that and no module does."""
    for path in site.modules.closure(site.file.path):
        file = site.modules.file(path)
        if file and any(_configures(one) for one in calls(file.tree)):
            return []
    for path in site.modules.paths:
        file = site.modules.file(path)
        if file is None or site.file.path not in site.modules.closure(path):
            continue
        for scope in [*(one for _, one in file.functions()), *blocks(file), file.tree]:
            for call in calls(scope):
                if _configures(call):
                    other = Transplant(site.modules, file, scope)
                    source = other.expression(call)
                    needs.imports.update(other.imports)
                    needs.used.update(other.used)
                    return [*other.statements, source]
    return []


def _configures(call: ast.Call) -> bool:
    return dotted(call.func) in ("dspy.configure", "dspy.settings.configure") and any(
        one.arg == "lm" for one in call.keywords
    )


def call_behind(site: Site, adapt: Callable[[Site], AgentAdapter]) -> AgentAdapter:
    """An adapter for what a script, a loop or a route calls: the first entry that can be called.

    Raises:
        CannotCall: There is none.
    """
    scopes: list[ast.AST] = [site.node] if isinstance(site.node, Function) else []
    if not scopes:
        functions = [one for _, one in site.file.functions()]
        scopes = [*blocks(site.file), site.file.tree, *functions]
    called: dict[str, None] = {}
    for scope in scopes:
        for one in own_nodes(scope):
            if isinstance(one, ast.Call):
                called[dotted(one.func).rpartition(".")[2]] = None
    closure = site.modules.closure(site.file.path)
    behind = [
        one
        for name in called
        for one in site.look.entries
        if one.kind in ("function", "graph", "crew")
        and one.name.rpartition(".")[2] == name
        and one.confidence >= 0.5
        and one.place != site.entry.place
        and one.place.path in closure
    ]
    if site.entry.kind in ("script", "app", "program"):
        behind += [
            one
            for one in site.look.entries
            if one.kind in ("function", "graph", "crew", "route")
            and one.confidence >= 0.5
            and one.place.path in closure
        ]
    ordered = sorted(dict.fromkeys(behind), key=lambda one: -one.confidence)
    for entry in ordered:
        try:
            return adapt(site.at(entry))
        except CannotCall:
            continue
    raise CannotCall(f"no function behind {site.entry.name} takes a task's input")
