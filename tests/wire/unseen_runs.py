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
)
