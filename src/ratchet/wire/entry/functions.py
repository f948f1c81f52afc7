"""Calls a function or method whose parameters a task can give."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall, call_lines
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes
from ratchet.wire.entry.site import Site, calls
from ratchet.wire.entry.transplant import Transplant, asks, blocks

TOLD_IN_LOG = "gave no result; its log says why"
"""The end of the error of an agent that logs what went wrong, and returns nothing."""


def call_function(site: Site) -> AgentAdapter:
    """An adapter that calls the entry with the task's input.

    Raises:
        CannotCall: It is no function, or takes what no task can give, or gives nothing back.
    """
    function = site.function
    if function is None:
        raise CannotCall(f"{site.entry.name} is no function")
    if _asks(function):
        raise CannotCall(f"{site.name} asks a person")
    if any(isinstance(one, ast.Name) and one.id == "st" for one in own_nodes(function)):
        raise CannotCall(f"{site.name} shows what it does in Streamlit")
    if isinstance(site.file.owner.get(function), Function):
        raise CannotCall(f"{site.name} stands inside another function")
    needs = Transplant(site.modules, site.file, None)
    parameters, given, says, before = _parameters(site, function, needs)
    made = _constructor_data(site, function)
    target, from_task = _target(site, needs, made, alone=not parameters)
    if from_task and site.owner is not None:
        declared = {one.partition(":")[0] for one in parameters}
        parameters = [
            *(site.parameter(one) for one in from_task if one.arg not in declared),
            *parameters,
        ]
        says.append(f"The task's input gives what {site.owner.name}() takes.")
    call = f"{target}({', '.join(given)})"
    streamed = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own_nodes(function))
    asynchronous = isinstance(function, ast.AsyncFunctionDef)
    if streamed:
        loop = "async for" if asynchronous else "for"
        body = [*before, f"parts = [part {loop} part in {call}]"]
        body += ['return "".join(part if isinstance(part, str) else str(part) for part in parts)']
        says.append("What it yields is joined.")
    else:
        call = f"await {call}" if asynchronous else call
        ending, may_be_none, named = _result(site, function)
        if may_be_none:
            body = [*before, f"result = {call}", "if result is None:"]
            body.append(f'    raise RuntimeError("{site.name} {TOLD_IN_LOG}")')
            body.append(f"return result{ending}")
        elif ending:
            wrapped = f"({call})" if asynchronous else call
            body = [*before, f"return {wrapped}{ending}"]
        else:
            body = [*before, f"return {call}"]
        if named:
            says.append(named)
    used = dict.fromkeys([site.file.path, *needs.used])
    taken = {line.rpartition(" ")[2] for line in needs.imports} | {
        one.partition(":")[0] for one in parameters
    }
    returns = _returned(site, function) if not streamed else "str"
    return AgentAdapter(
        name=site.function_name(taken),
        parameters=tuple(parameters),
        returns=returns,
        assumes=" ".join(says),
        body=tuple(body),
        imports=tuple(needs.imports),
        asynchronous=asynchronous,
        used=tuple(used),
    )


def _asks(function: Function) -> bool:
    return any(asks(one) for one in own_nodes(function) if isinstance(one, ast.expr))


def _parameters(
    site: Site, function: Function, needs: Transplant
) -> tuple[list[str], list[str], list[str], list[str]]:
    """The adapter's parameters, the call's arguments, the docstring, and lines before the call."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if site.owner is not None and not _static(function):
        positional = positional[1:]
    defaults: dict[str, ast.expr | None] = {}
    for argument, value in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        defaults[argument.arg] = value
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            defaults[argument.arg] = keyword_default
    declared: list[str] = []
    given: list[str] = []
    says = [f"Calls {site.name} of {site.file.path}."]
    before: list[str] = []
    every = [*positional, *arguments.kwonlyargs]
    for argument in every:
        optional = argument.arg in defaults
        fields = site.fields(argument)
        if fields and not optional:
            kind, passed = _spread(site, argument, fields, declared, needs)
            before += call_lines(f"{argument.arg} = {kind}(", passed)
            says.append(f"The task's input gives the fields of {kind}.")
            given.append(argument.arg)
        elif site.is_data(argument):
            default = defaults.get(argument.arg)
            if optional and not _plain_default(default):
                continue
            shown = site.parameter(argument)
            if optional and default is not None:
                shown += f" = {ast.unparse(default)}"
            declared.append(shown)
            given.append(argument.arg)
        elif not optional:
            raise CannotCall(
                f"the parameter `{argument.arg}` of {site.name} is not data that a task can give"
            )
    if not declared and not _constructor_data(site, function):
        raise CannotCall(f"{site.name} takes no input")
    required = [one for one in declared if " = " not in one]
    declared = [*required, *(one for one in declared if " = " in one)]
    return declared, _by_name(given, positional), says, before


