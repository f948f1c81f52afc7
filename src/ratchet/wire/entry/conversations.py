"""Calls agents that talk: servers of ChatKit, and AutoGen's proxies of a person."""

from __future__ import annotations

import ast

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall
from ratchet.wire.entry.functions import construct
from ratchet.wire.entry.python_file import Function, dotted
from ratchet.wire.entry.site import Site, calls, is_text_name
from ratchet.wire.entry.transplant import Transplant

_THREAD = """now = datetime.now(timezone.utc)
thread = ThreadMetadata(id="task", created_at=now)
message = UserMessageItem(
    id="question",
    thread_id=thread.id,
    created_at=now,
    content=[UserMessageTextContent(text=question)],
    inference_options=InferenceOptions(),
)
answer = ""
async for event in {server}.respond(thread, message, {{"request": None}}):
    if isinstance(event, ThreadItemDoneEvent) and isinstance(event.item, AssistantMessageItem):
        answer = "".join(part.text for part in event.item.content)
return answer"""

_CHATKIT = (
    "AssistantMessageItem",
    "InferenceOptions",
    "ThreadItemDoneEvent",
    "ThreadMetadata",
    "UserMessageItem",
    "UserMessageTextContent",
)


def call_chatkit(site: Site) -> AgentAdapter:
    """An adapter that has a ChatKit server respond to one message, without HTTP.

    Raises:
        CannotCall: The entry is no method of such a server, or the server cannot be made.
    """
    if not site.derives(site.owner, "ChatKitServer") or site.owner is None:
        raise CannotCall(f"{site.entry.name} is no method of a ChatKit server")
    needs = Transplant(site.modules, site.file, None)
    server = construct(site, site.owner, needs)
    return AgentAdapter(
        name=site.function_name({"thread", "message", "answer", "question"}),
        parameters=("question: str",),
        returns="str",
        assumes=f"Has {server} respond to one message in a thread of its own, in this process. The"
        " output is the text of its last message.",
        body=tuple(_THREAD.format(server=server).splitlines()),
        imports=(
            *needs.imports,
            "from datetime import datetime, timezone",
            *(f"from chatkit.types import {one}" for one in _CHATKIT),
        ),
        asynchronous=True,
        used=tuple(dict.fromkeys([site.file.path, *needs.used])),
    )


def call_autogen(site: Site) -> AgentAdapter:
    """An adapter that starts a chat of AutoGen in which nobody answers for the person.

    Raises:
        CannotCall: The entry starts no such chat, or it needs what only the program has.
    """
    function = site.function
    starting = [
        one
        for one in (calls(function) if function else [])
        if dotted(one.func).rpartition(".")[2] in ("initiate_chat", "a_initiate_chat")
    ]
    if function is None or not starting:
        raise CannotCall(f"{site.entry.name} starts no chat of AutoGen")
    call = starting[0]
    assert isinstance(call.func, ast.Attribute)
    waits = call.func.attr.startswith("a_")
    needs = Transplant(site.modules, site.file, function)
    asking = "a_get_human_input" if waits else "get_human_input"
    receiver = call.func.value
    if dotted(receiver).startswith("self.") and site.owner is not None:
        top = Transplant(site.modules, site.file, None)
        made = construct(site, site.owner, top)
        needs.imports.update(top.imports)
        parameter = _text_parameter(function)
        proxy = f"chat.{dotted(receiver).removeprefix('self.')}"
        lines = [f"chat = {made}"]
        start = f"{'await ' if isinstance(function, ast.AsyncFunctionDef) else ''}"
        start += f"chat.{function.name}({parameter})"
    else:
        parameter = "message"
        proxy = needs.expression(receiver)
        keywords = [
            f"{one.arg}={'message' if one.arg == 'message' else needs.expression(one.value)}"
            for one in call.keywords
        ]
        given = [needs.expression(one) for one in call.args]
        if not any(one.arg == "message" for one in call.keywords):
            keywords.append("message=message")
        lines = [*needs.statements]
        start = f"{'await ' if waits else ''}{proxy}.{call.func.attr}"
        start += f"({', '.join([*given, *keywords])})"
    kind = "async def" if waits else "def"
    lines += [
        f"proxy = {proxy}",
        "",
        f"{kind} nobody(prompt: str) -> str:",
        "    last = proxy.last_message()",
        '    return "" if last.get("function_call") or last.get("tool_calls") else "exit"',
        "",
        f"proxy.{asking} = nobody",
        start,
        'return proxy.last_message()["content"]',
    ]
    return AgentAdapter(
        name=site.function_name({"chat", "proxy", "nobody", parameter}),
        parameters=(f"{parameter}: str",),
        returns="str",
        assumes=f"Starts the chat of {site.name} in {site.file.path}. Nobody answers for the"
        " person: calls of tools go on, and a question to the person ends the chat. The output is"
        " the last message.",
        body=tuple(lines),
        imports=tuple(needs.imports),
        asynchronous=waits,
        used=tuple(dict.fromkeys([site.file.path, *needs.used])),
    )


def _text_parameter(function: Function) -> str:
    names = [one.arg for one in [*function.args.args, *function.args.kwonlyargs]][1:]
    texts = [one for one in names if is_text_name(one)]
    required = len(function.args.args) - 1 - len(function.args.defaults)
    if not texts or required > 1:
        raise CannotCall(f"{function.name} takes what no task can give")
    return texts[0]
