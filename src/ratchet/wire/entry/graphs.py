"""Calls a LangGraph graph with the keys of its state."""

from __future__ import annotations

import ast
import re

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall, call_lines
from ratchet.wire.entry.functions import construct
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes
from ratchet.wire.entry.site import Site, calls, is_text_name
from ratchet.wire.entry.transplant import Transplant, blocks
from ratchet.wire.looking.files import standing_of

_RUNS = ("invoke", "ainvoke", "stream", "astream", "astream_events")
_ANSWER = re.compile(
    r"^(?:final_?\w*|answer|output|response|result|report|reply|generation|solution)$"
)
_WITH_MESSAGES = {"MessagesState", "AgentState", "CopilotKitState"}


def call_graph(site: Site) -> AgentAdapter:
    """An adapter that invokes the graph.

    Raises:
        CannotCall: Where the graph is made was not found, or it is made from what only the program
            has.
    """
    needs = Transplant(site.modules, site.file, None)
    graph = _graph(site, needs)
    builder = _builder(site)
    state = _state(site, builder) if builder else None
    acting = _acting_nodes(site, builder) if builder else []
    asynchronous = _is_async(site, builder) or isinstance(site.node, ast.AsyncFunctionDef)
    given = _given(site, builder, state)
    says = [f"Invokes the graph of {site.file.path}."]
    options = [given.config] if given.config else []
    if builder is not None and _makes_its_context(site, builder):
        options.append("context={}")
    if acting:
        options.append(f"interrupt_before={acting!r}".replace("'", '"'))
        says.append(f"It stops before {_listed(acting)}, since that acts.")
    run = f"await {graph}.ainvoke(" if asynchronous else f"{graph}.invoke("
    before: list[str] = []
    if state is not None and "messages" in state and not given.initial:
        parameters = [f"{given.text}: str"]
        extra = ", ".join(f'"{name}": {source}' for name, source in given.constant.items())
        said = f'"messages": [("user", {given.text})]{", " + extra if extra else ""}'
        body = call_lines(f"state = {run}", [f"{{{said}}}", *options])
        body.append('return state["messages"][-1].content')
        returns = "str"
        says.append("The input is the user's message, the output the last message.")
    else:
        keys = [one for one in given.inputs if state is None or one in state]
        out = _output(site, builder) if builder else None
        answer = next(iter(out), "") if out and len(out) == 1 else ""
        named = reversed([*(state or []), *(out or [])])
        answer = answer or next((one for one in named if _ANSWER.match(one)), "")
        if given.initial and not given.inputs:
            before = [f"START: dict[str, Any] = {given.initial}"]
            parameters = ["state: dict[str, Any]"]
            sent = "{**START, **state}"
            says.append("The input is what of the state differs from its start.")
        elif keys:
            parameters = [f"{one}: {(state or {}).get(one, 'Any')}" for one in keys]
            constant = {**given.constant, **{one: one for one in keys}}
            sent = "{" + ", ".join(f'"{name}": {said}' for name, said in constant.items()) + "}"
            says.append("The input gives these keys of the state.")
        elif len(texts := _texts(state)) == 1 and state:
            parameters = [f"{texts[0]}: {state[texts[0]]}"]
            sent = f'{{"{texts[0]}": {texts[0]}}}'
            says.append(f"The input is the state's `{texts[0]}`.")
        else:
            parameters = ["state: dict[str, Any]"]
            sent = "state"
            says.append("The input is the graph's first state.")
        if answer and not acting:
            body = call_lines(f"final = {run}", [sent, *options])
            body.append(f'return final["{answer}"]')
            says.append(f"The output is the state's `{answer}`.")
            returns = {**(state or {}), **(out or {})}.get(answer, "Any")
        else:
            body = call_lines(f"return {run}", [sent, *options])
            returns = "dict[str, Any]"
            says.append("The output is the last state.")
    taken = {line.rpartition(" ")[2] for line in needs.imports} | {"state", "final", "messages"}
    return AgentAdapter(
        name=site.function_name(taken),
        parameters=tuple(parameters),
        returns=returns,
        assumes=" ".join(says),
        body=tuple(body),
        imports=tuple(needs.imports),
        asynchronous=asynchronous,
        before=tuple(before),
        used=tuple(needs.used) or (site.file.path,),
    )


