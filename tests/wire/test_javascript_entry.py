"""Programs in JavaScript and TypeScript, wired: what is written, and what Node then does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ratchet.wire import RepositoryLook, look
from ratchet.wire.changes import Piece, StepChanges, apply_pieces
from ratchet.wire.choices import Choices
from ratchet.wire.entry import wire_entry
from ratchet.wire.entry.javascript_file import JavascriptFile
from ratchet.wire.former import again, commit, make_plan, undo
from ratchet.wire.project_files.package_json import in_package_json
from ratchet.wire.recommending import recommend
from tests.repositories import committed, git

PROVIDERS = """\
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createMistral } from '@ai-sdk/mistral';

// three providers
export const first = createOpenAI({
  apiKey: process.env.SHELF_OPENAI_KEY,
});
export const second = createOpenAI({ baseURL: 'https://models.example.invalid/v1' });
export const third = createAnthropic();
export const fourth = createMistral({});
export const fifth = createOpenAI({ baseURL: process.env.SHELF_OPENAI_ENDPOINT || 'x' });
"""
AGENT = """\
import { generateText } from 'ai';

import { first } from './providers';

type Wanted = { topic: string; shelves: number; language?: string };

export const planShelves = async ({ topic, shelves, language = 'en' }: Wanted) => {
  console.log('planning', topic);
  const { text } = await generateText({
    model: first('m'),
    system: 'You plan the shelves of a public library and explain each choice.',
    prompt: `FormerPlan ${shelves} shelves about ${topic} in ${language}.`,
  });
  return text;
};
"""
MAIN = """\
import { planShelves } from './agent';

const shelves = Number(process.env.SHELVES) || 4;
planShelves({ topic: 'owls', shelves }).then(console.log);
"""
PACKAGE = {
    "name": "shelves",
    "type": "module",
    "scripts": {"start": "tsx --env-file=.env.local src/main.ts"},
    "dependencies": {"@ai-sdk/openai": "^1.1.0", "ai": "^4.1.0"},
}


def wired(root: Path, files: dict[str, str], entry: str) -> tuple[StepChanges, Choices]:
    """A repository with these files, wired for one of its entries."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    committed(root)
    facts = look(root)
    found = next(one for one in facts.entries if one.name == entry)
    choices = recommend(facts, entry=found).choices
    assert choices is not None
    return wire_entry(root, facts, choices), choices


def after(root: Path, step: StepChanges) -> dict[str, str]:
    """The text of each file that a step changes or creates."""
    return {
        one.path: one.content
        if one.content is not None
        else apply_pieces((root / one.path).read_bytes(), one.pieces).decode()
        for one in step.changes.files
    }


def shelves(root: Path) -> dict[str, str]:
    """The files of the example."""
    return {
        "src/providers.ts": PROVIDERS,
        "src/agent.ts": AGENT,
        "src/main.ts": MAIN,
        "package.json": json.dumps(PACKAGE, indent=2) + "\n",
    }


def test_clients_get_a_base_url_of_the_environment_and_keep_their_own_as_the_default(
    tmp_path: Path,
) -> None:
    step, _ = wired(tmp_path, shelves(tmp_path), "planShelves")
    made = after(tmp_path, step)["src/providers.ts"]
    assert "createOpenAI({\n  baseURL: process.env.OPENAI_BASE_URL,\n  apiKey" in made
    assert "baseURL: process.env.OPENAI_BASE_URL ?? 'https://models.example.invalid/v1'" in made
    assert "createAnthropic({ baseURL: process.env.ANTHROPIC_BASE_URL &&" in made
    assert "createMistral({})" in made
    assert "baseURL: process.env.SHELF_OPENAI_ENDPOINT || 'x'" in made
    assert not JavascriptFile("p.ts", made.encode()).root.has_error
    assert [one.what for one in step.changes.left_alone] == ["createMistral of @ai-sdk/mistral"]
    agent = step.config["agent"]
    assert agent["model_base_url"] == ["SHELF_OPENAI_ENDPOINT"]
    assert agent["model_key"] == ["SHELF_OPENAI_KEY"]
    assert agent["command"] == "node --import tsx ratchet_agent.mjs"


