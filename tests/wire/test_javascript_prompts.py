"""Prompts and tools in JavaScript and TypeScript that are wired in the code, and what Node does."""

# ruff: noqa: E501 - programs of others, line by line

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.cli.app import run
from ratchet.source.javascript_prompts import declared_prompts
from ratchet.types import PromptTemplate
from ratchet.wire import look
from ratchet.wire.changes import Changes, apply_pieces
from ratchet.wire.checking import CheckReport, check
from ratchet.wire.codemods import bind_prompts
from ratchet.wire.entry import wire_entry
from ratchet.wire.former import make_plan, write
from ratchet.wire.former.doctor import diagnose
from ratchet.wire.former.tokens import tokens_of
from ratchet.wire.recommending import recommend
from tests.javascript.built import built
from tests.node_packages import node
from tests.repositories import committed
from tests.wire.wiring import wired_and_undone, with_git

LONG = "You plan the shelves of a public library and explain each choice to the staff in charge."
PACKAGE = {
    "name": "shelves",
    "type": "module",
    "scripts": {"test": "node --test"},
    "dependencies": {"openai": "^6.0.0"},
}
AGENT = f"""\
import OpenAI from "openai";

const RULES = "{LONG}";
const STYLE = `Keep {{"tone": 1}} and \\`ticks\\`, it costs $${{RULES.length}} {{book}} \\u{{1F4DA}}
  on two lines of the text, ${{RULES.length > 9 ? `${{[1, {{ a: 2 }}]}}` : "short"}}.`;

export const ask = async ({{ question, shelves = 4 }}) => {{
  const messages = [
    {{ role: "system", content: RULES + "\\n" + STYLE }}, // both
    {{ role: "user", content: `FormerPlan ${{shelves}} shelves for ${{question.trim()}}, and
explain each of the ${{shelves}} shelves in one or two short sentences.` }},
  ];
  const done = await new OpenAI().chat.completions.create({{ model: "m", messages }});
  if (question.includes("order")) await order(question);
  return done.choices[0].message.content;
}};

async function order(book) {{
  await fetch("http://127.0.0.1:9/orders", {{ method: "POST", body: book }});
}}
"""
CLIENT = """\
export default class OpenAI {
  chat = { completions: { create: async (body) => {
    const url = `${process.env.OPENAI_BASE_URL}/chat/completions`;
    return (await fetch(url, { method: "POST", body: JSON.stringify(body) })).json();
  } } };
}
"""