def _graph(site: Site, needs: Transplant) -> str:
    """The expression of the compiled graph."""
    node = site.node
    if isinstance(node, ast.ClassDef):
        for one in ast.walk(node):
            if isinstance(one, ast.Assign) and _compiles(one.value):
                target = one.targets[0]
                if isinstance(target, ast.Attribute) and dotted(target.value) == "self":
                    return f"{construct(site, node, needs)}.{target.attr}"
        raise CannotCall(f"where {site.name} keeps its graph was not found")
    if isinstance(node, Function):
        arguments = node.args
        required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        if site.owner is not None:
            if node.name == "__init__":
                return _graph_of_class(site, site.owner, needs)
            required -= 1
        if required > 0 or arguments.kwonlyargs:
            raise CannotCall(f"{site.name} takes what only the program has")
        if not any(isinstance(one, ast.Return) and one.value for one in own_nodes(node)):
            if site.owner is not None:
                return _graph_of_class(site, site.owner, needs)
            raise CannotCall(f"{site.name} does not return its graph")
        if site.owner is not None:
            return _awaited(node, f"{construct(site, site.owner, needs)}.{node.name}()")
        only = node.body[-1]
        if len(node.body) == 1 and isinstance(only, ast.Return) and only.value is not None:
            return needs.expression(only.value)
        needs.name(node.name)
        return _awaited(node, f"{node.name}()")
    needs.name(site.entry.name)
    for one in site.file.tree.body:
        if isinstance(one, ast.Assign) and dotted(one.targets[0]) == site.entry.name:
            uncompiled = isinstance(one.value, ast.Call) and dotted(one.value.func).endswith(
                "StateGraph"
            )
            return f"{site.entry.name}.compile()" if uncompiled else site.entry.name
    return site.entry.name


def _awaited(function: Function, call: str) -> str:
    return f"(await {call})" if isinstance(function, ast.AsyncFunctionDef) else call


def _graph_of_class(site: Site, owner: ast.ClassDef, needs: Transplant) -> str:
    for one in ast.walk(owner):
        if isinstance(one, ast.Assign) and _compiles(one.value):
            target = one.targets[0]
            if isinstance(target, ast.Attribute) and dotted(target.value) == "self":
                return f"{construct(site, owner, needs)}.{target.attr}"
    raise CannotCall(f"where {owner.name} keeps its graph was not found")


