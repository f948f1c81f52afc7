"""Calls that act outside of the process, and the functions that a model may call."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.wire.facts import EffectKind, Place, SideEffect, ToolSite
from ratchet.wire.looking.acting_calls import NAMED, READ, client_effect, is_listed_client
from ratchet.wire.looking.database_queries import query_effect
from ratchet.wire.looking.hosted_tools import configured_servers, hosted_tools
from ratchet.wire.looking.listeners import passed_by_client
from ratchet.wire.looking.method_words import says_that_it_acts
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    CodeModule,
    CodeScope,
    Invocation,
    MappingLiteral,
    NameUse,
    ScopeValue,
    SequenceLiteral,
    Syntax,
    TextValue,
    chain_of,
    last_name,
    static_text,
    walk_syntax,
)
from ratchet.wire.looking.unlisted_clients import (
    GRANTING,
    named_effect,
    stays_within,
    unlisted_effect,
)

_PATTERNS = [*NAMED, *READ]
_READS = {"database read", "web read"}
_ACTING = {
    "run",
    "create",
    "update",
    "update_state",
    "delete",
    "stream",
    "wait",
    "put_item",
    "track",
    "execute_action",
    "download",
    "export",
    "get_writer",
}
"""Methods that act if they are those of certain clients."""
_VERBS = re.compile(
    r"(?:^|_)(?:send|delete|remove|transfer|pay|refund|charge|purchase|buy|book|cancel|order|post"
    r"|publish|tweet|create|update|write|save|insert|execute|deploy|login|log_in|authenticate|submit"
    r"|checkout|check_out|add_to|assign|issue|move|rename|upload|schedule|reply|issue|withdraw|deposit|approve|install)(?:_|$)"
)
_BROWSERS = re.compile(
    r"playwright|puppeteer|selenium|webdriver|stagehand|browserbase|browser-use|nut-js|robotjs"
    r"|desktop"
)
"""Packages of JavaScript that act in a browser or on a desktop."""
_OWN_PAGE = re.compile(r"gradio\.|streamlit\.|nicegui\.|flet\.|gr\.|st\.")
"""Libraries whose elements have a `click` that binds a function."""
_WRITING = re.compile(r"^(?=[rbtU]*[wax+])[rwaxbtU+]{1,4}(?::\w*)?$")
"""Modes that a file is written in."""
_REQUESTING = re.compile(r"(?:^|_)(?:request|fetch|api|http)(?:_|$)|Request$|Fetch$|(?:^|[a-z])Api")
"""Names of a program's own functions that make requests."""
_CHANGING = {"POST", "PUT", "PATCH", "DELETE"}
_LETTING: dict[str, EffectKind] = {"code_execution_config": "exec", "allow_code_execution": "exec"}
"""Arguments by which a framework's agent runs code: AutoGen's, CrewAI's."""
_DECORATORS = re.compile(
    r"(?:^|\.)(?:tool|function_tool|tool_plain|kernel_function|ai_function|beta_tool|register_for_llm|register_for_execution)$"
)
_STEPS = {"createStep", "createWorkflow"}
"""Functions of Mastra whose `execute` no model chooses."""
_KEYS = ("execute", "func")
"""Keys of an object in JavaScript under which a tool's function stands."""
_TOOL_BASES = re.compile(r"(?:^|\.)(?:BaseTool|Tool|StructuredTool|FunctionTool)$")


def _of_script(call: Invocation, scope: CodeScope, names: Names) -> tuple[EffectKind, str] | None:
    """The effect of a call that JavaScript alone has."""
    match call.function:
        case AttributeUse(name="post" | "put" | "patch" | "delete", base=Invocation() as asked):
            if last_name(asked.function) == "api":  # of Microsoft's Graph
                return "post", chain_of(call.function)
    if not isinstance(call.function, NameUse):
        return None
    if call.function.name == "Function" and not names.meanings(call.function, scope):
        return "exec", "new Function"
    if call.function.name in ("put", "del", "copy"):
        stored = [one for one in names.outside_names(call, scope) if "@vercel/blob" in one]
        return ("post", stored[0]) if stored else None
    return None