def wired(root: Path, files: dict[str, bytes | str]) -> tuple[dict[str, str], Changes]:
    """The files that the prompts' and the entry's step change, and all that is left alone."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    committed(root)
    facts = look(root)
    choices = recommend(facts).choices
    assert choices is not None
    parts = [step(root, facts, choices).changes for step in (bind_prompts, wire_entry)]
    whole = Changes.combined(parts)
    made = {
        one.path: apply_pieces((root / one.path).read_bytes(), one.pieces).decode()
        for one in whole.files
        if one.content is None
    }
    return made, whole


def source(text: str, *, call: str = "RULES") -> str:
    """A module that gives a model what an expression is."""
    return (
        f'import OpenAI from "openai";\n{text}\nexport async function ask(question) {{\n'
        f'  const messages = [{{ role: "system", content: {call} }}];\n'
        '  return new OpenAI().chat.completions.create({ model: "m", messages });\n}\n'
    )


def reasons(changes: Changes) -> list[str]:
    """Why prompts are left alone."""
    return [one.why for one in changes.left_alone if "gateway" in one.why]


def test_prompts_are_declared_where_they_stand_and_every_other_byte_stays(tmp_path: Path) -> None:
    made, changes = wired(tmp_path, {"index.js": AGENT, "package.json": json.dumps(PACKAGE)})
    text = made["index.js"]
    assert text.startswith(
        'import OpenAI from "openai";\nimport * as ratchet from "agent-ratchet";\n'
    )
    assert f'const RULES = ratchet.prompt("rules", "{LONG}").text;' in text
    assert "costs \\${RULES_length} {{book}}" in text
    assert (
        "Plan {shelves} shelves for {question_trim}, and\nexplain each of the {shelves_2}" in text
    )
    assert "question_trim: `${question.trim()}`" in text
    assert "// both\n" in text
    assert "const order = ratchet.tool(async function order(book) {" in text
    assert '}, { name: "order", sideEffects: true });\n' in text
    assert json.loads(made["package.json"])["dependencies"]["agent-ratchet"] == "^0.1.0"
    assert reasons(changes) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            source(f"const RULES = '{LONG}';").replace('"', "'"),
            "import * as ratchet from 'agent-ratchet';",
        ),
        (
            source(f'const RULES = "{LONG}"').replace(";", ""),
            'import * as ratchet from "agent-ratchet"',
        ),
        (
            source(f'const ratchet = 1;\nconst RULES = "{LONG}";'),
            'import * as agentRatchet from "agent-ratchet";',
        ),
        (
            source(f'const RULES = "{LONG}";')
            .replace(
                'import OpenAI from "openai"', '"use strict";\nconst OpenAI = require("openai")'
            )
            .replace("export async function ask", "module.exports = { ask };\nasync function ask"),
            'const ratchet = require("agent-ratchet");',
        ),
    ],
    ids=["quotes", "semicolons", "name-taken", "commonjs"],
)
def test_the_import_is_in_the_modules_own_style(tmp_path: Path, text: str, line: str) -> None:
    package = json.dumps(PACKAGE if "require" not in text else PACKAGE | {"type": "commonjs"})
    made, _ = wired(tmp_path, {"index.js": text, "package.json": package})
    assert line in made["index.js"].splitlines()
    assert made["index.js"].count("agent-ratchet") == 1


def test_line_ends_and_the_byte_order_mark_are_kept(tmp_path: Path) -> None:
    text = source(f'const RULES = "{LONG} äöü";').replace("\n", "\r\n")
    data = b"\xef\xbb\xbf" + text.encode()
    made, _ = wired(tmp_path, {"index.js": data, "package.json": json.dumps(PACKAGE)})
    whole = made["index.js"]
    assert whole.startswith("\ufeffimport OpenAI")
    assert whole.count("\n") == whole.count("\r\n") == text.count("\n") + 1
    assert f'ratchet.prompt("rules", "{LONG} äöü").text' in whole


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        (f"const RULES = dedent`{LONG}`;", "RULES", "A tag reads its template"),
        (f'"use client";\nconst RULES = "{LONG}";', "RULES", "bundled for the browser"),
        (f'export const runtime = "edge";\nconst RULES = "{LONG}";', "RULES", "runs at the edge"),
        (f'const RULES = "{LONG}" as const;', "RULES", "its veryliteral"),
    ],
    ids=["tag", "browser", "edge", "as-const"],
)
def test_what_cannot_be_declared_goes_on_by_the_gateway_with_a_reason(
    tmp_path: Path, text: str, call: str, why: str
) -> None:
    whole = source(text, call=call)
    if text.startswith('"use client"'):
        whole = '"use client";\n' + whole.replace('"use client";\n', "")
    made, changes = wired(tmp_path, {"index.ts": whole, "package.json": json.dumps(PACKAGE)})
    assert "agent-ratchet" not in made.get("index.ts", "")
    (said,) = reasons(changes)
    assert why.replace("its veryliteral", "this very literal") in said
    assert said.endswith("The gateway replaces it, where it is a system message.")


def test_tools_that_act_are_wrapped_and_others_are_not(tmp_path: Path) -> None:
    tools = """\
import { tool } from "ai";
import { unlink } from "node:fs/promises";

const remove = async (path: string) => {
  await unlink(path);
};

export class Desk {
  async close(path: string) {
    await unlink(path);
  }
}

