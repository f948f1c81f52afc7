"""Look-alikes of agents that files describe, of text added to messages, and of own ways to a run."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

RUNS = (
    LookAlike(
        "agent-that-a-file-describes",
        {
            "pyproject.toml": '[project]\nname = "shelves"\ndependencies = ["pydantic-ai-slim", "sqlmodel"]\n',
            "clerk.yml": (
                "name: The clerk of the shelves\ndescription: A clerk who knows where each of the books is\n"
                f"model: m\nsystem_prompt: You are the clerk\ninstructions:\n  - {LONG}\n  - Ask for the title.\n"
            ),
            "desk/settings.py": (
                "from pathlib import Path\nfrom pydantic_settings import BaseSettings\n"
                "class Settings(BaseSettings):\n"
                "    described: Path = Path(__file__).parents[1] / 'clerk.yml'\n"
                "def load():\n    return Settings()\n"
                "settings = load()\n"
            ),
            "desk/tools.py": (
                "from pydantic_ai import FunctionToolset\nfrom desk.shelves import Shelves\n"
                "shelf_tools = FunctionToolset[Shelves](\n"
                "    require_parameter_descriptions=True,\n"
                "    instructions=(\n        'Use these whenever somebody asks to move a book. '\n        'Answer in one line.'\n    ),\n)\n"
                "@shelf_tools.tool\n"
                "async def put(ctx, title: str):\n"
                "    return await ctx.deps.put(title)\n"
            ),
            "desk/shelves.py": (
                "from sqlmodel.ext.asyncio.session import AsyncSession\n"
                "class Shelves:\n"
                "    def __init__(self, session: AsyncSession):\n        self.session = session\n"
                "    async def put(self, book):\n"
                "        self.session.add(book)\n        await self.session.commit()\n"
            ),
            "desk/clerk.py": (
                "from pydantic_ai import Agent\nfrom desk.settings import settings\nfrom desk.tools import shelf_tools\n"
                "clerk = Agent.from_file(settings.described, toolsets=[shelf_tools])\n"
                "if __name__ == '__main__':\n    clerk.to_cli_sync()\n"
            ),
        },
        "pydantic-ai",
        "desk/clerk.py:clerk",
        ("clerk.yml", "desk/tools.py:6"),
        ("database write desk/shelves.py",),
    ),
    LookAlike(
        "runner-of-the-program-that-hands-on-what-it-is-given",
        {
            "requirements.txt": "openai-agents\nopenai\n",
            "desk/runner.py": (
                "from agents import Runner\n"
                "class DeskRunner(Runner):\n"
                "    @classmethod\n"
                "    async def run(cls, *given, **named):\n"
                "        result = await Runner.run(*given, **named)\n"
                "        return result.final_output\n"
                "def asked(client, *, tries=2, **named):\n"
                "    for _ in range(tries):\n"
                "        return client.chat.completions.create(model='m', **named)\n"
            ),
            "desk/shelve.py": (
                "import json\nfrom agents import Agent\nfrom openai import OpenAI\nfrom desk.runner import DeskRunner, asked\n"
                f"clerk = Agent(name='clerk', instructions='{LONG}')\n"
                "\n\n\nasync def shelve(books, most):\n"
                '    text = f"""\n    The books that came in today:\n    {json.dumps(books)}\n\n    Name at most {most} shelves for all of them.\n    """\n'
                "    return await DeskRunner.run(clerk, text)\n"
                "def check(title):\n"
                "    return asked(OpenAI(), tries=3, messages=[\n\n\n"
                "        {'role': 'user', 'content': f'Say in one word whether a book of the title {title} may be lent to a child of ten.'}])\n"
            ),
        },
        "openai-agents",
        "desk/shelve.py:shelve",
        ("desk/shelve.py:5", "desk/shelve.py:10", "desk/shelve.py:20"),
        tracing=("openai-agents desk/runner.py",),
    ),
    LookAlike(
        "model-of-the-settings-that-a-method-asks",
        {
            "requirements.txt": "dspy\n",
            "desk.py": (
                "import dspy\n"
                "class Kind(dspy.Signature):\n"
                f'    """{LONG}"""\n'
                "    title = dspy.InputField()\n"
                "class Desk(dspy.Module):\n"
                "    def __init__(self):\n"
                "        super().__init__()\n        self.lm = dspy.settings.lm\n        self.kind = dspy.Predict(Kind)\n"
                "    def request(self, prompt):\n        return self.lm(prompt)\n"
                "    def refine(self, title, found):\n"
                "        prompt = f'Title: {title}\\nFound by us: {found}\\nBetter shelf:'\n"
                "        return self.request(prompt)\n"
                "def ask(title):\n    return Desk().refine(title, '')\n"
            ),
        },
        "dspy",
        "desk.py:ask",
        ("desk.py:2", "desk.py:13"),
    ),
    LookAlike(
        "text-added-to-an-item-of-a-message",
        {
            "requirements.txt": "anthropic\n",
            "desk.py": (
                "import anthropic\n"
                "def ask(book, searches=False):\n"
                "    said = [{'role': 'user', 'content': [{'type': 'text', 'text': book}]}]\n"
                "    if searches:\n"
                "        said[0]['content'].append({'type': 'text', 'text': 'Name also the one question that should be looked up before the book is put away.'})\n"
                "    return anthropic.Anthropic().messages.create(model='m', max_tokens=9, messages=said)\n"
            ),
        },
        "anthropic",
        "desk.py:ask",
        ("desk.py:5",),
    ),
    LookAlike(
        "message-of-many-pieces-that-is-spliced-into-a-history",
        {
            "package.json": '{"name": "shelves", "type": "module", "dependencies": {"@openai/agents": "latest"}}',
            "desk.ts": (
                "import { Agent, Runner } from '@openai/agents';\n"
                f"const clerk = new Agent({{ name: 'clerk', instructions: `{LONG}` }});\n"
                "export class Desk {\n"
                "  private enriched(input: any[], reader: any) {\n"
                "    let notes = 'Reader:\\n';\n"
                + "".join(
                    f"    if (reader.a{n}) notes += `- A${{n}}: ${{reader.a{n}}}\\n`;\n"
                    for n in range(12)
                )
                + "    notes += 'This reader is known already. Never ask for the card again, and never look the reader up.';\n"
                "    const all = [...input];\n"
                "    all.splice(0, 0, { role: 'system', content: notes });\n    return all;\n  }\n"
                "  async answer(input: any[], reader: any) {\n"
                "    input = this.enriched(input, reader);\n"
                "    return new Runner().run(clerk, input);\n  }\n}\n"
            ),
        },
        "openai-agents",
        "desk.ts:Desk.answer",
        ("desk.ts:2", "desk.ts:5"),
        tracing=("openai-agents desk.ts",),
    ),
)
