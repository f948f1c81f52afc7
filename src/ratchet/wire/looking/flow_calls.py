"""Where the text comes from that a call gives: messages, templates, joins, files, own functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ratchet.wire.looking.flow_steps import FlowStep, TextOrigin
from ratchet.wire.looking.former_frameworks import framework_of
from ratchet.wire.looking.meanings import MOST_OVERRIDES, Meaning
from ratchet.wire.looking.syntax import (
    AttributeUse,
    Invocation,
    MappingLiteral,
    NameUse,
    SequenceLiteral,
    TextValue,
    last_name,
)
from ratchet.wire.looking.text_words import (
    CARRIERS,
    COMPUTED,
    FETCHING,
    MESSAGE_ROLES,
    READERS,
    STORES,
    TEMPLATES,
    UNCHANGED,
    role_of,
)

if TYPE_CHECKING:
    from ratchet.wire.looking.flow import TextFlow


def through_call(flow: TextFlow, step: FlowStep, call: Invocation) -> Iterator[TextOrigin]:
    """Where the text that a call gives comes from."""
    name = last_name(call.function)
    role = MESSAGE_ROLES.get(name)
    if isinstance(call.function, AttributeUse) and role is None:
        role = MESSAGE_ROLES.get(last_name(call.function.base))
    if role is not None:
        yield from _contents(flow, step.to(step.syntax, role=role, again=True), call)
        return
    if name in ("ChatMessage", "Message", "ChatCompletionMessageParam", "MessageParam"):
        given = call.keywords.get("role") or next(iter(call.arguments), None)
        text = ""
        if isinstance(given, TextValue):
            text = given.value
        elif isinstance(given, AttributeUse):
            text = given.name.lower()
        yield from _contents(
            flow, step.to(step.syntax, role=role_of(text, step.role), again=True), call
        )
        return
    if name in ("field", "Field") and step.scope.kind == "class":
        given = call.keywords.get("default")
        if given is None and name == "Field" and call.arguments:
            given = call.arguments[0]
        if given is None:
            made = call.keywords.get("default_factory")
            yield from flow.follow(step.to(made)) if made is not None else ()
        else:
            yield from flow.follow(step.to(given))
        return
    if name in STORES and not _own_functions(flow, call, step):
        yield TextOrigin(
            "store",
            step.role,
            step.scope.module.path,
            call.line,
            holder=_argument_text(flow, call, step),
        )
        return
    own = isinstance(call.function, NameUse) and _own_functions(flow, call, step)
    if (name in UNCHANGED or name in TEMPLATES) and not own:
        yield from _unchanged(flow, step, call, name)
        return
    if name == "join":
        for one in (call.function, *call.arguments):
            base = one.base if isinstance(one, AttributeUse) else one
            if isinstance(base, (SequenceLiteral, NameUse)):
                yield from flow.follow(step.to(base, joined=True))
        return
    if name in READERS:
        files = list(flow.files_of(step, call))
        if files:
            yield from files
            return
        if name in ("Template", "from_string", "render", "load", "safe_load", "loads"):
            yield from _unchanged(flow, step, call, name)
    if name == "get" and isinstance(call.function, AttributeUse) and call.arguments:
        yield from flow.item(step, call.function.base, call.arguments[0])
        for one in call.arguments[1:]:
            yield from flow.follow(step.to(one))
        return
    if name == "dict" and not call.arguments:
        pairs = [(TextValue(call.line, 0, 0, key), one) for key, one in call.keywords.items()]
        mapping = MappingLiteral(call.line, call.start, call.end, [*pairs])
        yield from flow.follow(step.to(mapping))
        return
    if name == "getenv":
        for one in call.arguments[1:]:
            yield from flow.follow(step.to(one))
        return
    if name in COMPUTED:
        return
    known = flow.names.meanings(call.function, step.scope, step.frame)
    if not known and isinstance(call.function, AttributeUse):
        # Of an object that is not known, but few classes have such a method.
        methods = flow.names.classes.methods_named(name)
        known = [Meaning(one) for one in methods] if len(methods) <= 3 else []
    for one_ in known[:MOST_OVERRIDES]:
        if one_.scope is not None and one_.scope.kind == "function":
            if not (step.slot and FETCHING.match(name)):
                yield from flow.result(step, one_.scope, call)
        elif one_.scope is not None and not one_.instance:
            # An object of the repository that holds text: its arguments.
            for value in (*call.arguments, *call.keywords.values()):
                if isinstance(value, (SequenceLiteral, MappingLiteral)):
                    yield from flow.follow(step.to(value))
        elif one_.outside and name[:1].isupper() and framework_of(one_.outside):
            # A block or part of a message, in the types of the model's client.
            for key in ("content", "text", "parts"):
                if key in call.keywords:
                    yield from flow.follow(step.to(call.keywords[key]))


def _own_functions(flow: TextFlow, call: Invocation, step: FlowStep) -> bool:
    known = flow.names.meanings(call.function, step.scope, step.frame)
    return any(one.scope is not None and one.scope.kind == "function" for one in known)


def _unchanged(flow: TextFlow, step: FlowStep, call: Invocation, name: str) -> Iterator[TextOrigin]:
    if isinstance(call.function, AttributeUse):
        base = call.function.base
        outside = [m for m in flow.names.meanings(base, step.scope, step.frame) if m.outside]
        if not (outside and name in ("dedent", "cleandoc", "indent", "from_template", "fill")):
            yield from flow.follow(step.to(base))
        if name in ("format", "substitute", "safe_substitute", "format_map"):
            for one in (*call.arguments, *call.keywords.values()):
                yield from flow.follow(step.to(one, slot=True, joined=True))
            return
        if name in ("replace", "replaceAll"):  # what is put into a text is a part of it
            for one in call.arguments[1:2]:
                yield from flow.follow(step.to(one, slot=True, joined=True))
        if name in ("strip", "replace", "replaceAll", "lstrip", "rstrip", "partial", "trim"):
            return
    for one in (*call.arguments[:2], *(v for k, v in call.keywords.items() if k in CARRIERS)):
        yield from flow.follow(step.to(one))


def _contents(flow: TextFlow, step: FlowStep, call: Invocation) -> Iterator[TextOrigin]:
    given = [
        call.keywords[key]
        for key in ("content", "text", "parts", "prompt", "template", "blocks")
        if key in call.keywords
    ]
    if not given:
        given = [
            one
            for one in call.arguments
            if not isinstance(one, AttributeUse) or one.name.upper() not in ("SYSTEM", "USER")
        ]
    for one in given:
        yield from flow.follow(step.to(one))


def _argument_text(flow: TextFlow, call: Invocation, step: FlowStep) -> str:
    for one in (*call.arguments, *call.keywords.values()):
        for text in flow.paths.texts(one, step.scope, step.frame, 0):
            return text
    return ""
