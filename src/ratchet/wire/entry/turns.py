"""Repeats one turn of a program that asks a person, reads arguments, or prints what it gets."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import cached_property

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes
from ratchet.wire.entry.run_calls import Block, blocks_of
from ratchet.wire.entry.site import Site, is_text_name
from ratchet.wire.entry.transplant import Transplant, asks, asks_itself


def call_turn(site: Site) -> AgentAdapter:
    """An adapter that repeats the call to which a program gives what a person said.

    Raises:
        CannotCall: There is no such call that leads to a model, or it needs what only the program
            has.
    """
    problem: CannotCall | None = None
    for file, block in blocks_of(site):
        turn = _Turn(site, file, block)
        for call in turn.calls():
            try:
                return turn.adapter(call)
            except CannotCall as error:
                problem = problem or error
    raise problem or CannotCall(f"{site.entry.name} gives nothing that a person says to a model")


class _Turn:
    """One block: what is asked in it, and the calls that get it."""

    def __init__(self, site: Site, file: PythonFile, block: Block) -> None:
        self.site = site
        self.file = file
        self.block = block
        self.asked: dict[str, str] = {}
        """Names that hold what was asked, and how the parameter is declared."""
        self.parsed: set[str] = set()
        """Names of parsed arguments."""
        self.parents: dict[ast.AST, ast.AST] = {}
        nodes = [block, *own_nodes(block)]
        for node in nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        if isinstance(block, Function) and not _gives(file, block.lineno):
            owned = file.owner.get(block)
            given = block.args.args[isinstance(owned, ast.ClassDef) :]
            defaults = dict(zip(reversed(given), reversed(block.args.defaults), strict=False))
            for argument in given:
                if site.is_data(argument):
                    default = _default(defaults.get(argument))
                    self.asked[argument.arg] = f"{site.parameter(argument)}{default}"
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if isinstance(node.value, ast.Call) and dotted(node.value.func).endswith(
                    "parse_args"
                ):
                    self.parsed.add(name)
                elif asks(node.value):
                    self.asked[name] = f"{name}: str"

    @cached_property
    def _own(self) -> set[str]:
        """Names of the project's functions that lead to a model and return something."""
        return {
            one.name.rpartition(".")[2]
            for one in self.site.look.entries
            if _gives(self.site.modules.file(one.place.path), one.place.line)
        }

    def calls(self) -> Iterator[ast.Call]:
        """Calls that get what was asked and lead to a model."""
        lines = {
            one.place.line for one in self.site.look.model_calls if one.place.path == self.file.path
        }
        for node in own_nodes(self.block):
            if not isinstance(node, ast.Call):
                continue
            given = [*node.args, *(one.value for one in node.keywords)]
            if not any(self._is_asked(one) for each in given for one in ast.walk(each)):
                continue
            spoken = any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
            nested = any(isinstance(one, ast.Call) and self._gets(one) for one in given)
            known = dotted(node.func).rpartition(".")[2] in self._own
            part = dotted(node.func).endswith((".create", ".stream", ".append"))
            part = part or dotted(node.func) in ("print", "asyncio.run")
            if (spoken or known) and not nested and not part:
                yield node

    def _gets(self, call: ast.Call) -> bool:
        if asks_itself(call):
            return False
        given = [*call.args, *(one.value for one in call.keywords)]
        return any(self._is_asked(one) for each in given for one in ast.walk(each))

    def _is_asked(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.asked or node.id in self.parsed
        return isinstance(node, ast.Call | ast.Subscript) and asks(node)

    def adapter(self, call: ast.Call) -> AgentAdapter:
        """The adapter that repeats a call."""
        said = _Said(self.asked, self.parsed)
        whole, waits = self._whole(call)
        changed = said.visit(copy.deepcopy(whole))
        if not said.parameters:
            raise CannotCall("it gets nothing that a task could give")
        parameters = sorted(said.parameters, key=lambda one: " = " in one)
        free = {one.partition(":")[0]: one.partition(":")[0] for one in parameters}
        needs = Transplant(self.site.modules, self.file, self.block, free)
        for one in ast.walk(changed):
            if isinstance(one, ast.Name):
                needs.name(one.id)
        expression = ast.unparse(changed)
        if waits and not isinstance(whole, ast.Await):
            expression = f"await {expression}"
        awaits = any(isinstance(one, ast.Await) for one in ast.walk(whole)) or waits
        ending, shown = self._ending(whole)
        shown = shown and dotted(call.func).rpartition(".")[2] not in self._own
        body = [*needs.statements]
        if ending or shown:
            body.append(f"result = {expression}")
            body.append(f"return str(result{ending})" if shown else f"return result{ending}")
        else:
            body.append(f"return {expression}")
        taken = {line.rpartition(" ")[2] for line in needs.imports} | set(free) | {"result"}
        name = f"{self.block.name} of " if isinstance(self.block, Function) else ""
        return AgentAdapter(
            name=self.site.function_name(taken),
            parameters=tuple(parameters),
            returns="str" if shown else "",
            assumes=f"Does one turn as {name}{self.file.path} does, with nothing said before.",
            body=tuple(body),
            imports=tuple(needs.imports),
            asynchronous=awaits,
            used=tuple(dict.fromkeys([*needs.used])),
        )

    def _whole(self, call: ast.Call) -> tuple[ast.expr, bool]:
        """The call with what is read of its result, and whether it is run by `asyncio.run`."""
        node: ast.expr = call
        while True:
            parent = self.parents.get(node)
            if isinstance(parent, ast.Call) and dotted(parent.func) == "asyncio.run":
                return node, True
            reads = isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node
            method = isinstance(self.parents.get(parent) if parent else None, ast.Call) and (
                getattr(self.parents.get(parent), "func", None) is parent  # type: ignore[arg-type]
            )
            if isinstance(parent, ast.Await) or (reads and not method):
                assert isinstance(parent, ast.expr)
                node = parent
                continue
            return node, False

    def _ending(self, whole: ast.expr) -> tuple[str, bool]:
        """What is read of the result where it is used first, and whether it is only shown."""
        parent = self.parents.get(whole)
        if isinstance(parent, ast.Call) and dotted(parent.func) == "asyncio.run":
            whole, parent = parent, self.parents.get(parent)
        if isinstance(parent, ast.Call) and dotted(parent.func).endswith("print"):
            return "", not isinstance(whole, ast.Attribute | ast.Subscript)
        if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
            return "", False
        name = parent.targets[0].id
        for node in own_nodes(self.block):
            if not isinstance(node, ast.Name) or node.id != name or node.lineno <= parent.lineno:
                continue
            if isinstance(node.ctx, ast.Store):
                return "", False
            outer: ast.expr = node
            while True:
                above = self.parents.get(outer)
                called = self.parents.get(above) if above is not None else None
                is_method = isinstance(called, ast.Call) and called.func is above
                if not isinstance(above, ast.Attribute | ast.Subscript) or above.value is not outer:
                    break
                if is_method:
                    break
                outer = above
            above = self.parents.get(outer)
            shown = isinstance(above, ast.FormattedValue) or (
                isinstance(above, ast.Call) and dotted(above.func).endswith("print")
            )
            if outer is not node:
                return self.file.source(outer).removeprefix(name), False
            if shown:
                return "", True
        return "", False


def _default(node: ast.expr | None) -> str:
    """A literal default as it is declared, also that of Typer's `Option(…)`; empty for none."""
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in (
        "Option",
        "Argument",
    ):
        node = next(iter(node.args), None)
    plain = isinstance(node, ast.Constant) and node.value is not ...
    return f" = {ast.unparse(node)}" if plain and node is not None else ""


def _gives(file: PythonFile | None, line: int) -> bool:
    """Whether the function at a line returns something."""
    return file is not None and any(
        one.lineno == line
        and any(isinstance(each, ast.Return) and each.value for each in own_nodes(one))
        for _, one in file.functions()
    )


class _Said(ast.NodeTransformer):
    """Puts parameters in the place of what was asked."""

    def __init__(self, asked: dict[str, str], parsed: set[str]) -> None:
        self.asked = asked
        self.parsed = parsed
        self.parameters: dict[str, None] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id in self.parsed:
            kind = "str" if is_text_name(node.attr) else "Any"
            self.parameters[f"{node.attr}: {kind}"] = None
            return ast.Name(node.attr, ast.Load())
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.asked:
            self.parameters[self.asked[node.id]] = None
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if asks_itself(node):
            self.parameters["question: str"] = None
            return ast.Name("question", ast.Load())
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if dotted(node.value) == "sys.argv":
            self.parameters["question: str"] = None
            return ast.Name("question", ast.Load())
        self.generic_visit(node)
        return node