export const tools = {
  look_up: tool({ description: "Looks up.", execute: async ({ book }) => `${book} is here` }),
  order_book: tool({
    description: "Orders.",
    async execute({ book }) {
      await remove(book);
    },
  }),
  add_to_cart: tool({ description: "Adds.", execute: async () => ({ done: true }) }),
};
"""
    agent = (
        'import { generateText } from "ai";\nimport { openai } from "@ai-sdk/openai";\n'
        'import { tools } from "./tools";\n'
        "export async function ask(question: string) {\n"
        f'  return generateText({{ model: openai("m"), tools, system: "{LONG}", prompt: question }});\n}}\n'
    )
    package = PACKAGE | {"dependencies": {"ai": "^5.0.0", "@ai-sdk/openai": "^2.0.0"}}
    files = {"agent.ts": agent, "tools.ts": tools, "package.json": json.dumps(package)}
    made, changes = wired(tmp_path, files)
    text = made["tools.ts"]
    assert "const remove = ratchet.tool(async (path: string) => {" in text
    assert "execute: ratchet.tool(async function ({ book }) {" in text
    assert 'execute: ratchet.tool(async () => ({ done: true }), { name: "add_to_cart"' in text
    assert "execute: async ({ book }) => `${book} is here` })" in text
    assert text.count("sideEffects: true") == 3
    (left,) = [one for one in changes.left_alone if "sideEffects" in one.why]
    assert left.what == "Desk.close (delete)"


def test_tools_of_langchain_are_wrapped_without_losing_their_types(tmp_path: Path) -> None:
    text = (
        'import { ChatOpenAI } from "@langchain/openai";\n'
        'import { DynamicStructuredTool, tool } from "@langchain/core/tools";\n'
        'const order = tool(async ({ book }) => book, { name: "order_book", schema });\n'
        "const send = new DynamicStructuredTool({\n"
        '  name: "send_note", schema, func: async ({ book }) => book,\n});\n'
        "async function cancelOrder({ book }) {\n  return book;\n}\n"
        "const cancel = tool(cancelOrder, { schema });\n"
        "export async function ask(question: string) {\n"
        f'  const messages = [["system", "{LONG}"], ["user", question]];\n'
        "  return new ChatOpenAI().bindTools([order, send, cancel]).invoke(messages);\n}\n"
    )
    package = json.dumps(PACKAGE | {"dependencies": {"@langchain/openai": "^1.0.0"}})
    made, _ = wired(tmp_path, {"agent.ts": text, "package.json": package})
    whole = made["agent.ts"]
    typed = "ratchet.tool<(...given: any[]) => any>(async ({ book }) => book, "
    assert f'tool({typed}{{ name: "order_book", sideEffects: true }}), {{ name' in whole
    assert f'func: {typed}{{ name: "send_note", sideEffects: true }}),' in whole
    given = 'any>(cancelOrder, { name: "cancelOrder", sideEffects: true }), { schema });'
    assert f"tool(ratchet.tool<(...given: any[]) => {given}" in whole


def test_it_is_taken_back_and_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    source_ = tmp_path / "source"
    (source_ / "src").mkdir(parents=True)
    (source_ / "src/index.ts").write_text(AGENT)
    (source_ / "package.json").write_text(json.dumps(PACKAGE, indent=2) + "\n")
    root = with_git(source_, tmp_path / "copy")
    assert set(wired_and_undone(root, look(root)).values()) == {""}


def test_doctor_says_what_of_it_no_longer_fits(tmp_path: Path) -> None:
    tools = (
        'import { tool } from "ai";\n'
        'export const tools = { order: tool({ description: "Orders.", execute: async () => 1 }) };\n'
    )
    agent = (
        'import { generateText } from "ai";\nimport { tools } from "./tools";\n'
        f'const RULES = "{LONG}";\nexport async function ask(prompt) {{\n'
        '  return generateText({ model: "m", tools, system: RULES, prompt });\n}\n'
    )
    package = json.dumps(PACKAGE | {"dependencies": {"ai": "^5.0.0"}}, indent=2)
    for name, text in {"agent.js": agent, "tools.js": tools, "package.json": package}.items():
        (tmp_path / name).write_text(text)
    facts = look(tmp_path)
    choices = recommend(facts).choices
    assert choices is not None
    write(tmp_path, make_plan(tmp_path, facts, choices))
    (tmp_path / "tasks.jsonl").write_text('{"input": "x"}\n')
    assert diagnose(tmp_path).misfits == ()
    for name, old, new in (
        ("tools.js", (tmp_path / "tools.js").read_text(), tools),
        ("agent.js", f'ratchet.prompt("rules", "{LONG}").text', '""'),
        ("package.json", "agent-ratchet", "agent-elsewhere"),
    ):
        text = (tmp_path / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
    said = {one.what for one in diagnose(tmp_path).misfits}
    assert "It does not name agent-ratchet." in said
    assert "The tool order has side effects and is not marked." in said
    assert "What declared the prompt rules is not there any more." in said


def test_a_template_with_code_in_its_slots_is_one_token() -> None:
    text = "a(`x ${b ? `it's ${c}` : 'y'} don't`, s.replace(/['`]/g, ''), 4 / 2 / `z`);"
    found = [one.text for one in tokens_of(text, "a.ts")]
    assert found[2] == "`x ${b ? `it's ${c}` : 'y'} don't`"
    assert "/['`]/g" in found
    assert found[-7:] == ["4", "/", "2", "/", "`z`", ")", ";"]


def test_a_file_of_which_a_page_imports_types_alone_is_not_bundled(tmp_path: Path) -> None:
    page = '"use client";\nimport { Shelf } from "./agent";\nimport { ask } from "./action";\n'
    action = '"use server";\nimport { ask as run } from "./agent";\nexport const ask = run;\n'
    agent = source(f'export type Shelf = string;\nconst RULES = "{LONG}";')
    files = {"page.tsx": page, "action.ts": action, "agent.ts": agent}
    made, changes = wired(tmp_path, {**files, "package.json": json.dumps(PACKAGE)})
    assert "ratchet.prompt(" in made["agent.ts"]
    assert reasons(changes) == []


def test_a_file_that_a_function_writes_and_deletes_itself_is_no_side_effect(tmp_path: Path) -> None:
    text = source(
        'import { unlink, writeFile } from "node:fs/promises";\n'
        "async function check(text) {\n  await writeFile('x', text);\n  await unlink('x');\n}\n"
        "async function clear() {\n  await unlink('y');\n}\n"
        f'const RULES = "{LONG}";'
    )
    made, _ = wired(tmp_path, {"index.js": text, "package.json": json.dumps(PACKAGE)})
    assert "const clear = ratchet.tool(async function clear() {" in made["index.js"]
    assert "\nasync function check(text) {" in made["index.js"]


def test_declared_prompts_are_found_however_the_package_is_imported(tmp_path: Path) -> None:
    texts = {
        "a.mjs": 'import * as r from "agent-ratchet";\nr.prompt("a", "Say {this} " + "twice");\n',
        "b.ts": 'import { tool, prompt as p } from "agent-ratchet";\np("b", `One\\n{two}`).text;\n',
        "c.cjs": 'const { prompt } = require("agent-ratchet");\nprompt("c", \'{"x": 1}\', { engine: "plain" });\n',
        "d.js": 'import { prompt } from "elsewhere"; // agent-ratchet\nprompt("d", "No");\n',
        "e.test.js": 'import { prompt } from "agent-ratchet";\nprompt("e", "No");\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = declared_prompts(tmp_path, sorted(tmp_path.iterdir()))
    assert {one.name: one.template for one in found} == {
        "a": PromptTemplate("Say {this} twice"),
        "b": PromptTemplate("One\n{two}"),
        "c": PromptTemplate('{"x": 1}', "plain"),
    }


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    """The folder of the npm package, built from this checkout."""
    folder = built()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.xdist_group("node")
def test_a_wired_program_sends_the_same_texts_and_a_candidates_and_denies_its_tools(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node()
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.com")
    root = tmp_path / "library"
    root.mkdir()
    (root / "index.js").write_text(AGENT)
    (root / "package.json").write_text(json.dumps(PACKAGE))
    (root / "client.test.js").write_text(
        'import "openai";\nimport { test } from "node:test";\ntest("it is there", () => {});\n'
    )
    (root / ".gitignore").write_text("node_modules/\n")
    (root / "tasks.jsonl").write_text('{"input": {"question": "order owls"}}\n')
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "the agent"]):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    assert run(["init", str(root), "--yes", "--no-check"]) == 0
    client = root / "node_modules" / "openai"
    client.mkdir(parents=True)
    (client / "package.json").write_text('{"name": "openai", "main": "i.mjs"}\n')
    (client / "i.mjs").write_text(CLIENT)
    (root / "node_modules" / "agent-ratchet").symlink_to(package, target_is_directory=True)
    report = check(root, python=Path(sys.executable))
    assert states(report) == {
        "agent": "verified",
        "trace": "not verified",
        "same prompts": "verified",
        "changed prompts": "verified",
        "side effects": "verified",
        "tests": "verified",
    }, report
    assert report.findings[-1].why == "`npm test`: they pass as before."
    assert "'order'" in next(one.why for one in report.findings if one.what == "side effects")


def states(report: CheckReport) -> dict[str, str]:
    """The state of each finding."""
    return {one.what: one.state for one in report.findings}
