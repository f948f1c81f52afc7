"""Calls that give text to a model, wherever they stand in a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.wire.facts import Place
from ratchet.wire.looking.former_frameworks import RANK
from ratchet.wire.looking.javascript_requests import posted_body
from ratchet.wire.looking.model_inputs import (
    LAST_NAMES,
    POSTED,
    ModelInput,
    input_of,
    is_model_class,
    named_input,
)
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    CodeModule,
    CodeScope,
    Invocation,
    NameUse,
    OtherSyntax,
    Syntax,
    chain_of,
    last_name,
)

_WRAPPERS = 2
"""Functions one around another that hand on what they are given."""


@dataclass(frozen=True)
class InputSite:
    """A call that gives text to a model."""

    invocation: Invocation
    scope: CodeScope
    what: ModelInput
    framework: str
    callee: str

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.scope.module.path, self.invocation.line)


def input_sites(names: Names) -> Iterator[InputSite]:
    """All calls that give text to a model."""
    for module in names.program.modules:
        frameworks = names.program.frameworks_of(module)
        for scope in module.scope.walk():
            for call in scope.invocations:
                name = last_name(call.function)
                posted = posted_body(call, scope) if name in ("fetch", "post") else None
                if posted is not None:
                    framework = next(iter(frameworks), "") or "openai"
                    yield InputSite(posted, scope, POSTED, framework, chain_of(call.function))
                    continue
                if (
                    name not in LAST_NAMES
                    and name != "__init__"
                    and not name[:1].isupper()
                    and name != "super"
                ):
                    continue
                outside = names.outside_names(call, scope)
                written = chain_of(call.function)
                what = input_of(outside, written)
                if what is None and not outside and module.language == "Python":
                    known = names.meanings(call.function, scope)
                    what = named_input(written) if not known else None
                if what is None and any(is_model_class(one) for one in outside):
                    what = named_input(written)
                if what is None:
                    continue
                if what.symbol == "UserProxyAgent" and "llm_config" not in call.keywords:
                    continue
                framework = what.framework or next(iter(frameworks), "")
                framework = framework or _around(names, module) or "openai"
                callee = outside[0] if outside else written
                site = InputSite(call, scope, what, framework, callee)
                yield site
                yield from _passed_on(names, site)


def _passed_on(names: Names, site: InputSite, depth: int = 0) -> Iterator[InputSite]:
    """Calls of the function around a call that hands on its own arguments: `run(*given)`."""
    call, function = site.invocation, site.scope
    own = [one.name for one in function.parameters if not one.rest]
    rest = {one.name for one in function.parameters if one.rest}
    spread = {one.name for one in call.spreads if isinstance(one, NameUse)}
    makes = function.name in ("__init__", "constructor")  # what calls those is such a call itself
    if not site.what.roles or rest.isdisjoint(spread) or makes or depth > _WRAPPERS:
        return
    first = len([one for one in own if one not in ("self", "cls")])
    for other, scope in names.calls.of(function):
        if other is call or scope is function:
            continue
        place = (other.line, other.start, other.end)
        before: list[Syntax] = [OtherSyntax(*place, []) for _ in call.arguments]
        keywords = {key: one for key, one in other.keywords.items() if key not in own}
        made = Invocation(
            *place,
            call.function,
            [*before, *other.arguments[first:]],
            keywords,
            other.spreads,
        )
        passing = InputSite(made, scope, site.what, site.framework, site.callee)
        yield passing
        yield from _passed_on(names, passing, depth + 1)


def _around(names: Names, module: CodeModule) -> str:
    """The framework that modules of the same outermost folder import."""
    top = module.path.partition("/")[0]
    found = {
        name
        for other in names.program.modules
        if other.path.partition("/")[0] == top and other.language == module.language
        for name in names.program.frameworks_of(other)
    }
    return min(found, key=lambda one: RANK[one], default="")