def _has_browser(scope: CodeScope) -> bool:
    """Whether a module in JavaScript drives a browser or desktop, by its imports and names."""
    imported = [one.module for one in scope.module.imports]
    return any(_BROWSERS.search(one) for one in imported) or "page" in scope.used


def effect_of(call: Invocation, scope: CodeScope, names: Names) -> tuple[EffectKind, str] | None:
    """The effect of a call, with what it calls; None if it has none that is known."""
    name = last_name(call.function)
    javascript = scope.module.language == "JavaScript"
    if javascript and (found := _of_script(call, scope, names)) is not None:
        return found
    if name in ("open", "fdopen", "ZipFile"):
        return ("file write", "open(…, 'w')") if _opens_to_write(call) else None
    if (queried := query_effect(call, scope, names)) is not None:
        return queried
    first = static_text(call.arguments[0]) if call.arguments else ""
    if name == "request" and first and first.upper() != "GET":
        return "post", chain_of(call.function)
    if name == "screenshot" and "path" in call.keywords:
        return "file write", chain_of(call.function)
    if _REQUESTING.search(name) and _sends(call) and not names.outside_names(call, scope):
        return "post", chain_of(call.function)  # a function of the program that passes it on
    if name in ("fetch", "axios", "ofetch", "$fetch", "got", "ky"):
        method = _method_of(call, scope, names)
        if method and method != "GET":
            return "post", name
    if name == "urlopen" and _is_posted(call, scope, names):
        return "post", chain_of(call.function)
    for keyword, kind in _LETTING.items():
        if keyword in call.keywords and not _is_off(call.keywords[keyword], scope):
            return kind, f"{name}({keyword}=…)"
    if name in ("ClaudeAgentOptions", "ClaudeCodeOptions") and (may := _allowed(call)):
        return "shell", f"{name}(… {may})"
    if name == "Task" and "output_file" in call.keywords:
        return "file write", f"output_file {static_text(call.keywords['output_file'])}".strip()
    written = chain_of(call.function)
    if isinstance(call.function, AttributeUse) and "." not in written:
        written = f".{written}"  # of an expression without a name: (folder / name).unlink()
    tried = [written]
    known = any(pattern.search(written) for _, pattern in _PATTERNS)
    granted = not call.keywords.keys().isdisjoint(GRANTING)
    if known or granted or name[:1].isupper() or name in _ACTING or says_that_it_acts(name):
        called = names.outside_names(call, scope)
        # Of a method that is not known, nothing is told.
        tried = [*(one for one in called if not one.endswith(".…")), written]
    for one in tried:
        for kind, pattern in NAMED:
            if pattern.search(one):
                if kind == "desktop" and (
                    any(map(_OWN_PAGE.match, tried)) or (javascript and not _has_browser(scope))
                ):
                    continue  # an element of the program's own page, or an array's fill
                if kind == "database write" and stays_within(one):
                    continue
                return kind, one
    for one in tried[:-1] or passed_by_client(call, scope, names):
        if (of_client := client_effect(one)) is not None:
            return of_client, one
    if tried != [written] or says_that_it_acts(name):
        given = frozenset(key for key, value in call.keywords.items() if not _is_off(value, scope))
        for meant in names.meanings(call.function, scope):
            one = meant.outside
            if one and not is_listed_client(one):
                unlisted = unlisted_effect(one, meant.instance, given)
                if unlisted is not None:
                    return unlisted, one
        if not names.meanings(call.function, scope) and named_effect(call.function):
            return "post", written
    for one in tried:
        for kind, pattern in READ:
            if pattern.search(one):
                return kind, one
    return None


def _opens_to_write(call: Invocation) -> bool:
    """Whether a file is opened to be written: `open(path, "w")`, `path.open("w")`."""
    given = [call.keywords.get("mode"), *call.arguments[1:2]]
    if isinstance(call.function, AttributeUse):
        given += call.arguments[:1]
    modes = [
        mode
        for one in given
        for mode in (one.options if isinstance(one, Alternatives) else [one])
        if isinstance(mode, TextValue)
    ]
    return any(_WRITING.match(one.value) for one in modes)


