"""Reads Python into scopes and expressions, by `ast`."""

from __future__ import annotations

import ast
import re
import warnings

from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BinaryOperation,
    BoundValue,
    CodeModule,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    MappingLiteral,
    NameUse,
    OtherSyntax,
    Parameter,
    ScopeValue,
    SequenceLiteral,
    SpreadItem,
    Syntax,
    TextTemplate,
    TextValue,
    chain_of,
)

_OPERATORS = {ast.Add: "+", ast.BitOr: "|", ast.Mod: "%", ast.Div: "/", ast.Mult: "*"}
_DEFERRING = {"submit": 0, "to_thread": 0, "partial": 0, "map": 0, "run_in_executor": 1}
"""Functions that call another one later, by the number of the argument that is called."""
_ADDING = {"append", "extend", "insert", "add", "update", "setdefault"}


class Unparsable(Exception):
    """A file is no Python 3; the message says why."""


def read_python(path: str, text: str, *, notebook: bool = False) -> CodeModule:
    """Read a file.

    Raises:
        Unparsable: It does not parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise Unparsable(_why(text, error)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsable(f"does not parse: {type(error).__name__}") from None
    module = CodeModule(path, "Python", text, notebook=notebook)
    try:
        _Reader(module, tree).read()
    except RecursionError:
        raise Unparsable("is nested too deeply") from None
    return module


def _why(text: str, error: SyntaxError) -> str:
    if re.search(r"^\s*(?:print\s+[^(=\s]|exec\s+[\"']|except\s+[\w.]+\s*,\s*\w+\s*:)", text, re.M):
        return f"is Python 2 (line {error.lineno})"
    return f"does not parse as Python (line {error.lineno}: {error.msg})"


class _Reader:
    def __init__(self, module: CodeModule, tree: ast.Module) -> None:
        self.module = module
        self.tree = tree
        self.lines = [0]
        offset = 0
        self.bytes = module.text.encode("utf-8", "surrogatepass")
        for line in re.split(rb"(?<=\n)|(?<=\r)(?!\n)", self.bytes):
            offset += len(line)
            self.lines.append(offset)
        self.scope = CodeScope("module", "", module, None, 1, 0, len(self.bytes))
        module.scope = self.scope
        self.guard = False

    def read(self) -> None:
        self.scope.docstring = self.docstring(self.tree.body)
        self.block(self.tree.body)

    # Places

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int, int]:
        start = self.lines[min(node.lineno - 1, len(self.lines) - 1)] + node.col_offset
        line = min((node.end_lineno or node.lineno) - 1, len(self.lines) - 1)
        return node.lineno, start, self.lines[line] + (node.end_col_offset or 0)

    def source(self, node: ast.expr) -> str:
        _, start, end = self.span(node)
        return self.bytes[start:end].decode("utf-8", "replace")

    def docstring(self, body: list[ast.stmt]) -> TextValue | None:
        match body[:1]:
            case [ast.Expr(value=ast.Constant(value=str(value)) as node)]:
                return TextValue(*self.span(node), value)
        return None

    # Statements

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node)
            case ast.ClassDef():
                self.klass(node)
            case ast.Import():
                for alias in node.names:
                    if alias.asname:
                        self.imported(alias.asname, ImportedName(alias.name, "", node.lineno))
                    else:
                        head = alias.name.partition(".")[0]
                        self.imported(head, ImportedName(head, "", node.lineno))
                        if head != alias.name:
                            self.module.imports.append(ImportedName(alias.name, "", node.lineno))
            case ast.ImportFrom():
                origin = "." * node.level + (node.module or "")
                for alias in node.names:
                    one = ImportedName(origin, alias.name, node.lineno)
                    if alias.name == "*":
                        self.module.imports.append(one)
                        self.scope.stars.append(one)
                    else:
                        self.imported(alias.asname or alias.name, one)
            case ast.Return(value=value):
                if value is not None:
                    self.scope.returns.append(self.expression(value))
            case ast.Assign():
                assigned = self.expression(node.value)
                for target in node.targets:
                    self.assign(target, assigned)
            case ast.AnnAssign():
                annotation = self.expression(node.annotation)
                if isinstance(node.target, ast.Name):
                    self.scope.annotations[node.target.id] = annotation
                elif isinstance(node.target, ast.Attribute):
                    owner = self.scope.enclosing("class")
                    if owner is not None:
                        owner.annotations.setdefault(node.target.attr, annotation)
                if node.value is not None:
                    self.assign(node.target, self.expression(node.value))
            case ast.AugAssign():
                self.assign(node.target, self.expression(node.value), "added")
            case ast.For() | ast.AsyncFor():
                self.assign(node.target, self.expression(node.iter), "iterated")
                self.block(node.body)
                self.block(node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    entered = self.expression(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, entered)
                self.block(node.body)
            case ast.If():
                guard = _is_guard(node.test)
                self.expression(node.test)
                if guard:
                    self.module.scope.guarded = True
                before, self.guard = self.guard, self.guard or guard
                self.block(node.body)
                self.guard = before
                self.block(node.orelse)
            case ast.Expr(value=value):
                self.expression(value)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.stmt):
                        self.statement(child)
                    elif isinstance(child, ast.expr):
                        self.expression(child)
                    elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                        self.block(child.body)

    def imported(self, bound: str, one: ImportedName) -> None:
        self.module.imports.append(one)
        self.scope.bind(bound, BoundValue(one, self.scope, line=one.line))

    def assign(self, target: ast.expr, value: Syntax, how: str = "assigned") -> None:
        bound = BoundValue(value, self.scope, how, target.lineno)  # type: ignore[arg-type]
        if self.guard:
            self.scope.in_guard.add(value.line)
        match target:
            case ast.Name(id=name):
                self.scope.bind(name, bound)
                if self.scope.kind == "class":
                    self.scope.attributes.setdefault(name, []).append(bound)
            case ast.Attribute(value=base, attr=name):
                self.expression(base)
                owner = self.scope.enclosing("class")
                if isinstance(base, ast.Name) and base.id in ("self", "cls") and owner is not None:
                    owner.attributes.setdefault(name, []).append(bound)
                else:
                    self.module.attribute_writes.setdefault(name, []).append(bound)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                if how == "iterated" and self.iterated(targets, value):
                    return
                same = isinstance(value, SequenceLiteral) and len(value.items) == len(targets)
                for number, one in enumerate(targets):
                    if same and how == "assigned":
                        assert isinstance(value, SequenceLiteral)
                        self.assign(one, value.items[number])
                    else:
                        self.assign(one, OtherSyntax(*self.span(target), [value]))
            case ast.Subscript(value=base, slice=key):
                entry = MappingLiteral(*self.span(target), [(self.expression(key), value)])
                self.assign(base, entry, "added")
            case ast.Starred(value=one):
                self.assign(one, value, how)

    def iterated(self, targets: list[ast.expr], value: Syntax) -> bool:
        """Bind what `enumerate` or `zip` gives; whether it is one of them."""
        match value:
            case Invocation(function=NameUse(name="enumerate"), arguments=[items, *_]):
                if len(targets) == 2:
                    self.assign(targets[1], items, "iterated")
                    return True
            case Invocation(function=NameUse(name="zip"), arguments=given):
                if len(given) == len(targets):
                    for target, items in zip(targets, given, strict=True):
                        self.assign(target, items, "iterated")
                    return True
        return False

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        scope = self.enter("function", node.name, node)
        scope.asynchronous = isinstance(node, ast.AsyncFunctionDef)
        scope.decorators = [self.expression(one) for one in node.decorator_list]
        self.signature(scope, node.args)
        if node.returns is not None:
            scope.returned_type = self.expression(node.returns)
            scope.returned_shown = self.source(node.returns)
        scope.docstring = self.docstring(node.body)
        value = ScopeValue(scope.line, scope.start, scope.end, scope)
        bound = BoundValue(value, self.scope, line=node.lineno)
        self.scope.bind(node.name, bound)
        if self.scope.kind == "class":
            self.scope.attributes.setdefault(node.name, []).append(bound)
        self.within(scope, node.body)

    def klass(self, node: ast.ClassDef) -> None:
        scope = self.enter("class", node.name, node)
        scope.decorators = [self.expression(one) for one in node.decorator_list]
        scope.bases = [self.expression(one) for one in node.bases]
        for keyword in node.keywords:
            self.expression(keyword.value)
        scope.docstring = self.docstring(node.body)
        value = ScopeValue(scope.line, scope.start, scope.end, scope)
        bound = BoundValue(value, self.scope, line=node.lineno)
        self.scope.bind(node.name, bound)
        if self.scope.kind == "class":
            self.scope.attributes.setdefault(node.name, []).append(bound)
        self.within(scope, node.body)

    def enter(
        self, kind: str, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> CodeScope:
        scope = CodeScope(kind, name, self.module, self.scope, *self.span(node))  # type: ignore[arg-type]
        self.scope.children.append(scope)
        return scope

    def within(self, scope: CodeScope, body: list[ast.stmt]) -> None:
        outer, self.scope = self.scope, scope
        guard, self.guard = self.guard, False
        self.block(body)
        self.scope, self.guard = outer, guard

    def signature(self, scope: CodeScope, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        pairs = list(zip(positional, [*defaults, *arguments.defaults], strict=True))
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in pairs:
            annotation = self.expression(argument.annotation) if argument.annotation else None
            shown = argument.arg
            if argument.annotation is not None:
                shown += f": {self.source(argument.annotation)}"
            if default is not None:
                shown += f" = {self.source(default)}"
            given = self.expression(default) if default is not None else None
            scope.parameters.append(Parameter(argument.arg, given, annotation, shown))
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                scope.parameters.append(Parameter(rest.arg, rest=True, shown=rest.arg))

    # Expressions

    def expression(self, node: ast.expr) -> Syntax:
        place = self.span(node)
        match node:
            case ast.Constant(value=str(value)):
                return TextValue(*place, value)
            case ast.JoinedStr(values=values):
                return self.template(node, values)
            case ast.Name(id=name):
                self.scope.used.add(name)
                return NameUse(*place, name)
            case ast.Attribute(value=base, attr=name):
                self.scope.used.add(name)
                return AttributeUse(*place, self.expression(base), name)
            case ast.Subscript(value=base, slice=key):
                return ItemUse(*place, self.expression(base), self.expression(key))
            case ast.Call():
                return self.call(node)
            case ast.Dict(keys=keys, values=values):
                return MappingLiteral(
                    *place,
                    [
                        (self.expression(key) if key is not None else None, self.expression(value))
                        for key, value in zip(keys, values, strict=True)
                    ],
                )
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return SequenceLiteral(*place, [self.expression(item) for item in items])
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _OPERATORS:
                sides = self.expression(left), self.expression(right)
                return BinaryOperation(*place, _OPERATORS[type(operator)], *sides)
            case ast.BoolOp(values=values):
                return Alternatives(*place, [self.expression(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.expression(test)
                return Alternatives(*place, [self.expression(body), self.expression(orelse)])
            case ast.Await(value=value):
                return self.expression(value)
            case ast.Yield(value=ast.expr() as value):
                made = self.expression(value)
                self.scope.yields.append(made)
                return OtherSyntax(*place, [made])
            case ast.NamedExpr(target=target, value=value):
                made = self.expression(value)
                self.assign(target, made)
                return made
            case ast.Starred(value=value):
                return SpreadItem(*place, self.expression(value))
            case ast.Lambda():
                return self.anonymous(node)
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.GeneratorExp(elt=item):
                for one in node.generators:
                    self.assign(one.target, self.expression(one.iter), "iterated")
                    for condition in one.ifs:
                        self.expression(condition)
                return SequenceLiteral(*place, [self.expression(item)])
            case ast.DictComp(key=key, value=value):
                for one in node.generators:
                    self.assign(one.target, self.expression(one.iter), "iterated")
                return MappingLiteral(*place, [(self.expression(key), self.expression(value))])
        children = [
            self.expression(child)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
        return OtherSyntax(*place, children)

    def template(self, node: ast.JoinedStr, values: list[ast.expr]) -> TextTemplate:
        parts: list[str | Syntax] = []
        sources: list[str] = []
        for value in values:
            match value:
                case ast.Constant(value=str(text)):
                    parts.append(text)
                case ast.FormattedValue(value=inner):
                    parts.append(self.expression(inner))
                    sources.append(ast.unparse(inner))
        return TextTemplate(*self.span(node), tuple(parts), tuple(sources))

    def call(self, node: ast.Call) -> Invocation:
        arguments = [self.expression(one) for one in node.args]
        spreads = [one.value for one in arguments if isinstance(one, SpreadItem)]
        keywords: dict[str, Syntax] = {}
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            if keyword.arg is None:
                spreads.append(value)
            else:
                keywords[keyword.arg] = value
        made = Invocation(
            *self.span(node),
            self.expression(node.func),
            [one for one in arguments if not isinstance(one, SpreadItem)],
            keywords,
            spreads,
        )
        self.scope.invocations.append(made)
        self.deferred(made)
        if self.guard:
            self.scope.in_guard.add(made.line)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING and arguments:
            value = arguments[-1] if node.func.attr in ("insert", "setdefault") else arguments[0]
            base = node.func.value
            if isinstance(base, (ast.Name, ast.Attribute, ast.Subscript)):
                self.assign(base, value, "added")
        return made

    def deferred(self, call: Invocation) -> None:
        """The call that a pool or a thread makes later."""
        name = chain_of(call.function).rpartition(".")[2]
        function = call.keywords.get("target") if name == "Thread" else None
        given: list[Syntax] = []
        if isinstance(rest := call.keywords.get("args"), SequenceLiteral):
            given = rest.items
        number = _DEFERRING.get(name, len(call.arguments))
        if number < len(call.arguments):
            function, given = call.arguments[number], call.arguments[number + 1 :]
        if isinstance(function, (NameUse, AttributeUse)):
            later = Invocation(call.line, call.start, call.end, function, given, call.keywords, [])
            self.scope.invocations.append(later)

    def anonymous(self, node: ast.Lambda) -> ScopeValue:
        place = self.span(node)
        scope = CodeScope("function", "lambda", self.module, self.scope, *place)
        self.scope.children.append(scope)
        self.signature(scope, node.args)
        outer, self.scope = self.scope, scope
        scope.returns.append(self.expression(node.body))
        self.scope = outer
        outer.used |= scope.used
        return ScopeValue(*place, scope)


def _is_guard(test: ast.expr) -> bool:
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    values = {n.value for n in ast.walk(test) if isinstance(n, ast.Constant)}
    return "__name__" in names and "__main__" in values