def _by_name(given: list[str], positional: list[ast.arg]) -> list[str]:
    """The arguments; those after a parameter that is left out are given by name."""
    names = [one.arg for one in positional]
    shown: list[str] = []
    for index, one in enumerate(given):
        plain = one.isidentifier()
        in_order = index < len(names) and names[index] == one
        shown.append(one if not plain or in_order else f"{one}={one}")
    return shown


def _spread(
    site: Site,
    argument: ast.arg,
    fields: list[tuple[str, str, str]],
    declared: list[str],
    needs: Transplant,
) -> tuple[str, list[str]]:
    """Declare a model's fields in its place: the model, and its arguments."""
    assert argument.annotation is not None
    kind = needs.expression(argument.annotation)
    passed = []
    for name, annotation, default in fields:
        if default == "...":
            continue
        if name == argument.arg or any(one.startswith(f"{name}:") for one in declared):
            raise CannotCall(f"`{name}` of {site.name} has two meanings")
        declared.append(f"{name}: {annotation}" + (f" = {default}" if default else ""))
        passed.append(f"{name}={name}")
    return kind, passed


def _target(
    site: Site, needs: Transplant, made: Sequence[ast.arg], *, alone: bool
) -> tuple[str, Sequence[ast.arg]]:
    """What is called, and what the task gives to make its object.

    Args:
        site: The entry.
        needs: Takes the imports.
        made: What a task could give to make the object.
        alone: Whether that is all that a task gives; else the program's own object is preferred.
    """
    if site.owner is None:
        needs.name(site.name)
        return site.name, ()
    method = site.name.rpartition(".")[2]
    if not (alone and made):
        try:
            return f"{construct(site, site.owner, needs)}.{method}", ()
        except CannotCall:
            if not made:
                raise
    constructor = _constructor(site.owner)
    assert constructor is not None
    needs.name(site.owner.name)
    given = _by_name([one.arg for one in made], constructor.args.args[1:])
    return f"{site.owner.name}({', '.join(given)}).{method}", made


def _constructor_data(site: Site, function: Function) -> list[ast.arg]:
    """What an object takes when it is made, if a task can give all of it."""
    owner = site.owner
    made = _constructor(owner) if owner is not None and not _static(function) else None
    if owner is None or made is None or isinstance(site.file.owner.get(owner), ast.AST):
        return []
    required = _required(made)
    named = [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]
    found = [one for one in named if one.arg in required]
    return found if all(site.is_data(one) for one in found) else []


def _constructor(owner: ast.ClassDef) -> Function | None:
    return next(
        (one for one in owner.body if isinstance(one, Function) and one.name == "__init__"), None
    )


def construct(site: Site, owner: ast.ClassDef, needs: Transplant) -> str:
    """The expression that makes an object of a class of the entry's file.

    Raises:
        CannotCall: Its constructor takes what only the program has.
    """
    if isinstance(site.file.owner.get(owner), ast.AST):
        raise CannotCall(f"{owner.name} stands inside another function")
    function = site.function
    if function is not None and _static(function):
        needs.name(owner.name)
        return owner.name
    made = _constructor(owner)
    needs.name(owner.name)
    required = _required(made) if made is not None else _dataclass_fields(owner)
    if not required:
        return f"{owner.name}()"
    for path in site.modules.paths:
        file = site.modules.file(path)
        if file is None or site.file.path not in site.modules.closure(path):
            continue
        for scope in [*(one for _, one in file.functions()), *blocks(file), file.tree]:
            for call in calls(scope):
                if dotted(call.func).rpartition(".")[2] != owner.name:
                    continue
                other = Transplant(site.modules, file, scope)
                try:
                    source = other.expression(call)
                except CannotCall:
                    continue
                if other.statements:
                    continue
                needs.imports.update(other.imports)
                needs.used.update(other.used)
                return source
    raise CannotCall(f"{owner.name}() needs `{required[0]}`, which only the program has")