def test_the_ready_instance_of_a_provider_becomes_one_with_a_base_url(tmp_path: Path) -> None:
    agent = AGENT.replace(
        "{ first } from './providers'", "{ openai as first } from '@ai-sdk/openai'"
    )
    files = {**shelves(tmp_path), "src/agent.ts": agent}
    step, _ = wired(tmp_path, files, "planShelves")
    made = after(tmp_path, step)["src/agent.ts"]
    assert "import { createOpenAI } from '@ai-sdk/openai';" in made
    assert "const first = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });" in made
    assert made.index("import { generateText") < made.index("const first")
    assert not JavascriptFile("p.ts", made.encode()).root.has_error


def test_the_runner_gives_required_arguments_what_the_program_gives_them(tmp_path: Path) -> None:
    step, _ = wired(tmp_path, shelves(tmp_path), "planShelves")
    runner = after(tmp_path, step)["ratchet_agent.mjs"]
    assert "const values = { shelves: 4, ..." in runner
    assert "{ topic: input }" in runner
    assert '".env.local"' in runner
    assert not re.search(r"\b[A-Z]{4,}\b(?!_)", re.sub(r"//.*|[A-Z]+\.", "", runner)), runner


def test_tsx_is_added_to_package_json_only_where_nothing_else_runs_typescript(
    tmp_path: Path,
) -> None:
    files = shelves(tmp_path)
    files["package.json"] = files["package.json"].replace("tsx --env", "node --env")
    files["package-lock.json"] = "{}\n"
    step, _ = wired(tmp_path, files, "planShelves")
    made = json.loads(after(tmp_path, step)["package.json"])
    assert list(made["devDependencies"]) == ["tsx"]
    assert {**made, "devDependencies": None} == {
        **PACKAGE,
        "devDependencies": None,
        "scripts": made["scripts"],
    }
    assert "package-lock.json" in {one.what for one in step.changes.left_alone}


RUNS: dict[str, tuple[str, Any, Any]] = {
    "a field of an object": (
        "export async function ask({ question }) { console.log('x'); return ask2(question); }",
        "why",
        "WHY",
    ),
    "one argument that is an object": (
        "export const ask = async (request) => ask2(request.question);",
        {"question": "why"},
        "WHY",
    ),
    "several arguments": (
        "export async function ask(question, times = 1) {"
        " return (await ask2(question)).repeat(times); }",
        {"question": "why", "times": 2},
        "WHYWHY",
    ),
    "an argument that nothing gives": (
        "export const ask = (question, user) => ask2(question + (user ?? ''));",
        "why",
        "WHY",
    ),
    "a method of a class": (
        "export class Desk { constructor(tone = '!') { this.tone = tone; }"
        " async ask(question) { return (await ask2(question)) + this.tone; } }",
        "why",
        "WHY!",
    ),
    "a default export": (
        "export default async function ask(text) { return ask2(text); }",
        "a",
        "A",
    ),
    "not exported": (
        "async function ask(text) { return { text: await ask2(text) }; }\nask;",
        "a",
        "A",
    ),
    "a stream": (
        "export async function ask(text) { const made = await ask2(text);"
        " return { textStream: (async function* () { yield made; yield '!'; })() }; }",
        "a",
        "A!",
    ),
}
HEAD = """\
import OpenAI from 'openai';
const client = () => new OpenAI();
async function ask2(text) {
  if (text === undefined) await client().chat.completions.create({ model: 'm', messages: [
    { role: 'system', content: 'You answer in capitals, and never say more than you know.' },
    { role: 'user', content: text } ] });
  return text.toUpperCase();
}
"""


