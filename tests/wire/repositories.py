"""Small repositories, one for each trap of real ones, with what a look must find."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.idioms import IDIOMS
from tests.wire.look_alike import LONG, LookAlike
from tests.wire.unseen import UNSEEN
from tests.wire.unseen_flows import FLOWS
from tests.wire.unseen_javascript import UNSEEN_JAVASCRIPT
from tests.wire.unseen_runs import RUNS
from tests.wire.unseen_servers import UNSEEN_SERVERS
from tests.wire.unseen_settings import SETTINGS

CALL = (
    "import anthropic\n"
    f"RULES = '{LONG}'\n"
    "def ask(question):\n"
    "    messages = [{'role': 'user', 'content': question}]\n"
    "    return anthropic.Anthropic().messages.create(model='m', system=RULES, messages=messages)\n"
)


LOOK_ALIKES = (
    LookAlike(
        "prompt-in-a-context",
        {
            "src/desk/texts.py": f'"""Texts."""\nSHELF_RULES = """{LONG} {{now}}"""\nOLD = "{LONG}"\n',
            "src/desk/settings.py": (
                "from dataclasses import dataclass, field\nfrom . import texts\n"
                "@dataclass(kw_only=True)\nclass DeskContext:\n"
                "    rules: str = field(default=texts.SHELF_RULES, metadata={'description': 'What is said first.'})\n"
                "    model: str = 'a/b'\n"
            ),
            "src/desk/flow.py": (
                "from langchain.chat_models import init_chat_model\n"
                "from langgraph.graph import StateGraph\nfrom langgraph.runtime import Runtime\n"
                "from desk.settings import DeskContext\n"
                "async def think(state, runtime: Runtime[DeskContext]):\n"
                "    model = init_chat_model(runtime.context.model)\n"
                "    first = runtime.context.rules.format(now='today')\n"
                "    said = await model.ainvoke([{'role': 'system', 'content': first}, *state.messages])\n"
                "    return {'messages': [said]}\n"
                "builder = StateGraph(dict, context_schema=DeskContext)\nbuilder.add_node(think)\n"
                "graph = builder.compile()\n"
            ),
            "langgraph.json": '{"graphs": {"desk": "./src/desk/flow.py:graph"}, "dependencies": ["."]}',
        },
        "langgraph",
        "src/desk/flow.py:graph",
        ("src/desk/texts.py:2",),
    ),
    LookAlike(
        "star-import",
        {
            "src/texts.py": f'SHELVES = """{LONG} {{book}}"""\nUNUSED = "{LONG}"\n',
            "src/chains.py": (
                "from langchain_core.prompts import PromptTemplate\n"
                "from langchain_groq import ChatGroq\n"
                "from .texts import *\n"
                "class Chains:\n"
                "    def __init__(self):\n"
                "        prompt = PromptTemplate(template=SHELVES, input_variables=['book'])\n"
                "        self.shelve = prompt | ChatGroq(model='m')\n"
            ),
            "src/flow.py": (
                "from langgraph.graph import StateGraph\n"
                "from .chains import Chains\n"
                "import smtplib\n"
                "def notify(state):\n"
                "    smtplib.SMTP('h').sendmail('a', 'b', state['text'])\n"
                "class Flow:\n"
                "    def __init__(self):\n"
                "        chains = Chains()\n"
                "        graph = StateGraph(dict)\n"
                "        graph.add_node('notify', notify)\n"
                "        self.app = graph.compile()\n"
            ),
            "main.py": "from src.flow import Flow\napp = Flow().app\n",
            "fill_index.py": (
                "from langchain_core.prompts import ChatPromptTemplate\n"
                "from langchain_chroma import Chroma\n"
                f"P = '{LONG} {{x}}'\n"
                "Chroma.from_documents([], None)\n"
                "chain = ChatPromptTemplate.from_template(P)\n"
            ),
        },
        "langgraph",
        "src/flow.py:Flow",
        ("src/texts.py:1",),
        ("mail src/flow.py",),
    ),
    LookAlike(
        "older-version-and-class-attributes",
        {
            "texts/all.py": f'class Texts:\n    RULES = "{LONG}"\n    VOICE = "{LONG}"\n',
            "desk.py": (
                "import anthropic\nimport subprocess\nfrom texts.all import Texts\n"
                "class Desk:\n"
                "    def __init__(self):\n        self.client = anthropic.Anthropic()\n"
                "    def ask(self, question: str) -> str:\n"
                "        subprocess.run(['ls'])\n"
                "        return self.client.messages.create(model='m', max_tokens=9,\n"
                "            messages=[{'role': 'user', 'content': question}],\n"
                "            system=f'{Texts.RULES}\\n\\n{Texts.VOICE}')\n"
            ),
            "Desk-v1/main.py": (
                "import anthropic\n"
                f"OLD = '{LONG}'\n"
                "anthropic.Anthropic().messages.create(system=OLD, messages=[])\n"
            ),
        },
        "anthropic",
        "desk.py:Desk.ask",
        ("texts/all.py:2", "texts/all.py:3"),
        ("shell desk.py",),
    ),
    LookAlike(
        "folder-named-like-a-framework",
        {
            "src/__init__.py": "",
            "src/settings.py": "from pathlib import Path\nclass S:\n    folder = Path(__file__).parent / 'texts'\nsettings = S()\n",
            "src/texts/loader.py": (
                "from settings import settings\n"
                "def _load(name):\n    path = settings.folder / name\n    return path.read_text()\n"
                "CLERK = _load('clerk.md')\n"
            ),
            "src/texts/clerk.md": LONG,
            "src/texts/notes.md": LONG,
            "src/branch/__init__.py": "",
            "src/branch/agents/__init__.py": "",
            "src/branch/agents/clerk.py": (
                "from agents import Agent\nfrom texts.loader import CLERK\n"
                "clerk = Agent(name='Clerk', instructions=CLERK)\n"
            ),
            "src/branch/run.py": (
                "from agents import Runner\nfrom .agents.clerk import clerk\n"
                "async def serve(question: str) -> str:\n    return await Runner.run(clerk, question)\n"
            ),
            ".env.prod": "OPENAI_API_KEY=never-read\n",
        },
        "openai-agents",
        "src/branch/run.py:serve",
        ("src/texts/clerk.md",),
        tracing=("openai-agents src/branch/agents/clerk.py",),
    ),
    LookAlike(
        "instruction-functions",
        {
            "back/__init__.py": "",
            "back/agents.py": (
                "from agents import Agent\n"
                "def instructions(context, agent):\n"
                "    branch = context.branch or '[none]'\n"
                "    return (\n"
                f"        f'{LONG} The branch is {{branch}}.'\n"
                "    )\n"
                "desk = Agent[dict](name='Desk', instructions=instructions)\n"
            ),
            "back/serve.py": (
                "from agents import Runner, function_tool\nfrom back.agents import desk\n"
                "@function_tool\ndef cancel_loan(loan: str) -> str:\n    return 'done'\n"
                "async def respond(text: str):\n    return await Runner.run(desk, text)\n"
            ),
        },
        "openai-agents",
        "back/serve.py:respond",
        ("back/agents.py:5",),
        ("named action back/serve.py",),
        tracing=("openai-agents back/agents.py",),
    ),
    LookAlike(
        "crew-of-files",
        {
            "src/crew.py": (
                "from crewai import Agent, Crew, Task\nfrom crewai.project import CrewBase, agent\n"
                "@CrewBase\nclass Shelving:\n"
                "    agents_config = 'config/agents.yaml'\n    tasks_config = 'config/tasks.yaml'\n"
                "    @agent\n    def clerk(self):\n        return Agent(config=self.agents_config['clerk'])\n"
                "    def shelve(self):\n"
                "        return Task(config=self.tasks_config['shelve'], output_file='out/plan.md')\n"
                "    def crew(self):\n        return Crew(agents=[], tasks=[])\n"
            ),
            "src/config/agents.yaml": "clerk:\n  role: clerk\n",
            "src/config/tasks.yaml": "shelve:\n  description: shelve\n",
            "src/config/other.yaml": "a: b\n",
            "src/main.py": "from crew import Shelving\ndef run():\n    Shelving().crew().kickoff(inputs={'book': 'x'})\n",
        },
        "crewai",
        "src/main.py:run",
        ("src/config/agents.yaml", "src/config/tasks.yaml"),
        ("file write src/crew.py",),
    ),
    LookAlike(
        "judges-apart",
        {
            "clerk.py": (
                "from pydantic_ai import Agent\n"
                f"clerk = Agent('m', system_prompt='{LONG}')\n"
                "@clerk.system_prompt\ndef style() -> str:\n"
                f"    return '{LONG}'\n"
                "async def ask(question: str):\n    return await clerk.run(question)\n"
            ),
            "tests/judge.py": (
                "from openai import OpenAI\n"
                f"JUDGE = '{LONG}'\n"
                "OpenAI().chat.completions.create(messages=[{'role': 'system', 'content': JUDGE}])\n"
            ),
            "old/print.py": "print 'two'\n",
        },
        "pydantic-ai",
        "clerk.py:ask",
        ("clerk.py:2", "clerk.py:5"),
    ),
    LookAlike(
        "typescript-templates",
        {
            "package.json": '{"name": "desk", "dependencies": {"ai": "^5.0.0"}}',
            "src/voice.ts": f"export const voice = () => {{\n  return `{LONG} ${{new Date()}}`;\n}};\n",
            "src/desk.ts": (
                "import { generateText } from 'ai';\nimport * as fs from 'fs/promises';\n"
                "import { voice } from './voice';\n"
                "function cut(text: string) {\n  return text;\n}\n"
                "export async function shelve({ book }: { book: string }) {\n"
                "  const done = await generateText({\n    system: voice(),\n"
                f"    prompt: cut(`{LONG} ${{book}}`),\n  }});\n"
                "  await fs.writeFile('plan.md', done.text);\n  return done;\n}\n"
            ),
        },
        "vercel-ai-sdk",
        "src/desk.ts:shelve",
        ("src/voice.ts:2", "src/desk.ts:10"),
        ("file write src/desk.ts",),
    ),
    LookAlike(
        "signature",
        {
            "desk.py": (
                "import dspy\n"
                'class Shelve(dspy.Signature):\n    """Name the shelf."""\n'
                "    book = dspy.InputField(desc='its title')\n    shelf = dspy.OutputField()\n"
                'class Unused(dspy.Signature):\n    """Nothing."""\n'
                "class Desk(dspy.Module):\n"
                "    def __init__(self):\n        self.shelve = dspy.ChainOfThought(Shelve)\n"
                "def ask(book: str):\n    return Desk()(book=book)\n"
            ),
        },
        "dspy",
        "desk.py:Desk",
        ("desk.py:3",),
    ),
    LookAlike(
        "tests-that-run-and-tests-that-do-not",
        {
            "desk/pyproject.toml": '[project]\nname = "desk"\n[project.scripts]\ntest = "desk:absent"\n',
            "desk/uv.lock": "",
            "desk/desk.py": CALL,
            "desk/test.py": "print('a sample')\n",
            "desk/tests/__init__.py": "",
            "desk/tests/test_desk.py": "def test_a():\n    pass\nasync def test_b():\n    pass\n",
            "made/pyproject.toml": '[project]\nname = "made"\n',
            "made/Makefile": "tests := 1\nlint:\n\truff .\ntest: lint\n\tpython -m pytest -q\n",
            "made/tests/test_made.py": "import pytest\ndef test_a():\n    pass\n",
            "plain/requirements.txt": "anthropic\n",
            "plain/test_plain.py": "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n",
            "plain/legacy/tests/test_old.py": "def test_old():\n    pass\n",
            "web/package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}',
            "web/src/cut.test.ts": "import test from 'node:test';\ntest('cuts', () => {});\n",
            "shop/package.json": '{"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "3"}}',
            "shop/cut.spec.ts": "it('cuts', () => {});\nit('glues', () => {});\n",
            "empty/package.json": '{"scripts": {"test": "jest"}}',
        },
        "anthropic",
        "desk/desk.py:ask",
        ("desk/desk.py:2",),
        tests=(
            "desk: uv run python -m pytest",
            "made: make test",
            "plain: python -m unittest discover",
            "shop: npm test",
            "web: npx tsx --test",
        ),
    ),
    LookAlike(
        "traced-already",
        {
            "requirements.txt": "anthropic\nlangsmith>=0.3\n",
            "desk.py": "import instrument\nimport weave\n" + CALL,
            "weave.py": "def knit(): ...\n",
            "instrument.py": (
                "from langfuse import observe\n"
                "from opentelemetry import trace as api\n"
                "from opentelemetry.sdk import trace as sdk\n"
                "def start():\n    provider = sdk.TracerProvider()\n"
                "    api.set_tracer_provider(tracer_provider=provider)\n"
            ),
            "tests/test_desk.py": "import opik\ndef test_a():\n    pass\n",
            "Dockerfile": 'FROM python\nCMD ["ddtrace-run", "python", "desk.py"]\n',
        },
        "anthropic",
        "desk.py:ask",
        ("desk.py:4",),
        tests=(".: python -m pytest",),
        tracing=(
            "langfuse instrument.py",
            "opentelemetry instrument.py global",
            "langsmith requirements.txt",
            "datadog Dockerfile",
        ),
    ),
    LookAlike(
        "traced-in-typescript",
        {
            "package.json": '{"dependencies": {"ai": "5", "@vercel/otel": "1"}}',
            "instrumentation.ts": (
                "import { registerOTel } from '@vercel/otel';\n"
                "export function register() {\n  registerOTel({ serviceName: 'desk' });\n}\n"
            ),
            "desk.ts": (
                "import { generateText } from 'ai';\n"
                f"const rules = '{LONG}';\n"
                "export async function ask(prompt: string) {\n"
                "  return generateText({ system: rules, prompt,\n"
                "    experimental_telemetry: { isEnabled: true } });\n}\n"
            ),
        },
        "vercel-ai-sdk",
        "desk.ts:ask",
        ("desk.ts:2",),
        tracing=("opentelemetry instrumentation.ts global", "vercel-ai-sdk desk.ts"),
    ),
    LookAlike(
        "data-that-could-be-tasks",
        {
            "desk.py": "import cases\n"
            + CALL
            + (
                "EXAMPLES = [\n"
                "    {'question': 'Where is Emma?', 'answer': 'Shelf 4'},\n"
                "    {'question': 'Where is Persuasion?', 'answer': 'Shelf 5'},\n]\n"
                "TALK = [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]\n"
                "TOOLS = [{'name': 'a', 'description': 'b'}, {'name': 'c', 'description': 'd'}]\n"
            ),
            "cases.py": (
                "from framework import Case\ndef examples():\n    return [\n"
                "        Case(question='a', answer='b').with_inputs('question'),\n"
                "        Case(question='c', answer='d').with_inputs('question'),\n    ]\n"
            ),
            "tests/set.json": '{"cases": [{"query": "a", "category": "c"}, {"query": "b", "category": "c"}]}',
            "data/loans.csv": 'Ticket,Category\n"lost, sadly",loss\nlate,delay\n',
            "data/columns.json": '{"question": ["a", "b"], "ground_truth": ["c", "d"]}',
            "data/big.jsonl": '{"input": "a", "expected_output": "b"}\n' * 8000,
            "data/members.csv": "name,city\na,b\nc,d\n",
            "data/one.json": '[{"question": "a", "answer": "b"}]',
            "data/broken.json": '[{"question": "a"',
            "runs/results/out.jsonl": '{"prompt": "a", "article": "b"}\n' * 3,
            "package.json": '{"name": "desk"}',
            "data/.env": "QUESTION=never-read\n",
        },
        "anthropic",
        "desk.py:ask",
        ("desk.py:3",),
        data=(
            "desk.py: question -> answer",
            "cases.py: question -> answer",
            "tests/set.json: query -> ",
            "data/loans.csv: Ticket -> Category",
            "data/columns.json: question -> ground_truth",
            "data/big.jsonl: input -> expected_output",
            "runs/results/out.jsonl: prompt -> ",
        ),
    ),
    LookAlike(
        "started-by-a-script",
        {
            "pyproject.toml": (
                '[project]\nname = "desk"\n[project.scripts]\n'
                'desk = "desk.main:run"\ntrain = "desk.main:train"\n'
            ),
            "src/desk/__init__.py": "",
            "src/desk/main.py": "from desk.ask import ask\ndef run():\n    for line in open('q'):\n        ask(line)\n",
            "src/desk/ask.py": CALL,
        },
        "anthropic",
        "src/desk/main.py:run started",
        ("src/desk/ask.py:2",),
    ),
    LookAlike(
        "started-by-a-container",
        {
            "back/Dockerfile": 'FROM python\nCMD ["uvicorn", "api.main:app", \\\n  "--host", "127.0.0.1"]\n',
            "back/api/__init__.py": "",
            "back/api/main.py": "from fastapi import FastAPI\nfrom api.ask import ask\napp = FastAPI()\n",
            "back/api/ask.py": CALL,
            "Procfile": "worker: python absent.py\n",
        },
        "anthropic",
        "back/api/main.py:app started",
        ("back/api/ask.py:2",),
    ),
    LookAlike(
        "route-without-a-name",
        {
            "package.json": '{"dependencies": {"ai": "5", "express": "5"}}',
            "serve.ts": (
                "import express from 'express';\nimport { generateText } from 'ai';\n"
                "const app = express();\n"
                "app.post('/ask', async (request, response) => {\n"
                "  const done = await generateText({\n"
                f"    system: '{LONG}', prompt: request.body.text }});\n"
                "  response.json(done);\n});\n"
            ),
        },
        "vercel-ai-sdk",
        "serve.ts:POST /ask",
        ("serve.ts:6",),
    ),
    *UNSEEN,
    *UNSEEN_JAVASCRIPT,
    *UNSEEN_SERVERS,
    *SETTINGS,
    *RUNS,
    *FLOWS,
    *IDIOMS,
)
