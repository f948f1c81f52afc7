"""Prompts that reach a model call, with their places and how each can be bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ratchet.wire.facts import BindingWay, Place, PromptKind, PromptPart, PromptSite
from ratchet.wire.looking.flow import TextFlow, TextOrigin
from ratchet.wire.looking.frameworks import RANK, SDKS, framework_of
from ratchet.wire.looking.javascript_requests import posted_body
from ratchet.wire.looking.model_inputs import (
    LAST_NAMES,
    POSTED,
    ModelInput,
    input_of,
    is_model_class,
    named_input,
)
from ratchet.wire.looking.named_prompts import PROMPT_NAME, named_prompts
from ratchet.wire.looking.names import Names, argument_of, last_name
from ratchet.wire.looking.settings_prompts import settings_prompts
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeModule,
    CodeScope,
    Invocation,
    MappingLiteral,
    NameUse,
    SequenceLiteral,
    Syntax,
    TextTemplate,
    TextValue,
    chain_of,
    static_text,
    walk_syntax,
)
from ratchet.wire.looking.text_words import role_of
from ratchet.wire.looking.yaml_fields import yaml_parts

LEAST_WORDS = {"system": 4, "user": 10, "tool": 20, "joined": 10, "named": 6}
"""Words of static text from which text counts as a prompt: shorter messages are data."""

HOW: dict[str, tuple[BindingWay, str]] = {
    "constant": ("codemod", "wrap the literal in ratchet.prompt(…)"),
    "f-string": ("codemod", "turn its slots into named ones and wrap it in ratchet.prompt(…)"),
    "inline": ("codemod", "wrap the literal in ratchet.prompt(…) where it stands"),
    "builder": ("function", "bind what the function returns, or use the gateway"),
    "class attribute": ("codemod", "wrap the attribute's literal in ratchet.prompt(…)"),
    "signature": ("codemod", "bind the signature's instructions"),
    "yaml": ("overlay", "overlay the file; no code changes"),
    "toml": ("overlay", "overlay the file; no code changes"),
    "json": ("overlay", "overlay the file; no code changes"),
    "text": ("overlay", "overlay the file; no code changes"),
    "framework default": ("gateway", "replace it in the gateway; the text is the framework's"),
    "store": ("adapter", "read and write it through the store's adapter"),
}
_DEFAULT = re.compile(r"\.[A-Z][A-Z0-9_]*(?:PROMPT|INSTRUCTIONS?)[A-Z0-9_]*$|\.PROMPT$")
"""Constants of a framework that hold text for a model."""
_FILES = ("yaml", "json", "toml", "text")
_INPUTS = re.compile(
    r"(?:^|_)(?:quer(?:y|ies)|questions?|examples?|tests?|inputs?|tasks?|topics?|samples?|demos?|requests?)(?:_|$)",
    re.IGNORECASE,
)
"""Names of lists of what a demonstration asks."""
_SCRIPTS = ("main", "demo", "run_demo", "example", "run_example", "_main", "amain")
_LONG = 40
"""Words from which text in a script's main function is no mere question."""


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


@dataclass
class _Group:
    """Texts that make one prompt."""

    kind: PromptKind
    name: str
    role: str
    framework: str
    parts: dict[tuple[str, int, str], PromptPart] = field(default_factory=dict)
    reaches: set[Place] = field(default_factory=set)
    joined: bool = False
    named: bool = False
    """Bound to a name that says that it is a prompt."""
    by_name: bool = False
    """Known by the name under which the code reads it."""


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
                yield InputSite(call, scope, what, framework, callee)


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


def _words(text: str) -> int:
    """Words of a text; an address or a name without a space has none."""
    return len(re.findall(r"[^\W\d_]{2,}", text)) if re.search(r"\s", text.strip()) else 0


def _is_example(origin: TextOrigin, site: InputSite) -> bool:
    """Whether text is what a demonstration asks an agent: data, and no prompt."""
    if origin.role != "user" or not isinstance(origin.syntax, TextValue) or origin.scope is None:
        return False
    if origin.iterated and _INPUTS.search(origin.holder):
        return True
    here = origin.scope
    if origin.syntax.line in here.in_guard and site.invocation.line not in here.in_guard:
        return True
    in_script = here is site.scope and (
        here.name in _SCRIPTS or (here.kind == "module" and site.invocation.line in here.in_guard)
    )
    runs = site.what.runs and site.framework not in SDKS
    return in_script and runs and len(origin.syntax.value.split()) < _LONG


