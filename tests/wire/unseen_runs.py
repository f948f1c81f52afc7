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
)
