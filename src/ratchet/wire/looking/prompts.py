"""Prompts that reach a model call, with their places and how each can be bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ratchet.wire.facts import Place, PromptKind, PromptPart, PromptSite
from ratchet.wire.looking.flow import TextFlow
from ratchet.wire.looking.flow_steps import TextOrigin
from ratchet.wire.looking.former_frameworks import SDKS, framework_of
from ratchet.wire.looking.input_sites import InputSite
from ratchet.wire.looking.meanings import argument_of
from ratchet.wire.looking.named_prompts import PROMPT_NAME, named_prompts
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.prompt_groups import PromptGroup
from ratchet.wire.looking.settings_prompts import settings_prompts
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    NameUse,
    Syntax,
    TextTemplate,
    TextValue,
    last_name,
)
from ratchet.wire.looking.system_messages import system_messages
from ratchet.wire.looking.text_words import CARRIERS, role_of
from ratchet.wire.looking.yaml_fields import AGENT, CREW, yaml_parts

_DEFAULT = re.compile(r"\.[A-Z][A-Z0-9_]*(?:PROMPT|INSTRUCTIONS?)[A-Z0-9_]*$|\.PROMPT$")
"""Constants of a framework that hold text for a model."""
_INPUTS = re.compile(
    r"(?:^|_)(?:quer(?:y|ies)|questions?|examples?|tests?|inputs?|tasks?|topics?|samples?|demos?|requests?)(?:_|$)",
    re.IGNORECASE,
)
"""Names of lists of what a demonstration asks."""
_SCRIPTS = ("main", "demo", "run_demo", "example", "run_example", "_main", "amain")
_FILLING = {"invoke", "ainvoke", "stream", "astream"}
_LONG = 40
"""Words from which text in a script's main function is no mere question."""


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


def _fills_template(site: InputSite) -> bool:
    """Whether what a call is given fills the slots of LangChain's template: `(template | llm)`."""
    return site.what.symbol in _FILLING and "Prompt" in site.callee


def _is_text(holder: str) -> bool:
    """Whether a name is that of a text of the program, and not of what it is asked."""
    return holder.isupper() or PROMPT_NAME.search(holder) is not None


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
        groups: dict[tuple[str, int, str], PromptGroup] = {}
        for site in sites:
            for argument, role, syntax in self._arguments(site):
                if role == "signature":
                    self._signature(site, syntax, groups)
                elif role == "slot":
                    for origin in self.flow.origins(syntax, site.scope, "user", slot=True):
                        if site.what.fills or _is_text(origin.holder):
                            self._add(site, argument, origin, groups)
                elif role == "file":
                    for origin in self.flow.files(syntax, site.scope, "system"):
                        self._add(site, argument, origin, groups)
                elif role == "described":
                    for origin in self.flow.files(syntax, site.scope, "system"):
                        self._add(site, argument, replace(origin, fields=AGENT), groups)
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
                group.made()
                for group in groups.values()
                if group.counts()
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
        if _fills_template(site):
            for table in call.arguments[:1]:
                for value, _, _ in self.flow.tables.mappings(table, site.scope, None, 0):
                    for key, one in value.entries:
                        if isinstance(key, TextValue) and key.value not in CARRIERS:
                            yield key.value, "slot", one
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
        self, site: InputSite, syntax: Syntax, groups: dict[tuple[str, int, str], PromptGroup]
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
            group = groups.setdefault(key, PromptGroup("signature", scope.name, "system", "dspy"))
            group.reaches.add(site.place)
            if scope.docstring is not None:
                group.add(path, scope.docstring, "instructions")
            for name, bounds in scope.attributes.items():
                for bound in bounds:
                    if isinstance(bound.value, Invocation) and "desc" in bound.value.keywords:
                        text = bound.value.keywords["desc"]
                        if isinstance(text, (TextValue, TextTemplate)):
                            group.add(path, text, name)
            if not group.parts:
                del groups[key]

    def _built(
        self, site: InputSite, syntax: Syntax, groups: dict[tuple[str, int, str], PromptGroup]
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
            for call, where in self.names.calls.of(function) if function is not None else ():
                passed = argument_of(function, call, syntax.name) if function else None
                known = [*known, *(self.names.meanings(passed, where) if passed else ())]
        return [one.scope for one in known if one.scope and one.scope.kind == "class"]

    def _settings(self, framework: str, groups: dict[tuple[str, int, str], PromptGroup]) -> None:
        """Fields of settings files that the code reads by name."""
        for path, place, parts in settings_prompts(self.names):
            if (path, 0, "file") not in groups:
                name = path.rpartition("/")[2]
                kind: PromptKind = "yaml" if parts else "text"
                kind = "json" if path.endswith(".json") else kind
                kind = "toml" if path.endswith(".toml") else kind
                group = PromptGroup(kind, name, "system", framework, by_name=True)
                group.parts = {(path, part.start, ""): part for part in parts}
                if not parts:
                    group.parts[path, 0, ""] = PromptPart("", Place(path), 0, 0, "")
                group.reaches.add(place)
                groups[path, 0, "file"] = group

    def _messages(self, framework: str, groups: dict[tuple[str, int, str], PromptGroup]) -> None:
        """System messages that are sent in a way that was not followed, such as over HTTP."""
        for module in self.names.program.modules:
            for scope in module.scope.walk():
                for found in system_messages(scope):
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

    def _named(self, framework: str, groups: dict[tuple[str, int, str], PromptGroup]) -> None:
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

    def _decorated(self, groups: dict[tuple[str, int, str], PromptGroup]) -> None:
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
        groups: dict[tuple[str, int, str], PromptGroup],
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
        groups: dict[tuple[str, int, str], PromptGroup],
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
        joined = origin.joined and kind in ("f-string", "inline")
        group = groups.setdefault(
            key, PromptGroup(kind, name, origin.role, framework, joined=joined)
        )
        if origin.role == "system":
            group.role = "system"
        group.joined = group.joined and joined  # it may be joined with more for some models only
        group.reaches.add(reaches)
        group.named = group.named or PROMPT_NAME.search(origin.holder) is not None
        if origin.syntax is not None:
            group.add(origin.path, origin.syntax, field_)
        elif kind == "yaml":
            text = self.names.program.files.text(origin.path) or ""
            fields = CREW if framework == "crewai" else origin.fields
            for part in yaml_parts(origin.path, text, origin.keys, fields):
                group.parts[origin.path, part.start, ""] = part
        if not group.parts:
            place = Place(origin.path, origin.line)
            group.parts[origin.path, origin.line, ""] = PromptPart("", place, 0, 0, "")