def _required(function: Function) -> list[str]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args][1:]
    cut = len(positional) - len(arguments.defaults)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [one.arg for one in positional[: max(cut, 0)]] + [
        one.arg for one, default in by_name if default is None
    ]


def _dataclass_fields(owner: ast.ClassDef) -> list[str]:
    if not any(dotted(one).endswith("dataclass") for one in owner.decorator_list):
        return []
    return [
        one.target.id
        for one in owner.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is None
    ]


def _static(function: Function) -> bool:
    return any(dotted(one) in ("staticmethod", "classmethod") for one in function.decorator_list)


def _plain_default(node: ast.expr | None) -> bool:
    """Whether a default is a literal that cannot be changed."""
    if node is None:
        return False
    try:
        return not isinstance(ast.literal_eval(node), list | dict | set)
    except ValueError:
        return False


def _returned(site: Site, function: Function) -> str:
    """The annotation of the result, where it is plain."""
    if function.returns is None:
        return ""
    names = {one.id for one in ast.walk(function.returns) if isinstance(one, ast.Name)}
    ending, _, _ = _result(site, function)
    plain = names and names <= {"str", "int", "float", "bool", "list", "dict", "None"}
    return ast.unparse(function.returns) if plain and not ending else ""


def _result(site: Site, function: Function) -> tuple[str, bool, str]:
    """What is read of the result, whether it may be None, and a sentence for the docstring.

    Raises:
        CannotCall: The function returns nothing, or a response of a web framework.
    """
    returned = [one.value for one in own_nodes(function) if isinstance(one, ast.Return)]
    values = [one for one in returned if one is not None and not _is_none(one)]
    if not values:
        raise CannotCall(f"{site.name} returns nothing")
    if any(_is_response(one) for one in values):
        raise CannotCall(f"{site.name} returns a response of a web server")
    if all(isinstance(one, ast.Constant) and isinstance(one.value, bool) for one in values):
        raise CannotCall(f"{site.name} returns only yes or no, not what the agent says")
    none = len(values) < len(returned)
    ending = ""
    for value in values:
        ending = ending or _of_run(site, function, value)
    if not ending:
        return "", False, ""
    return ending, none, f"Its result's `{ending[1:]}` is the output."


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_response(node: ast.expr) -> bool:
    name = dotted(node).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return name in _RESPONSES


_RESPONSES = {
    "JSONResponse",
    "StreamingResponse",
    "PlainTextResponse",
    "HTMLResponse",
    "Response",
    "EventSourceResponse",
    "ORJSONResponse",
    "FileResponse",
    "RedirectResponse",
    "jsonify",
    "render_template",
    "make_response",
}


def _of_run(site: Site, function: Function, value: ast.expr) -> str:
    """How the output is read where a framework's own result is returned."""
    call = value.value if isinstance(value, ast.Await) else value
    if isinstance(call, ast.Name):
        name = call.id
        found = None
        for node in own_nodes(function):
            if isinstance(node, ast.Assign) and any(
                isinstance(one, ast.Name) and one.id == name for one in node.targets
            ):
                found = node.value
        if found is None or isinstance(found, ast.Name):
            return ""
        call = found.value if isinstance(found, ast.Await) else found
    if not isinstance(call, ast.Call):
        return ""
    return ending_of(site, site.file, call)


def ending_of(site: Site, file: PythonFile, call: ast.Call) -> str:
    """What is read of the result of a framework's run; empty if it is no such call."""
    callee = dotted(call.func)
    last = callee.rpartition(".")[2]
    if callee.endswith(("Runner.run", "Runner.run_sync")):
        return ".final_output"
    if last in ("kickoff", "kickoff_async", "akickoff"):
        return ".raw"
    at = any(
        one.place.path == file.path
        and "pydantic_ai" in one.callee
        and call.lineno <= one.place.line <= (call.end_lineno or call.lineno)
        for one in site.look.model_calls
    )
    if at and last in ("run", "run_sync"):
        return f".{_pydantic_output(site)}"
    return ""


def _pydantic_output(site: Site) -> str:
    """`output`, or `data` as pydantic-ai called it before 0.1, by what the project reads."""
    text = "\n".join(
        file.data.decode(errors="replace")
        for path in site.modules.paths
        if (file := site.modules.file(path)) is not None
    )
    return "data" if ".data" in text and ".output" not in text else "output"
