"""Runners of what is no plain function: agents that a module exports, and routes of Next.js."""

from __future__ import annotations

import json
import os
import re
from pathlib import PurePosixPath

from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.javascript_file import JavascriptFile
from ratchet.wire.facts import EntryPoint

FIRST_LINE = "// Runs the agent for one task of Ratchet: reads the task, prints the result as JSON."

RUNNER = """\
FIRST_LINE
// Written by ratchet init; change it as you like.
import { existsSync, readFileSync } from "node:fs";

// Standard output is for the result alone: what the program logs goes to standard error.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
ENVIRONMENT
const { input } = JSON.parse(readFileSync(0, "utf8"));
VALUES
const module = await import(PATH);
const run = RUN;
let result = await run(CALL);
if (result?.textStream) result = await new Response(streamOf(result.textStream)).text();
else if (typeof result?.text === "string") result = result.text;
write(JSON.stringify(result ?? null), () => process.exit(0));

function streamOf(parts) {
  return ReadableStream.from(parts).pipeThrough(new TextEncoderStream());
}
"""


def agent_runner(
    files: list[JavascriptFile],
    file: JavascriptFile,
    entry: EntryPoint,
    inner: PurePosixPath,
    environment: str,
) -> str:
    """A runner of an agent that its file exports."""
    name = entry.name
    if not re.search(rf"\bexport\s+(?:const|let|var)\s+{re.escape(name)}\b", _source(file)):
        raise CannotCall(f"{file.path} does not export {name}")
    path, agent, given = f"./{inner}", f"module.{name}", "text"
    if entry.framework == "vercel-ai-sdk":
        given = "{ prompt: text }"
    elif entry.framework == "mastra":
        # Its steps and tools may ask the Mastra instance for other agents.
        for one in files:
            found = re.search(r"\bexport\s+const\s+(\w+)\s*=\s*new\s+Mastra\s*\(", _source(one))
            if found and re.search(rf"\b{re.escape(name)}\b", _source(one)):
                up = os.path.relpath(one.path, PurePosixPath(file.path).parent)
                path = f"./{os.path.normpath(inner.parent / up)}"
                agent = f"module.{found.group(1)}.getAgent({json.dumps(name)})"
    return filled(
        RUNNER,
        ENVIRONMENT=environment,
        VALUES="",
        PATH=json.dumps(path),
        RUN=f"(text) => {agent}.generate({given})",
        CALL='typeof input === "string" ? input : input.message ?? JSON.stringify(input)',
    )


_LAST_MESSAGE = """\

// What the graph answers: its last message, else the whole state.
function answerOf(state) {
  const last = state?.messages?.at?.(-1);
  return last?.content ?? state;
}
"""


def graph_runner(
    file: JavascriptFile, entry: EntryPoint, inner: PurePosixPath, environment: str
) -> str:
    """A runner of a compiled graph of LangGraph that its file exports."""
    source = _source(file)
    exported = rf"\bexport\s+(?:const|let|var)\s+{re.escape(entry.name)}\b"
    if not re.search(exported, source):
        raise CannotCall(f"{file.path} does not export {entry.name}")
    fields = re.findall(r"\b(\w+)\s*:\s*(?:Annotation<\s*string|z\s*\.\s*string\b)", source)
    said = 'messages: [{ role: "user", content: input }]'
    if fields and not _CONVERSES.search(re.sub(r"(?m)^import\b[^;]*?from[^\n]*$", "", source)):
        said = f"{next((one for one in fields if _TEXTS.search(one)), fields[0])}: input"
    shown = filled(
        RUNNER,
        ENVIRONMENT=environment,
        VALUES=f'const given = typeof input === "object" && input !== null ? input : {{ {said} }};',
        PATH=json.dumps(f"./{inner}"),
        RUN=f"async (state) =>\n  answerOf(await module.{entry.name}.invoke(state, {_THREAD}))",
        CALL="given",
    )
    return shown + _LAST_MESSAGE


_CONVERSES = re.compile(
    r"\b(?:MessagesAnnotation|MessagesZodState|state\.messages)\b"
    r"|\bmessages\s*:\s*(?:Annotation|z\b|withLangGraph)"
)
"""A graph whose state holds the messages of a conversation."""
_THREAD = "{ configurable: { thread_id: crypto.randomUUID() } }"


def web_route(path: str) -> str:
    """The URL's path of a file that Next.js serves as a route; empty if it is none."""
    found = re.search(r"(?:^|/)app/(.*)/route\.[mc]?[jt]sx?$", path)
    if found is None:
        return ""
    return "/" + re.sub(r"\([^/]*\)/?", "", found.group(1))


_ANSWER = """\

// The text of an answer: of a stream of the AI SDK its parts, else what the body holds.
async function answerOf(response) {
  const body = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${body.slice(0, 500)}`);
  const parts = [];
  for (const line of body.split("\\n")) {
    const found = /^data: (\\{.*\\})$|^0:(".*")$/.exec(line.trim());
    if (!found) continue;
    const part = JSON.parse(found[1] ?? found[2]);
    if (typeof part === "string") parts.push(part);
    else if (part.type === "text-delta") parts.push(part.delta ?? part.textDelta ?? "");
  }
  if (parts.length) return parts.join("");
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
"""


def route_runner(
    file: JavascriptFile, entry: EntryPoint, inner: PurePosixPath, environment: str
) -> str:
    """A runner that gives a route of Next.js a request with the task's text."""
    names = re.findall(
        r"\{([^{}]*)\}\s*(?::[^=;]{0,80})?=\s*\(?\s*await\s+\w+\.json\(\)", _source(file)
    )
    taken = re.findall(r"(\w+)\s*(?:[:=,]|$)", names[0]) if names else []
    text = next((one for one in taken if _TEXTS.search(one)), "messages")
    if not taken or "messages" in taken or text == "messages":
        shown = 'role: "user", content: text'
        if re.search(r"""from\s+["']ai["']""", _source(file)):
            # As the AI SDK's own clients send them.
            shown = f'id: "1", {shown}, parts: [{{ type: "text", text }}]'
        said = f"{{ messages: [{{ {shown} }}] }}"
    else:
        said = f"{{ {text}: text }}"
    values = (
        'const text = typeof input === "string" ? input : JSON.stringify(input);\n'
        f'const body = typeof input === "object" && input !== null ? input : {said};\n'
        f'const request = new Request("http://127.0.0.1{web_route(file.path)}", {{\n'
        f'  method: "{entry.name}",\n'
        '  headers: { "content-type": "application/json" },\n'
        "  body: JSON.stringify(body),\n"
        "});"
    )
    shown = filled(
        RUNNER,
        ENVIRONMENT=environment,
        VALUES=values,
        PATH=json.dumps(f"./{inner}"),
        RUN=f"async (given) => answerOf(await module.{entry.name}(given))",
        CALL="request",
    )
    return shown + _ANSWER


_TEXTS = re.compile(r"^(?:messages|question|query|prompt|message|input|text|topic|content)$")


def _source(file: JavascriptFile) -> str:
    return file.data.decode(errors="replace")


def filled(template: str, **parts: str) -> str:
    """A template with its words in capitals replaced; lines that become empty go."""
    parts["FIRST_LINE"] = FIRST_LINE
    for word in (f"{name}\n" for name, text in parts.items() if not text):
        template = template.replace(f"\n{word}", "\n")
    return re.sub("|".join(parts), lambda found: parts[found.group()], template)
