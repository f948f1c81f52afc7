"""Calls that act outside of the process, and the functions that a model may call."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.wire.facts import EffectKind, Place, SideEffect, ToolSite
from ratchet.wire.looking.names import Names, last_name
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    MappingLiteral,
    NameUse,
    ScopeValue,
    SequenceLiteral,
    Syntax,
    TextValue,
    chain_of,
    static_text,
    walk_syntax,
)

_CALLS: tuple[tuple[EffectKind, str], ...] = (
    (
        "mail",
        r"sendmail|send_message$(?=.*smtp)|messages\.(?:send|modify|batchModify|trash|untrash)$|drafts\.(?:create|send)$|send_e?mail|sendMail|Emails\.send|GmailCreateDraft|GmailSend|GmailToolkit|create_draft|send_raw_email|smtplib",
    ),
    (
        "payment",
        r"stripe\.|paypal|braintree|PaymentIntent|checkout\.sessions\.create|refunds?\.create|charges?\.create",
    ),
    (
        "shell",
        r"^subprocess\.|^os\.(?:system|popen|spawn\w*|exec\w*)$|create_subprocess_|child_process|execSync|spawnSync|^execa|ShellTool|BashTool|paramiko|commands\.run$|MCPServerStdio|StdioServerParam\w*|StdioClientTransport|stdio_client$|[sS]andbox\.\w*(?:exec|run)\w*$|exec_command|containers\.run",
    ),
    (
        "exec",
        r"^(?:builtins\.)?(?:exec|eval)$|PythonREPL|PythonAstREPL|run_code$|CodeInterpreter|code_interpreter|E2B|e2b|runInNewContext|LocalCommandLineCodeExecutor",
    ),
    (
        "delete",
        r"^os\.(?:remove|unlink|rmdir)$|shutil\.rmtree|\.unlink$|(?:fs\.|^)(?:unlink|rm|rmdir)(?:Sync)?$|\.delete_\w+$|DeleteFileTool|(?:files|assistants|threads|agents|vector_stores|collections?|objects?|blobs?|drafts|events|users?)\.delete$",
    ),
    (
        "post",
        r"(?:^|\.|_)(?:requests|httpx|session|axios|client|http)\.(?:\w+\.)?(?:post|put|patch|delete)$|requests\.request$|chat_postMessage|chat\.postMessage|create_tweet|twilio|\.(?:create_issue|create_pull|create_comment)$|events\.insert$|SlackSend|send_webhook|telegram|langgraph_sdk\.\S*\.(?:create|update|update_state|delete|stream|wait|put_item)$|MCPServer(?:SSE|HTTP|StreamableH\w+)|(?:rudder\w*|analytics|posthog|mixpanel|amplitude|segment)\S*\.(?:track|capture|identify)$",
    ),
    (
        "file write",
        r"\.write_(?:text|bytes)$|writeFile(?:Sync)?$|appendFile(?:Sync)?$|createWriteStream|^shutil\.(?:copy\w*|move)$|^os\.(?:makedirs|mkdir|rename|replace)$|\.to_(?:csv|json|excel|parquet)$|\.savefig$|FileWriterTool|WriteFileTool|FileManagementToolkit|mkdirSync|\.mkdir$|\.save$|dump_to_file|set_key$|\.persist$|shutil\.unpack_archive|\.extractall$",
    ),
    (
        "database write",
        r"insert_(?:one|many)|update_(?:one|many)|replace_one|add_documents|add_texts|from_documents|from_texts|\.upsert$|executemany|session\.(?:add|add_all|commit|merge)$|prisma\.\w+\.(?:create|update|delete|upsert)|\bdb\.(?:insert|update|delete)\b|\.(?:from_?|table)\.(?:\w+\.)*(?:insert|update|upsert|delete)\b|(?:^|[._])store\.a?(?:put|delete)$|(?:^|[._])(?:memory|mem0)\w*\.(?:\w+\.)*(?:add|delete|update)$|(?:^|[._])collection\.(?:add|update)$|(?:insert|update|delete|replace)(?:One|Many)$|bulkWrite$|\.setex$|create_collection|SQLAlchemySession|SQLiteSession|PersistentClient",
    ),
    (
        "database write",  # LangGraph's store and threads, DynamoDB
        r"\bstore\.a?put$|(?:put|delete)Item$|\bthreads\.(?:update\w*|delete)$",
    ),
    (
        "post",
        r"(?<!threads\.)\bruns\.create$"
        r"|@aws-sdk/[\w-]+\.(?:Put|Delete|Send|Publish|Update|Create)\w*Command$",
    ),
    (
        "desktop",
        r"^pyautogui\.|\bdesktop\.(?:\w*[cC]lick|write|press|drag|scroll|moveMouse)$|^webbrowser\.open|\.(?:click|fill|goto|send_keys)$|ImageGrab",
    ),
    (
        "database read",
        r"asyncpg\.|psycopg|create_engine|sqlite3\.connect|pymongo|MongoClient|[Pp]inecone|[Cc]hroma|redis|Neo4j|weaviate|qdrant|fetch(?:val|row|all|one)$|create_pool",
    ),
    (
        "web read",
        r"[Tt]avily|[Ff]irecrawl|[Ss]erper|Exa\b|Exa[A-Z]|DuckDuckGo|DDGS|ScrapeWebsite|WebSearchTool|SerpAPI|BraveSearch|(?:requests|httpx|aiohttp|axios|session)\w*\.get$|^fetch$|wikipedia|arxiv|urlopen",
    ),
)
_PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in _CALLS]
_READS = {"database read", "web read"}
_ACTING = {"create", "update", "update_state", "delete", "stream", "wait", "put_item", "track"}
"""Methods that act if they are those of certain clients."""
_VERBS = re.compile(
    r"(?:^|_)(?:send|delete|remove|transfer|pay|refund|charge|purchase|buy|book|cancel|order|post"
    r"|publish|tweet|create|update|write|save|insert|execute|deploy|login|log_in|authenticate|submit"
    r"|checkout|check_out|add_to|assign|issue|move|rename|upload|schedule|reply|issue|withdraw|deposit|approve|install)(?:_|$)"
)
_BROWSERS = re.compile(
    r"playwright|puppeteer|selenium|webdriver|stagehand|browserbase|browser-use|nut-js|robotjs|desktop"
)
"""Packages of JavaScript that act in a browser or on a desktop."""
_SQL = re.compile(r"^\s*(?:INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|MERGE|TRUNCATE)\b", re.IGNORECASE)
_RUNNING_SQL = {
    *("execute", "executescript", "executemany", "query", "run", "raw", "execute_query"),
    *("fetch", "fetchval", "fetchrow", "fetchone", "fetchall", "fetch_one", "fetch_all"),
}
_DATABASES = re.compile(
    r"(?:^|[._])(?:cur|cursor|conn|connection|session|engine|db|database)\d?\.execute$"
)
"""What runs SQL; a text that is not known may be any."""
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
    if name in ("open", "fdopen"):
        mode = call.keywords.get("mode") or (call.arguments[1] if len(call.arguments) > 1 else None)
        if isinstance(mode, TextValue) and re.search(r"[wax+]", mode.value) and len(mode.value) < 5:
            return "file write", "open(…, 'w')"
        return None
    first = static_text(call.arguments[0]) if call.arguments else ""
    if name in _RUNNING_SQL and _SQL.match(first):
        return "database write", chain_of(call.function)
    if name == "execute" and call.arguments and _DATABASES.search(chain_of(call.function)):
        text = _text_of(call.arguments[0], scope, names)
        if not text or _SQL.match(text):
            return "database write", chain_of(call.function)
    if name == "request" and first and first.upper() != "GET":
        return "post", chain_of(call.function)
    if name == "fetch":
        method = call.keywords.get("method")
        if isinstance(method, TextValue) and method.value.upper() != "GET":
            return "post", "fetch"
    if name == "Task" and "output_file" in call.keywords:
        return "file write", f"output_file {static_text(call.keywords['output_file'])}".strip()
    written = chain_of(call.function)
    if isinstance(call.function, AttributeUse) and "." not in written:
        written = f".{written}"  # of an expression without a name: (folder / name).unlink()
    tried = [written]
    known = any(pattern.search(written) for _, pattern in _PATTERNS)
    if known or name[:1].isupper() or name in _ACTING:
        tried = [*names.outside_names(call, scope), written]
    for one in tried:
        for kind, pattern in _PATTERNS:
            if pattern.search(one):
                if kind == "desktop" and javascript and not _has_browser(scope):
                    continue  # an element of the page itself, or an array's fill
                return kind, one
    return None


def _text_of(syntax: Syntax, scope: CodeScope, names: Names) -> str:
    """Constant text that an expression stands for; empty if it is not known."""
    if isinstance(syntax, Invocation) and last_name(syntax.function) == "text" and syntax.arguments:
        syntax = syntax.arguments[0]  # of SQLAlchemy
    if isinstance(syntax, NameUse):
        values, _ = names.bound(syntax.name, scope)
        texts = [static_text(one.value) for one in values if isinstance(one.value, Syntax)]
        return next((one for one in texts if _SQL.match(one)), texts[0] if texts else "")
    return static_text(syntax)


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
        for scope in module.scope.walk():
            for call in scope.invocations:
                found = effect_of(call, scope, names)
                if found is None or (module.path, call.line, found[0]) in seen:
                    continue
                kind, what = found
                seen.add((module.path, call.line, kind))
                tool = owners.get(id(scope), "")
                acts = kind not in _READS
                if acts:
                    acting.add(tool)
                place = Place(module.path, call.line)
                reason = f"calls {what}"
                yield SideEffect(kind, what, place, scope.dotted, tool, acts, 0.9, reason)
    for tool_, _ in tools:
        if tool_.effects and tool_.name not in acting:
            reason = "its name says that it acts; no call to the outside was found in it"
            yield SideEffect(
                "named action", tool_.name, tool_.place, tool_.name, tool_.name, True, 0.5, reason
            )