def _sends(call: Invocation) -> bool:
    """Whether a call names a method of HTTP that changes something."""
    given = [call.keywords.get("method"), *call.arguments[:1]]
    return any(isinstance(one, TextValue) and one.value in _CHANGING for one in given)


def _is_posted(call: Invocation, scope: CodeScope, names: Names) -> bool:
    """Whether urllib's request sends data: its own argument, or a `Request` that is given."""
    if not any(one.startswith("urllib.") for one in names.outside_names(call, scope)):
        return False
    given: list[object] = [call, *call.arguments[:1]]
    for one in call.arguments[:1]:
        if isinstance(one, NameUse):
            given += [bound.value for bound in names.bound(one.name, scope)[0]]
    for made in given:
        if isinstance(made, Invocation):
            data = made.keywords.get("data", made.arguments[1] if made.arguments[1:] else None)
            if _sends(made) or (data is not None and not _is_off(data, scope)):
                return True
    return False


def _method_of(call: Invocation, scope: CodeScope, names: Names) -> str:
    """The method of a request whose options are an object; empty if it is not known."""
    given = call.keywords.get("method")
    if given is None and len(call.arguments) > 1 and isinstance(call.arguments[1], NameUse):
        for one in names.bound(call.arguments[1].name, scope)[0]:
            if isinstance(one.value, MappingLiteral):
                given = one.value.get("method") or given
    return given.value.upper() if isinstance(given, TextValue) else ""


def _is_off(syntax: Syntax, scope: CodeScope) -> bool:
    written = scope.module.text.encode()[syntax.start : syntax.end]
    return written in (b"False", b"None")


def _allowed(call: Invocation) -> str:
    """What the options of Claude's agent let it do without asking; empty if nothing that acts."""
    mode = static_text(call.keywords.get("permission_mode") or call)
    if mode in ("acceptEdits", "bypassPermissions"):
        return mode
    listed = call.keywords.get("allowed_tools")
    texts = [static_text(one) for one in walk_syntax(listed)] if listed is not None else []
    return next((one for one in texts if one in ("Bash", "Write", "Edit", "MultiEdit")), "")


def find_tools(names: Names, live: frozenset[str]) -> Iterator[tuple[ToolSite, CodeScope]]:
    """Functions that a model may call, each with its scope."""
    seen: set[int] = set()
    for module in names.program.modules:
        if module.path not in live:
            continue
        for scope in module.scope.walk():
            for one, reason in _tools_of(scope, names):
                if id(one) not in seen:
                    seen.add(id(one))
                    text = one.docstring.value.strip().splitlines() if one.docstring else []
                    name = _tool_name(one, scope) or "tool"
                    words = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", name).lower()
                    verbs = _VERBS.search(words) if name not in _KEYS else None
                    effects: tuple[EffectKind, ...] = ("named action",) if verbs else ()
                    place = Place(one.module.path, one.line)
                    yield (
                        ToolSite(name, place, text[0] if text else "", effects, 0.9, reason),
                        one,
                    )


def _tool_name(tool: CodeScope, scope: CodeScope) -> str:
    """A tool's name; of the `execute` of an object, and the like, what the object is called."""
    if tool.name not in ("", *_KEYS) or tool.module.language == "Python":
        return tool.name
    for call in scope.invocations:
        given = call.keywords.get(tool.name)
        if not tool.name and call.arguments:  # tool(async (given) => …, { name: … })
            given = call.arguments[0]
        if isinstance(given, ScopeValue) and given.scope is tool:
            shown = static_text(call.keywords.get("id") or call.keywords.get("name") or call)
            for name, bounds in scope.bindings.items():
                if any(bound.value is call for bound in bounds):
                    shown = shown or name
            shown = shown or _key_of(call, scope)
            return shown or scope.name or tool.name
    return tool.name