def _system_messages(scope: CodeScope) -> Iterator[MappingLiteral]:
    """Literals of system messages in a scope, with the others of their list."""
    roots: list[Syntax] = [*scope.returns]
    for call in scope.invocations:
        roots += [*call.arguments, *call.keywords.values()]
    for bounds in scope.bindings.values():
        roots += [one.value for one in bounds if isinstance(one.value, Syntax)]
    seen: set[int] = set()
    for root in roots:
        for one in walk_syntax(root):
            if isinstance(one, MappingLiteral) and id(one) not in seen:
                seen.add(id(one))
                if _is_message(one, "system", "developer"):
                    yield one
            if isinstance(one, SequenceLiteral) and any(
                _is_message(item, "system", "developer") for item in one.items
            ):
                others = [item for item in one.items if _is_message(item, "user")]
                for item in others:
                    assert isinstance(item, MappingLiteral)
                    if id(item) not in seen:
                        seen.add(id(item))
                        yield item


def _is_message(syntax: Syntax, *roles: str) -> bool:
    if not isinstance(syntax, MappingLiteral) or syntax.get("content") is None:
        return False
    role = syntax.get("role")
    return isinstance(role, TextValue) and role.value in roles


class PromptFinder:
    """Finds the prompts that flow into calls.

    Args:
        names: Names of the program.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.flow = TextFlow(names)

    def find(self, sites: list[InputSite]) -> list[PromptSite]:
        """Prompts of these calls, in order of their places."""
        groups: dict[tuple[str, int, str], _Group] = {}
        for site in sites:
            for argument, role, syntax in self._arguments(site):
                if role == "signature":
                    self._signature(site, syntax, groups)
                elif role == "slot":
                    for origin in self.flow.origins(syntax, site.scope, "user", slot=True):
                        self._add(site, argument, origin, groups)
                elif role == "file":
                    for origin in self.flow.files(syntax, site.scope, "system"):
                        self._add(site, argument, origin, groups)
                else:
                    for origin in self.flow.origins(syntax, site.scope, role):
                        self._add(site, argument, origin, groups)
        self._decorated(groups)
        if sites:
            self._settings(sites[0].framework, groups)
            self._messages(sites[0].framework, groups)
            self._named(sites[0].framework, groups)
        built = {key for one in groups.values() if one.kind == "builder" for key in one.parts}
        return sorted(
            (
                self._made(group)
                for group in groups.values()
                if self._counts(group)
                and (group.kind not in ("inline", "f-string") or not built >= set(group.parts))
            ),
            key=lambda one: one.place,
        )

    def _arguments(self, site: InputSite) -> Iterator[tuple[str, str, Syntax]]:
        call, what = site.invocation, site.what
        if what.symbol == "ChatMessage":
            yield "", "user", call
            return
        if what.fills:
            yield from ((name, "slot", value) for name, value in call.keywords.items())
            return
        for argument, role in what.roles.items():
            given = call.keywords.get(argument)
            if given is None and argument in what.positions:
                number = what.positions.index(argument)
                if site.framework == "llama-index" and site.what.runs:
                    number = 0
                given = call.arguments[number] if number < len(call.arguments) else None
            if given is None:
                for spread in call.spreads:
                    for value, _, _ in self.flow.tables.mappings(spread, site.scope, None, 0):
                        given = given or value.get(argument)
            if given is not None:
                yield argument, role, given

    def _signature(
        self, site: InputSite, syntax: Syntax, groups: dict[tuple[str, int, str], _Group]
    ) -> None:
        classes = [
            one.scope
            for one in self.names.meanings(syntax, site.scope)
            if one.scope is not None and one.scope.kind == "class"
        ]
        if not classes:
            classes = self._built(site, syntax, groups)
        for scope in classes:
            path = scope.module.path
            key = (path, scope.line, "signature")
            group = groups.setdefault(key, _Group("signature", scope.name, "system", "dspy"))
            group.reaches.add(site.place)
            if scope.docstring is not None:
                self._part(group, path, scope.docstring, "instructions")
            for name, bounds in scope.attributes.items():
                for bound in bounds:
                    if isinstance(bound.value, Invocation) and "desc" in bound.value.keywords:
                        text = bound.value.keywords["desc"]
                        if isinstance(text, (TextValue, TextTemplate)):
                            self._part(group, path, text, name)
            if not group.parts:
                del groups[key]

    def _built(
        self, site: InputSite, syntax: Syntax, groups: dict[tuple[str, int, str], _Group]
    ) -> list[CodeScope]:
        """Classes whose instructions a signature that is built takes; its own texts are added."""
        values = [syntax]
        if isinstance(syntax, NameUse):
            bounds, _ = self.names.bound(syntax.name, site.scope)
            values = [one.value for one in bounds if isinstance(one.value, Syntax)]
        found: list[CodeScope] = []
        for value in values:
            while isinstance(value, Invocation) and isinstance(value.function, AttributeUse):
                if value.function.name == "Signature":
                    break
                value = value.function.base  # .append(…), .with_updated_fields(…)
            if not isinstance(value, Invocation) or last_name(value.function) != "Signature":
                continue
            given = value.keywords.get("instructions")
            given = given or (value.arguments[1] if len(value.arguments) > 1 else None)
            if isinstance(given, AttributeUse) and given.name == "instructions":
                found += self._given_classes(given.base, site.scope)
            elif given is not None:
                for origin in self.flow.origins(given, site.scope, "system"):
                    self._add(site, "", origin, groups)
        return found

    def _given_classes(self, syntax: Syntax, scope: CodeScope) -> list[CodeScope]:
        """Classes that an expression stands for; of a parameter, those that calls pass."""
        known = self.names.meanings(syntax, scope)
        if isinstance(syntax, NameUse):
            function = self.names.bound(syntax.name, scope)[1]
            for call, where in self.names.calls_of(function) if function is not None else ():
                passed = argument_of(function, call, syntax.name) if function else None
                known = [*known, *(self.names.meanings(passed, where) if passed else ())]
        return [one.scope for one in known if one.scope and one.scope.kind == "class"]

    def _settings(self, framework: str, groups: dict[tuple[str, int, str], _Group]) -> None:
        """Fields of settings files that the code reads by name."""
        for path, place, parts in settings_prompts(self.names):
            if (path, 0, "file") not in groups:
                name = path.rpartition("/")[2]
                kind: PromptKind = "yaml" if parts else "text"
                kind = "json" if path.endswith(".json") else kind
                group = _Group(kind, name, "system", framework, by_name=True)
                group.parts = {(path, part.start, ""): part for part in parts}
                if not parts:
                    group.parts[path, 0, ""] = PromptPart("", Place(path), 0, 0, "")
                group.reaches.add(place)
                groups[path, 0, "file"] = group

    def _messages(self, framework: str, groups: dict[tuple[str, int, str], _Group]) -> None:
        """System messages that are sent in a way that was not followed, such as over HTTP."""
        for module in self.names.program.modules:
            for scope in module.scope.walk():
                for found in _system_messages(scope):
                    content, role = found.get("content"), found.get("role")
                    assert content is not None
                    assert isinstance(role, TextValue)
                    known = set(groups)
                    for origin in self.flow.origins(content, scope, role_of(role.value, "system")):
                        if origin.kind == "text" and origin.syntax is not None:
                            place = Place(module.path, found.line)
                            self._put(place, framework, "", origin, groups, origin.builder)
                    for key in set(groups) - known:
                        groups[key].by_name = True

    def _named(self, framework: str, groups: dict[tuple[str, int, str], _Group]) -> None:
        """Texts that are bound to the name of a prompt and read, in a way that was not followed."""
        found = {(path, start) for group in groups.values() for path, start, _ in group.parts}
        for text, scope, name, whole, place in named_prompts(self.names):
            path = scope.module.path
            if (path, text.start) not in found:
                known = set(groups)
                origin = TextOrigin(
                    "text", "system", path, text.line, text, scope, name, whole=whole, joined=True
                )
                self._put(place, framework, "", origin, groups, None)
                for key in set(groups) - known:
                    groups[key].by_name = True

    def _decorated(self, groups: dict[tuple[str, int, str], _Group]) -> None:
        """Functions that a decorator makes prompts: `@agent.system_prompt`."""
        for module in self.names.program.modules:
            if "pydantic-ai" not in self.names.program.frameworks_of(module):
                continue
            for scope in module.scope.walk():
                for decorator in scope.decorators:
                    inner = decorator.function if isinstance(decorator, Invocation) else decorator
                    if isinstance(inner, AttributeUse) and inner.name in (
                        "system_prompt",
                        "instructions",
                    ):
                        for value in scope.returns:
                            for origin in self.flow.origins(value, scope, "system"):
                                if (
                                    origin.kind != "text"
                                    or origin.syntax is None
                                    or origin.scope is not scope
                                ):
                                    self._put(
                                        Place(module.path, scope.line),
                                        "pydantic-ai",
                                        "",
                                        origin,
                                        groups,
                                        scope,
                                    )
                                else:
                                    self._put(
                                        Place(module.path, scope.line),
                                        "pydantic-ai",
                                        "",
                                        origin,
                                        groups,
                                        scope,
                                    )

    def _add(
        self,
        site: InputSite,
        argument: str,
        origin: TextOrigin,
        groups: dict[tuple[str, int, str], _Group],
    ) -> None:
        if origin.role == "assistant" or _is_example(origin, site):
            return
        field_ = argument if len(site.what.roles) > 1 else ""
        together = None
        if site.framework in ("crewai", "agno") and origin.scope is site.scope:
            together = site
        self._put(site.place, site.framework, field_, origin, groups, origin.builder, together)

    def _put(
        self,
        reaches: Place,
        framework: str,
        field_: str,
        origin: TextOrigin,
        groups: dict[tuple[str, int, str], _Group],
        builder: CodeScope | None,
        together: InputSite | None = None,
    ) -> None:
        kind: PromptKind
        if origin.kind == "file":
            ending = origin.path.rpartition(".")[2].lower()
            kinds: dict[str, PromptKind] = {
                "yaml": "yaml",
                "yml": "yaml",
                "toml": "toml",
                "json": "json",
            }
            kind, key = kinds.get(ending, "text"), (origin.path, 0, "file")
            name = origin.path.rpartition("/")[2]
        elif origin.kind == "store":
            kind, name, key = (
                "store",
                origin.holder or "prompt",
                (origin.path, origin.line, "store"),
            )
        elif origin.kind == "outside":
            if not _DEFAULT.search(origin.holder) or not framework_of(origin.holder):
                return
            kind, name = "framework default", origin.holder
            key = (origin.path, origin.line, "outside")
        else:
            assert origin.syntax is not None
            assert origin.scope is not None
            here = origin.scope
            if builder is not None and here.enclosing("function") is builder:
                kind, name, key = (
                    "builder",
                    builder.dotted,
                    (here.module.path, builder.line, "builder"),
                )
            elif together is not None:
                kind, name = (
                    "inline",
                    together.scope.dotted or last_name(together.invocation.function),
                )
                key = (together.place.path, together.place.line, "call")
            else:
                line = (origin.whole or origin.syntax).line
                key = (here.module.path, line, "text")
                template = isinstance(origin.syntax, TextTemplate)
                if here.kind == "class" and origin.holder:
                    kind, name = "class attribute", f"{here.dotted}.{origin.holder}"
                elif here.kind == "module" and origin.holder:
                    kind, name = "f-string" if template else "constant", origin.holder
                else:
                    kind, name = "f-string" if template else "inline", here.dotted
                if origin.pieced:
                    key = (here.module.path, here.line, f"pieces of {origin.holder}")
        group = groups.setdefault(key, _Group(kind, name, origin.role, framework))
        if origin.role == "system":
            group.role = "system"
        group.joined = group.joined or (origin.joined and kind in ("f-string", "inline"))
        group.reaches.add(reaches)
        group.named = group.named or PROMPT_NAME.search(origin.holder) is not None
        if origin.syntax is not None:
            self._part(group, origin.path, origin.syntax, field_)
        elif kind == "yaml":
            text = self.names.program.files.text(origin.path) or ""
            for part in yaml_parts(origin.path, text, framework, origin.keys):
                group.parts[origin.path, part.start, ""] = part
        if not group.parts:
            place = Place(origin.path, origin.line)
            group.parts[origin.path, origin.line, ""] = PromptPart("", place, 0, 0, "")

    def _part(
        self, group: _Group, path: str, syntax: TextValue | TextTemplate, field_: str
    ) -> None:
        slots = syntax.sources if isinstance(syntax, TextTemplate) else ()
        part = PromptPart(
            field_, Place(path, syntax.line), syntax.start, syntax.end, static_text(syntax), slots
        )
        group.parts[path, syntax.start, ""] = part

    def _counts(self, group: _Group) -> bool:
        if group.kind in (*_FILES, "store", "signature", "framework default"):
            return True
        counts = [_words(part.text) for part in group.parts.values()]
        if group.role == "tool":
            return group.kind != "builder" and max(counts) >= LEAST_WORDS["tool"]
        if group.joined:
            return sum(counts) >= LEAST_WORDS["joined"]
        if group.named and any(part.slots for part in group.parts.values()):
            return sum(counts) >= LEAST_WORDS["named"]
        return sum(counts) >= LEAST_WORDS.get(group.role, 4)

    def _made(self, group: _Group) -> PromptSite:
        parts = sorted(group.parts.values(), key=lambda part: (part.place, part.start))
        way, how = HOW[group.kind]
        reached = sorted(group.reaches)
        return PromptSite(
            group.name,
            group.kind,
            Place(parts[0].place.path) if group.kind in _FILES else parts[0].place,
            "user" if group.role == "tool" else group.role,
            tuple(parts),
            way,
            how,
            tuple(reached),
            group.framework,
            0.7 if group.by_name else 0.95 if group.kind != "builder" else 0.85,
            f"known by its name at {reached[0]}; where its text goes was not followed"
            if group.by_name
            else f"its text flows into the call at {reached[0]}",
        )