def _compiles(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in (
        "compile",
        "create_react_agent",
        "create_agent",
        "create_supervisor",
    )


class _Builder:
    """Where a `StateGraph` is made, and the nodes that it gets."""

    def __init__(self, file: PythonFile, call: ast.Call) -> None:
        self.file = file
        self.call = call
        self.nodes: dict[str, ast.expr] = {}
        for one in ast.walk(file.tree):
            if isinstance(one, ast.Call) and dotted(one.func).endswith(".add_node") and one.args:
                named = one.args[0]
                if isinstance(named, ast.Constant) and len(one.args) > 1:
                    self.nodes[str(named.value)] = one.args[1]
                elif not isinstance(named, ast.Constant):
                    self.nodes[dotted(named).rpartition(".")[2]] = named

    def schema(self, *names: str) -> ast.expr | None:
        """The schema that is given by the first of these names."""
        given = {one.arg: one.value for one in self.call.keywords}
        return next((given[one] for one in names if one in given), None)


def _builder(site: Site) -> _Builder | None:
    found = []
    for path in site.modules.closure(site.file.path):
        file = site.modules.file(path)
        for one in ast.walk(file.tree) if file else ():
            if isinstance(one, ast.Call) and dotted(one.func).rpartition(".")[2] == "StateGraph":
                assert file is not None
                found.append(_Builder(file, one))
        if path == site.file.path and found:
            break
    if not found:
        return None
    named = [one for one in found if _makes(one, site)]
    return (named or found)[-1]


def _makes(builder: _Builder, site: Site) -> bool:
    """Whether the graph that the entry names is compiled from this builder."""
    for node in ast.walk(builder.file.tree):
        if isinstance(node, ast.Assign) and dotted(node.targets[0]) == site.entry.name:
            source = dotted(node.value).partition(".")[0]
            for other in ast.walk(builder.file.tree):
                if isinstance(other, ast.Assign) and dotted(other.targets[0]) == source:
                    return other.value is builder.call
    return False


def _state(site: Site, builder: _Builder) -> dict[str, str] | None:
    """Keys of the graph's input state with their annotations; None if they are not known."""
    schema = builder.schema("input_schema", "input", "state_schema")
    schema = schema or next(iter(builder.call.args), None)
    return _keys(site, builder.file.path, dotted(schema), 0) if schema is not None else None


def _output(site: Site, builder: _Builder) -> dict[str, str] | None:
    """Keys of the graph's output, where they are others than those of its state."""
    schema = builder.schema("output_schema", "output")
    return _keys(site, builder.file.path, dotted(schema), 0) if schema is not None else None


def _keys(site: Site, path: str, name: str, depth: int) -> dict[str, str] | None:
    if name.rpartition(".")[2] in _WITH_MESSAGES and depth:
        return {"messages": "list[Any]"}
    found = site.modules.definition(name, path) if name else None
    if found is None:
        known = name.rpartition(".")[2] in _WITH_MESSAGES
        return {"messages": "list[Any]"} if known else None
    file, node = found
    if not isinstance(node, ast.ClassDef) or depth > 4:
        return None
    keys: dict[str, str] = {}
    for base in node.bases:
        keys.update(_keys(site, file.path, dotted(base), depth + 1) or {})
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            used = {one.id for one in ast.walk(line.annotation) if isinstance(one, ast.Name)}
            plain = used <= {"str", "int", "float", "bool", "list", "dict", "Any"} and used
            keys[line.target.id] = ast.unparse(line.annotation) if plain else "Any"
    return keys


def _makes_its_context(site: Site, builder: _Builder) -> bool:
    """Whether the graph's runs have a context whose fields all have defaults.

    Without one, the nodes see None; LangGraph's server gives an empty one, too.
    """
    schema = builder.schema("context_schema")
    found = site.modules.definition(dotted(schema), builder.file.path) if schema else None
    if found is None or not isinstance(found[1], ast.ClassDef):
        return False
    if any(dotted(base).rpartition(".")[2] == "TypedDict" for base in found[1].bases):
        return True
    fields = [one for one in found[1].body if isinstance(one, ast.AnnAssign)]
    return all(one.value is not None and not _is_required(one.value) for one in fields)


def _is_required(default: ast.expr) -> bool:
    """Whether what stands for a field's default gives none: `Field(..., description="…")`."""
    if not isinstance(default, ast.Call):
        return False
    given = [*default.args[:1], *(one.value for one in default.keywords if one.arg == "default")]
    made = any(one.arg == "default_factory" for one in default.keywords)
    empty = all(isinstance(one, ast.Constant) and one.value is ... for one in given)
    return dotted(default.func).rpartition(".")[2] in ("Field", "field") and not made and empty


def _is_async(site: Site, builder: _Builder | None) -> bool:
    """Whether a node of the graph, or else anything beside it, is async."""
    if builder is None or not builder.nodes:
        return any(isinstance(one, ast.AsyncFunctionDef) for _, one in site.file.functions())
    return any(
        isinstance(found[1], ast.AsyncFunctionDef)
        for value in builder.nodes.values()
        if (found := _node_function(site, builder, value)) is not None
    )


def _node_function(
    site: Site, builder: _Builder, value: ast.expr
) -> tuple[PythonFile, Function] | None:
    """The function of a node: by its name, or a method of that name in the project's classes."""
    name = dotted(value)
    if "." not in name:
        found = site.modules.definition(name, builder.file.path)
        if found is not None and isinstance(found[1], Function):
            return found[0], found[1]
    last = name.rpartition(".")[2]
    for path in site.modules.closure(builder.file.path):
        file = site.modules.file(path)
        for dotted_name, function in file.functions() if file else ():
            if dotted_name.rpartition(".")[2] == last and file is not None:
                return file, function
    return None


def _acting_nodes(site: Site, builder: _Builder) -> list[str]:
    """Nodes whose functions act, other than by a tool; file writes aside."""
    acting = []
    effects = [
        one
        for one in site.look.side_effects
        if one.acts and not one.tool and one.kind != "file write"
    ]
    for name, value in builder.nodes.items():
        found = _node_function(site, builder, value)
        if found is None:
            continue
        file, function = found
        if any(
            one.place.path == file.path
            and function.lineno <= one.place.line <= (function.end_lineno or 0)
            for one in effects
        ):
            acting.append(name)
    return acting


class _Given:
    """What the program gives the graph."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.constant: dict[str, str] = {}
        self.initial = ""
        self.config = ""
        self.text = "question"


def _given(site: Site, builder: _Builder | None, state: dict[str, str] | None) -> _Given:
    """Keys, constants and configuration of the program's own call of the graph."""
    given = _Given()
    made = builder.file.path if builder else site.file.path
    for path in sorted(site.modules.paths, key=_is_test):
        file = site.modules.file(path)
        if file is None or made not in site.modules.closure(path):
            continue
        for scope in [*(one for _, one in file.functions()), *blocks(file), file.tree]:
            for call in calls(scope):
                if not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUNS:
                    continue
                first = _assigned(scope, file, call.args[0]) if call.args else None
                if not isinstance(first, ast.Dict) or not all(
                    isinstance(one, ast.Constant) for one in first.keys
                ):
                    continue
                keys = {str(one.value) for one in first.keys if isinstance(one, ast.Constant)}
                if not (state and keys <= state.keys()) and not _is_graph(
                    site, scope, call.func.value
                ):
                    continue
                _read(file, first, given)
                given.config = _config(scope, file, call)
                return given
    return given


def _is_graph(site: Site, scope: ast.AST, receiver: ast.expr) -> bool:
    """Whether a receiver may be the graph: by its name, or by what it was assigned from."""
    name = dotted(receiver)
    if name.rpartition(".")[2] in (site.entry.name, "graph", "app", "workflow", "runnable"):
        return True
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign) and dotted(node.targets[0]) == name:
            source = dotted(node.value)
            return site.entry.name.rpartition(".")[2] in source or source.endswith("compile")
    return False


