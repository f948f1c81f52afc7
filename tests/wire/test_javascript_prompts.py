"""Prompts in JavaScript and TypeScript are declared where they stand, and what Node sends then."""

# ruff: noqa: E501 - programs of others, line by line

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.source.javascript_prompts import declared_prompts
from ratchet.source.literals.search import byte_span, read_file
from ratchet.types import PromptTemplate
from ratchet.wire.changes import Changes, apply_pieces
from ratchet.wire.codemods import PromptLiteral, declare
from tests.javascript.built import built
from tests.node_packages import node

NAMES = {"You plan": "rules", "Keep": "style", "Plan": "task"}
"""Prompts by how they begin."""
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
    {{ role: "user", content: `Plan ${{shelves}} shelves for ${{question.trim()}}, and
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
    console.log(JSON.stringify(body));
    return { choices: [{ message: { content: "" } }] };
  } } };
}
"""


def declared(root: Path, files: dict[str, bytes | str]) -> tuple[dict[str, str], Changes]:
    """The files with their long literals declared, and all that is left alone."""
    literals = []
    for path, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        if path.endswith(".json"):
            continue
        decoded = data.decode()
        for literal in read_file(decoded, path).literals:
            first = data.decode()[literal.span[0] : literal.span[0] + 9]
            name = NAMES.get(next((word for word in NAMES if word in first), ""))
            if name:
                literals.append(PromptLiteral(name, path, *byte_span(decoded, literal.span)))
    changes = declare(root, literals).changes
    made = {
        change.path: apply_pieces((root / change.path).read_bytes(), change.pieces).decode()
        for change in changes.files
    }
    return made, changes


def source(text: str, *, call: str = "RULES") -> str:
    """A module that gives a model what an expression is."""
    return (
        f'import OpenAI from "openai";\n{text}\nexport async function ask(question) {{\n'
        f'  const messages = [{{ role: "system", content: {call} }}];\n'
        '  return new OpenAI().chat.completions.create({ model: "m", messages });\n}\n'
    )


def reasons(changes: Changes) -> list[str]:
    """Why prompts are left alone."""
    return [one.why for one in changes.left_alone]


def test_prompts_are_declared_where_they_stand_and_every_other_byte_stays(tmp_path: Path) -> None:
    made, changes = declared(tmp_path, {"index.js": AGENT, "package.json": json.dumps(PACKAGE)})
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
    made, _ = declared(tmp_path, {"index.js": text, "package.json": package})
    assert line in made["index.js"].splitlines()
    assert made["index.js"].count("agent-ratchet") == 1


def test_line_ends_and_the_byte_order_mark_are_kept(tmp_path: Path) -> None:
    text = source(f'const RULES = "{LONG} äöü";').replace("\n", "\r\n")
    data = b"\xef\xbb\xbf" + text.encode()
    made, _ = declared(tmp_path, {"index.js": data, "package.json": json.dumps(PACKAGE)})
    whole = made["index.js"]
    assert whole.startswith("\ufeffimport OpenAI")
    assert whole.count("\n") == whole.count("\r\n") == text.count("\n") + 1
    assert f'ratchet.prompt("rules", "{LONG} äöü").text' in whole


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        (f"const RULES = dedent`{LONG}`;", "RULES", "tagged template"),
        (f'"use client";\nconst RULES = "{LONG}";', "RULES", "bundled for a browser"),
        (
            f'export const runtime = "edge";\nconst RULES = "{LONG}";',
            "RULES",
            "runs on an edge runtime",
        ),
        (f'const RULES = "{LONG}" as const;', "RULES", "its veryliteral"),
    ],
    ids=["tag", "browser", "edge", "as-const"],
)
def test_what_cannot_be_declared_stays_as_it_is_with_a_reason(
    tmp_path: Path, text: str, call: str, why: str
) -> None:
    whole = source(text, call=call)
    if text.startswith('"use client"'):
        whole = '"use client";\n' + whole.replace('"use client";\n', "")
    made, changes = declared(tmp_path, {"index.ts": whole, "package.json": json.dumps(PACKAGE)})
    assert "agent-ratchet" not in made.get("index.ts", "")
    (said,) = reasons(changes)
    assert why.replace("its veryliteral", "this exact text") in said


@pytest.mark.parametrize(
    ("path", "is_declared"),
    [("lib/prompts.ts", False), ("app/api/chat/route.ts", True), ("server/agent.ts", True)],
)
def test_in_a_project_that_makes_pages_only_files_of_the_server_are_declared(
    path: str, is_declared: bool, tmp_path: Path
) -> None:
    package = json.dumps(PACKAGE | {"dependencies": {"next": "15", "react-dom": "19"}})
    files = {path: source(f'const RULES = "{LONG}";'), "package.json": package}
    made, changes = declared(tmp_path, files)
    assert (path in made) is is_declared
    assert bool(reasons(changes)) is not is_declared


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
def test_a_program_with_declared_prompts_sends_the_same_texts(
    package: Path, tmp_path: Path
) -> None:
    node()
    files = {"index.js": AGENT, "package.json": json.dumps(PACKAGE)}
    made, _ = declared(tmp_path, files)
    client = tmp_path / "node_modules" / "openai"
    client.mkdir(parents=True)
    (client / "package.json").write_text('{"name": "openai", "main": "i.mjs"}\n')
    (client / "i.mjs").write_text(CLIENT)
    (tmp_path / "node_modules" / "agent-ratchet").symlink_to(package, target_is_directory=True)
    (tmp_path / "main.js").write_text(
        'import { ask } from "./index.js";\nawait ask({ question: " owls " });\n'
    )
    sent = []
    for text in (AGENT, made["index.js"]):
        (tmp_path / "index.js").write_text(text)
        done = subprocess.run(
            ["node", "main.js"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        sent.append(done.stdout)
    assert "ticks" in sent[0]
    assert sent[0] == sent[1]