@pytest.mark.parametrize("case", RUNS)
def test_the_runner_calls_the_function_and_prints_its_result_alone(
    case: str, tmp_path: Path
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    source, given, expected = RUNS[case]
    files = {
        "agent.js": HEAD + source + "\n",
        "package.json": '{"type": "module", "dependencies": {"openai": "^4"}}\n',
    }
    step, _ = wired(tmp_path, files, "Desk.ask" if "Desk" in source else "ask")
    for path, text in after(tmp_path, step).items():
        (tmp_path / path).write_text(text)
    library = tmp_path / "node_modules" / "openai"
    library.mkdir(parents=True)
    (library / "package.json").write_text('{"type": "module", "main": "index.js"}')
    (library / "index.js").write_text("export default class {}\n")
    command = step.config["agent"]["command"].split()
    assert command[0] == "node"
    done = subprocess.run(
        [node, *command[1:]],
        cwd=tmp_path,
        input=json.dumps({"input": given}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


GRAPH = """\
import OpenAI from 'openai';
import { Annotation, MessagesAnnotation, StateGraph } from '@langchain/langgraph';
STATE
async function answer(state) {
  if (state.never) await new OpenAI().chat.completions.create({ model: 'm', messages: [
    { role: 'system', content: 'You answer in capitals, and never say more than you know.' },
    { role: 'user', content: String(state) } ] });
  return RETURNED;
}
export const graph = new StateGraph(State)
  .addNode('answer', answer).addEdge('__start__', 'answer').compile();
"""
LANGGRAPH = """\
export const Annotation = Object.assign(() => 0, { Root: (fields) => fields });
export const MessagesAnnotation = {};
export class StateGraph {
  addNode(name, node) { this.node = node; return this; }
  addEdge() { return this; }
  compile() {
    return {
      invoke: async (given, config) => {
        if (!config.configurable.thread_id) throw new Error('no thread');
        return { ...given, ...(await this.node(given)) };
      },
    };
  }
}
"""


@pytest.mark.parametrize(
    ("state", "returned", "expected"),
    [
        (
            "const State = MessagesAnnotation;",
            "{ messages: [...state.messages, { content: state.messages[0].content + '!' }] }",
            "Where?!",
        ),
        (
            "const State = Annotation.Root({\n  shelf: Annotation<string>,\n"
            "  topic: Annotation<string>,\n});",
            "{ shelf: state.topic.length }",
            {"topic": "Where?", "shelf": 6},
        ),
    ],
)
def test_a_compiled_graph_is_invoked_with_the_task_in_its_state(
    state: str, returned: str, expected: object, tmp_path: Path
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    source = GRAPH.replace("STATE", state).replace("RETURNED", returned)
    files = {
        "graph.ts": source,
        "langgraph.json": '{"graphs": {"desk": "./graph.ts:graph"}}',
        "package.json": '{"type": "module", "devDependencies": {"tsx": "^4"}, '
        '"dependencies": {"openai": "^4", "@langchain/langgraph": "^0.4"}}\n',
    }
    step, _ = wired(tmp_path, files, "graph")
    for path, text in after(tmp_path, step).items():
        (tmp_path / path).write_text(text)
    # What TypeScript adds is taken away: tsx is not installed here.
    plain = (tmp_path / "graph.ts").read_text().replace("Annotation<string>", "Annotation()")
    (tmp_path / "graph.ts").unlink()
    (tmp_path / "graph.mjs").write_text(plain)
    runner = tmp_path / "ratchet_agent.mjs"
    runner.write_text(runner.read_text().replace("./graph.ts", "./graph.mjs"))
    for name, text in (
        ("openai", "export default class {}\n"),
        ("@langchain/langgraph", LANGGRAPH),
    ):
        library = tmp_path / "node_modules" / name
        library.mkdir(parents=True)
        (library / "package.json").write_text('{"type": "module", "main": "index.js"}')
        (library / "index.js").write_text(text)
    done = subprocess.run(
        [node, "ratchet_agent.mjs"],
        cwd=tmp_path,
        input=json.dumps({"input": "Where?"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def test_a_module_of_commonjs_is_imported_by_what_it_exports(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    head = HEAD.replace("import OpenAI from 'openai';", "const OpenAI = require('openai');")
    source = head + "function ask(text) { return ask2(text); }\nmodule.exports = { ask };\n"
    step, _ = wired(tmp_path, {"agent.js": source, "package.json": "{}\n"}, "ask")
    assert [one.path for one in step.changes.files] == ["ratchet_agent.mjs"]
    (tmp_path / "ratchet_agent.mjs").write_text(after(tmp_path, step)["ratchet_agent.mjs"])
    library = tmp_path / "node_modules" / "openai"
    library.mkdir(parents=True)
    (library / "index.js").write_text("module.exports = class {};\n")
    given = json.dumps({"input": "a"})
    done = subprocess.run(
        [node, "ratchet_agent.mjs"],
        cwd=tmp_path,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == '"A"', done.stderr


def test_a_program_without_an_input_is_left_alone_with_what_to_do(tmp_path: Path) -> None:
    source = HEAD + "export async function ask() { return ask2(undefined); }\n"
    files = {"agent.js": source, "package.json": '{"type": "module"}\n'}
    step, _ = wired(tmp_path, files, "ask")
    assert step.config == {}
    why = next(one.why for one in step.changes.left_alone if one.what == "ask")
    assert "takes no input" in why
    assert "[agent] command" in why


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "devDependencies": {\n    "tsx": "1"\n  }\n}\n'),
        (
            '{\r\n\t"devDependencies": {\r\n\t\t"a": "1",\r\n\t\t"z": "1"\r\n\t}\r\n}',
            '{\r\n\t"devDependencies": {\r\n\t\t"a": "1",\r\n\t\t"tsx": "1",'
            '\r\n\t\t"z": "1"\r\n\t}\r\n}',
        ),
        ('{"devDependencies": {}}', '{"devDependencies": {"tsx": "1"}}'),
        ('{"devDependencies":{"z":"1"}}', '{"devDependencies":{"tsx":"1","z":"1"}}'),
        ("{}", '{"devDependencies":{"tsx":"1"}}'),
    ],
)
def test_a_package_is_added_in_the_files_own_style(before: str, expected: str) -> None:
    piece = in_package_json(before.encode(), "devDependencies", "tsx", "1")
    assert isinstance(piece, Piece)
    made = apply_pieces(before.encode(), (piece,)).decode()
    json.loads(made)
    assert re.sub(r"\s", "", made) == re.sub(r"\s", "", expected)
    if "\n" in before:
        assert made == expected


def test_a_package_that_is_named_or_a_file_that_does_not_parse_gets_nothing() -> None:
    assert in_package_json(b'{"dependencies": {"tsx": "4"}}', "devDependencies", "tsx", "1") is None
    assert in_package_json(b'{"a": ', "devDependencies", "tsx", "1") is None


def test_a_wired_program_is_taken_back_to_the_byte_also_after_edits(tmp_path: Path) -> None:
    for path, text in shelves(tmp_path).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    committed(tmp_path)
    git(tmp_path, "config", "user.name", "t")
    git(tmp_path, "config", "user.email", "t@t.invalid")
    facts = look(tmp_path)
    choices = recommend(facts).choices
    assert choices is not None
    assert choices.entry.name == "planShelves"
    commit(tmp_path, make_plan(tmp_path, facts, choices))
    assert (tmp_path / "ratchet_agent.mjs").exists()

    def choose(found: RepositoryLook, project: str) -> Choices:
        given = recommend(found, project).choices
        assert given is not None
        return given

    repeated = again(tmp_path, choose)
    assert repeated.plan.changes.files == ()
    assert repeated.misfits == ()
    file = tmp_path / "src" / "providers.ts"
    file.write_text("// mine\n" + file.read_text().replace("three providers", "many providers"))
    git(tmp_path, "commit", "-qam", "mine")
    report = undo(tmp_path)
    assert report.kept == ()
    mine = "// mine\n" + PROVIDERS.replace("three providers", "many providers")
    assert file.read_text() == mine
    assert git(tmp_path, "diff", "--name-only", "main").split() == ["src/providers.ts"]


def test_a_script_is_called_by_what_runs_its_language(tmp_path: Path) -> None:
    script = HEAD + "console.log(await ask2(process.argv[2]));\n"
    (tmp_path / "ask.mjs").write_text(script)
    (tmp_path / "ask.ts").write_text(script)
    calls = {one.call for one in look(tmp_path).entries if one.kind == "script"}
    assert calls == {"node ask.mjs", "npx tsx ask.ts"}
