"""Texts that are prompts by the name that they are bound to, wherever they go then."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.wire.facts import Place
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    BinaryOperation,
    CodeModule,
    CodeScope,
    Syntax,
    TextTemplate,
    TextValue,
    walk_syntax,
)

PROMPT_NAME = re.compile(
    r"(?:^|_)(?:prompts?|system_?(?:message|msg)|instructions?|preamble|backstory)(?:_|\d|$)",
    re.IGNORECASE,
)
_SHOWN = re.compile(r"INSTALL|SET_?UP|TOOLTIP|USAGE|HELP|LABEL|PLACEHOLDER")
"""Words in names of texts that people read."""
_LEAST_WORDS = 15
"""Words from which a text counts that only its name makes a prompt."""


def named_prompts(
    names: Names,
) -> Iterator[tuple[TextValue | TextTemplate, CodeScope, str, Syntax, Place]]:
    """Literals with their scope, their name, the whole value, and a place that uses it.

    Only of names that the module's own functions or other modules read, and of fields of the
    program's own data classes.
    """
    for module in names.program.modules:
        if module.notebook:
            continue
        for scope in module.scope.walk():
            yield from _fields(names, scope)
            for name, bounds in scope.bindings.items():
                if not _is_prompt(name, module) or any(one.how == "iterated" for one in bounds):
                    continue
                for bound in bounds:
                    if not isinstance(bound.value, (TextValue, TextTemplate, BinaryOperation)):
                        continue
                    if bound.value.line in scope.in_guard:
                        continue
                    place = _use(names, module, scope, name, bound.line)
                    if place is None:
                        continue
                    for text in walk_syntax(bound.value):
                        if isinstance(text, (TextValue, TextTemplate)) and _long(text):
                            yield text, scope, name, bound.value, place


def _fields(
    names: Names, scope: CodeScope
) -> Iterator[tuple[TextValue | TextTemplate, CodeScope, str, Syntax, Place]]:
    """Literals given to a class of the program for a field named like a prompt that code reads."""
    for call in scope.invocations:
        for name, value in call.keywords.items():
            if not PROMPT_NAME.search(name) or not isinstance(value, (TextValue, TextTemplate)):
                continue
            if not _long(value) or value.line in scope.in_guard:
                continue
            declared = any(
                one.scope is not None
                and one.scope.kind == "class"
                and name in one.scope.annotations
                for one in names.meanings(call.function, scope)
            )
            read = re.compile(rf"\.{name}\b")
            readers = [one for one in names.program.users_of(name) if read.search(one.text)]
            if declared and readers:
                line = readers[0].text[: read.search(readers[0].text).start()].count("\n") + 1  # type: ignore[union-attr]
                yield value, scope, name, value, Place(readers[0].path, line)


def _is_prompt(name: str, module: CodeModule) -> bool:
    """Whether a name says that its text is a prompt; in JavaScript, only that of a constant."""
    if module.language == "Python":
        return PROMPT_NAME.search(name) is not None
    shown = _SHOWN.search(name) or module.path.endswith((".tsx", ".jsx"))
    return name.isupper() and PROMPT_NAME.search(name) is not None and not shown


def _long(text: TextValue | TextTemplate) -> bool:
    parts = [text.value] if isinstance(text, TextValue) else text.parts
    words = [len(re.findall(r"[^\W\d_]{2,}", one)) for one in parts if isinstance(one, str)]
    return sum(words) >= _LEAST_WORDS


def _called(names: Names, function: CodeScope) -> bool:
    """Whether some code names a function, or the class or function that holds it."""
    outer: CodeScope | None = function
    while outer is not None and outer.kind == "function" and outer.method_of is None:
        if outer.decorators or names.program.users_of(outer.name):
            return True
        outer = outer.parent
    return outer is None or outer.kind != "module"


def _use(names: Names, module: CodeModule, scope: CodeScope, name: str, line: int) -> Place | None:
    """A place that reads the name; of a function's own name, within the function."""
    if scope.kind == "function":
        read = any(name in one.used for one in scope.walk())
        return Place(module.path, line) if read and _called(names, scope) else None
    if scope.kind == "class":
        readers = names.program.users_of(name)
        return Place(readers[0].path, line) if readers else None
    if any(name in one.used for one in module.scope.walk()):
        return Place(module.path, line)
    for reader in names.program.users_of(name):
        if reader is not module and any(name in one.used for one in reader.scope.walk()):
            imports = [one.line for one in reader.imports if one.name in (name, "*")]
            return Place(reader.path, imports[0] if imports else 1)
    return None
