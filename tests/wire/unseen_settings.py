"""Look-alikes of prompts in tables and fields, of wrapped clients and of code that runs code."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

_TASK = "Put the book {{ title }} on the shelf that fits it best, and say why no other shelf does."

SETTINGS = (
    LookAlike(
        "prompts-in-tables-read-by-a-computed-name",
        {
            "requirements.txt": "litellm\nopenai\ndynaconf\njinja2\n",
            "desk/settings/loader.py": (
                "import pathlib\nfrom dynaconf import Dynaconf\n"
                "held = Dynaconf(settings_files=list(pathlib.Path(__file__).parent.glob('*.toml')))\n"
                "def get_settings():\n    return held\n"
            ),
            "desk/settings/main.toml": '[config]\nmodel = "m"\nuser = "the staff"\nnote = "This long note is for those who set the desk up, and no model ever sees it."\n',
            "desk/settings/shelve.toml": f'[shelve]\ntemperature = 0.2\nsystem = """\\\n{LONG}\n"""\nUser="""\\\n{_TASK}\n"""\n',
            "desk/settings/check.toml": f"[check]\nsystem = ''\nuser = '{_TASK}'\n",
            "desk/model.py": (
                "import openai\nimport litellm\nfrom litellm import acompletion\n"
                "from desk.settings.loader import get_settings\n"
                "class Handler:\n"
                "    def __init__(self):\n"
                "        openai.api_key = get_settings().openai.key\n"
                "    async def chat_completion(self, model, system, user):\n"
                "        messages = [{'role': 'system', 'content': system}, {'role': 'user', 'content': user}]\n"
                "        return await acompletion(model=model, messages=messages)\n"
            ),
            "desk/clerk.py": (
                "from jinja2 import Environment\nfrom desk.model import Handler\n"
                "from desk.settings.loader import get_settings\n"
                "class Clerk:\n"
                "    def __init__(self):\n"
                "        self.prompt = {}\n        self.handler = Handler()\n"
                "        for name in get_settings():\n"
                "            self.prompt[name.lower()] = get_settings()[name]\n"
                "    async def run(self, book, name='shelve'):\n"
                "        system = Environment().from_string(self.prompt[name].system).render(book)\n"
                "        user = Environment().from_string(self.prompt[name].user).render(book)\n"
                "        return await self.handler.chat_completion(model='m', system=system, user=user)\n"
            ),
        },
        "litellm",
        "desk/clerk.py:Clerk.run",
        ("desk/settings/shelve.toml", "desk/settings/check.toml"),
    ),
    LookAlike(
        "prompts-in-a-table-that-code-names",
        {
            "requirements.txt": "openai\n",
            "texts.toml": f'first.system_prompt = "{LONG}"\n["second part"]\nturns = {{ user = "{_TASK}" }}\n',
            "clerk.py": (
                "import tomllib\nfrom openai import OpenAI\n"
                "with open('texts.toml', 'rb') as file:\n    TEXTS = tomllib.load(file)\n"
                "def ask(question, part):\n"
                "    return OpenAI().chat.completions.create(model='m', messages=make(TEXTS[part]['system_prompt'], TEXTS['second part']['turns']['user'], question))\n"
                "def make(*parts):\n    return [part for part in parts]\n"
            ),
        },
        "openai",
        "clerk.py:ask",
        ("texts.toml",),
    ),
    LookAlike(
        "prompts-in-fields-of-a-data-class",
        {
            "requirements.txt": "openai\nshelf-kit\n",
            "kinds.py": (
                "from dataclasses import dataclass\n"
                "@dataclass\nclass Kind:\n    room: str\n    prompt: str\n    unread_prompt: str = ''\n"
                "KINDS = {\n"
                f"    'novel': Kind(room='a', prompt='{LONG}'),\n"
                f"    'atlas': Kind(\n        room='b',\n        prompt='''{LONG}\n            Atlases are large.''',\n        unread_prompt='{LONG}',\n    ),\n"
                "}\n"
            ),
            "clerk.py": (
                "from openai import OpenAI\nfrom kinds import KINDS\nfrom shelf_kit import plan\n"
                "def ask(book, kind):\n"
                "    found = KINDS[kind]\n"
                "    steps = plan(f'{book}\\n{found.prompt}')\n"
                "    return OpenAI().chat.completions.create(model='m', messages=[{'role': 'user', 'content': steps}])\n"
            ),
        },
        "openai",
        "clerk.py:ask",
        ("kinds.py:8", "kinds.py:11"),
    ),
    LookAlike(
        "runner-of-what-the-model-wrote-in-a-folder-of-evaluation",
        {
            "requirements.txt": "openai\n",
            "desk/eval/local_runner.py": (
                "def run_code(text, given):\n    exec(compile(text, 'a', 'exec'), given)\n    return given\n"
            ),
            "desk/eval/score_all.py": "import shutil\ndef score():\n    shutil.rmtree('a')\n",
            "desk/clerk.py": (
                "from openai import OpenAI\nfrom desk.eval.local_runner import run_code\n"
                f"RULES = '{LONG}'\n"
                "def ask(question):\n"
                "    said = OpenAI().chat.completions.create(model='m', messages=[\n"
                "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
                "    return run_code(said.choices[0].message.content, {})\n"
            ),
        },
        "openai",
        "desk/clerk.py:ask",
        ("desk/clerk.py:3",),
        ("exec desk/clerk.py", "exec desk/eval/local_runner.py"),
    ),
    LookAlike(
        "clients-made-where-they-are-required",
        {
            "package.json": '{"name": "desk", "dependencies": {"openai": "latest", "twilio": "latest"}}',
            "desk.js": (
                "const OpenAI = require('openai');\nconst { record } = require('./record');\n"
                f"const RULES = '{LONG}';\n"
                "async function answer(name, sid, text) {\n"
                "  const tool = require(`./tools/${name}`);\n"
                "  await record(sid);\n"
                "  await tool({ sid });\n"
                "  return new OpenAI().chat.completions.create({ model: 'm', messages: [\n"
                "    { role: 'system', content: RULES }, { role: 'user', content: text }] });\n}\n"
                "module.exports = { answer };\n"
            ),
            "record.js": (
                "async function record(sid) {\n"
                "  const client = require('twilio')('a', 'b');\n"
                "  return client.calls(sid)\n    .recordings\n    .create({ recordingChannels: 'dual' });\n}\n"
                "module.exports = { record };\n"
            ),
            "tools/forward.js": (
                "const forward = async function (call) {\n"
                "  const client = require('twilio')('a', 'b');\n"
                "  return await client.calls(call.sid)\n    .update({ twiml: 'x' })\n"
                "    .then(() => 'done')\n    .catch(() => 'not done');\n};\n"
                "module.exports = forward;\n"
            ),
        },
        "openai",
        "desk.js:answer",
        ("desk.js:3",),
        ("post record.js", "post tools/forward.js"),
    ),
    LookAlike(
        "route-whose-method-only-a-test-imports-and-pages-in-a-ring",
        {
            "package.json": '{"name": "desk", "dependencies": {"next": "latest", "openai": "latest", "@prisma/client": "latest"}}',
            "app/api/ask/route.ts": (
                "import OpenAI from 'openai';\n"
                f"const shelfRules = `{LONG}`;\n"
                "export async function POST(request: Request) {\n"
                "  const { text } = await request.json();\n"
                "  return Response.json(await new OpenAI().chat.completions.create({ model: 'm', messages: [\n"
                "    { role: 'user', content: [{ type: 'text', text: shelfRules }, { type: 'image_url', image_url: { url: text } }] }] }));\n}\n"
            ),
            "app/ask.test.ts": "import { POST } from './api/ask/route';\ntest('asks', () => POST(new Request('u')));\n",
            "app/page.tsx": "import OpenAI from 'openai';\nimport Desk from './desk';\nexport type Book = { id: string };\nexport default () => <Desk />;\n",
            "app/desk.tsx": "import type { Book } from './page';\nimport { keep } from './actions';\nexport default () => <b onClick={() => keep('a')} />;\n",
            "app/actions.ts": "'use server';\nimport { getPrisma } from './database';\nexport async function keep(text: string) {\n  const prisma = getPrisma();\n  return prisma.message.create({ data: { text } });\n}\n",
            "app/database.ts": "import { PrismaClient } from '@prisma/client';\nexport const getPrisma = () => new PrismaClient();\n",
        },
        "openai",
        "app/api/ask/route.ts:POST",
        ("app/api/ask/route.ts:2",),
        ("database write app/actions.ts",),
        (".: npx tsx --test",),
    ),
)