def _assigned(scope: ast.AST, file: PythonFile, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        for place in (scope, file.tree):
            for one in own_nodes(place):
                if isinstance(one, ast.Assign) and dotted(one.targets[0]) == node.id:
                    return one.value
    return node


def _is_test(path: str) -> bool:
    return standing_of(path).kind == "test"


def _read(file: PythonFile, state: ast.Dict, given: _Given) -> None:
    """What a call gives: what is written out is the same for each task, but that of a test."""
    for key, value in zip(state.keys, state.values, strict=True):
        assert isinstance(key, ast.Constant)
        name = str(key.value)
        if name == "messages":
            continue
        try:
            ast.literal_eval(value)
        except ValueError:
            given.inputs.append(name)
        else:
            if _is_test(file.path):
                given.inputs.append(name)
            else:
                given.constant[name] = ast.unparse(value)
    if not given.inputs and not any(getattr(k, "value", "") == "messages" for k in state.keys):
        given.initial = file.source(state)


def _config(scope: ast.AST, file: PythonFile, call: ast.Call) -> str:
    """The literal configuration of the program's call, such as the recursion limit."""
    config = next((one.value for one in call.keywords if one.arg == "config"), None)
    if config is None and len(call.args) > 1:
        config = call.args[1]
    if config is None:
        return ""
    value = _assigned(scope, file, config)
    try:
        ast.literal_eval(value)
    except ValueError:
        return ""
    return file.source(value)


def _texts(state: dict[str, str] | None) -> list[str]:
    return [one for one, kind in (state or {}).items() if kind == "str" and is_text_name(one)]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in names)