def _key_of(call: Invocation, scope: CodeScope) -> str:
    """The key under which an object holds what a call makes; empty if none does."""
    roots: list[Syntax] = [*scope.returns]
    roots += [
        one.value
        for bounds in scope.bindings.values()
        for one in bounds
        if isinstance(one.value, Syntax)
    ]
    for other in scope.invocations:
        roots += [*other.arguments]
    for root in roots:
        for one in walk_syntax(root):
            if isinstance(one, MappingLiteral):
                for key, value in one.entries:
                    if value is call and isinstance(key, TextValue):
                        return key.value
    return ""


def _tools_of(scope: CodeScope, names: Names) -> Iterator[tuple[CodeScope, str]]:
    for decorator in scope.decorators:
        inner = decorator.function if isinstance(decorator, Invocation) else decorator
        if scope.kind == "function" and _DECORATORS.search(chain_of(inner)):
            yield scope, f"decorated with {chain_of(inner)}"
    if scope.kind == "class" and any(_TOOL_BASES.search(chain_of(base)) for base in scope.bases):
        yield scope, f"a subclass of {chain_of(scope.bases[0])}"
    for call in scope.invocations:
        given: list[Syntax] = []
        name = last_name(call.function)
        if name in _STEPS:
            continue
        for key in (
            "tools",
            "functions",
            "function_map",
            "fn",
            "async_fn",
            "func",
            "coroutine",
            "execute",
        ):
            if key in call.keywords:
                given.append(call.keywords[key])
        if name in ("register_function", "FunctionTool", "Tool", "from_function", "bind_tools"):
            given += call.arguments
        if name == "tool" and scope.module.language == "JavaScript":
            given += [one for one in call.arguments[:1] if isinstance(one, (ScopeValue, NameUse))]
        for syntax in given:
            listed = isinstance(syntax, (SequenceLiteral, MappingLiteral, NameUse, AttributeUse))
            walked = list(walk_syntax(syntax)) if listed else [syntax]
            # In JavaScript, what a call makes is the tool: its `execute` is found by itself.
            made = [
                one.function
                for one in walked
                if isinstance(one, Invocation) and scope.module.language == "JavaScript"
            ]
            for inner_ in walked:
                if any(inner_ is one for one in made):
                    continue
                if (
                    isinstance(inner_, (NameUse, AttributeUse))
                    or type(inner_).__name__ == "ScopeValue"
                ):
                    for one in names.meanings(inner_, scope)[:3]:
                        if (
                            one.scope is not None
                            and one.scope.kind == "function"
                            and not one.instance
                        ):
                            yield one.scope, f"given to {name} as a tool"


def _acting(module: CodeModule, names: Names) -> Iterator[tuple[EffectKind, str, int, CodeScope]]:
    """Calls with an effect, and tools that act outside of the program's functions."""
    for scope in module.scope.walk():
        for call in scope.invocations:
            if (found := effect_of(call, scope, names)) is not None:
                yield *found, call.line, scope
        for kind, what, line in hosted_tools(scope):
            yield kind, what, line, scope
    yield from configured_servers(module, names)


def find_effects(
    names: Names, live: frozenset[str], tools: list[tuple[ToolSite, CodeScope]]
) -> Iterator[SideEffect]:
    """Effects of live code, and of tools whose name says that they act."""
    owners = {id(inner): tool.name for tool, scope in tools for inner in scope.walk()}
    acting: set[str] = set()
    seen: set[tuple[str, int, str]] = set()
    for module in names.program.modules:
        if module.path not in live:
            continue
        for kind, what, line, scope in _acting(module, names):
            if (module.path, line, kind) in seen:
                continue
            seen.add((module.path, line, kind))
            tool = owners.get(id(scope), "")
            acts = kind not in _READS
            if acts:
                acting.add(tool)
            place = Place(module.path, line)
            reason = f"calls {what}"
            yield SideEffect(kind, what, place, scope.dotted, tool, acts, 0.9, reason)
    for tool_, _ in tools:
        if tool_.effects and tool_.name not in acting:
            reason = "its name says that it acts; no call to the outside was found in it"
            yield SideEffect(
                "named action", tool_.name, tool_.place, tool_.name, tool_.name, True, 0.5, reason
            )
