"""What acts is marked where it stands, and frameworks see their tools as before."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ratchet import RatchetError
from tests.wire.entries import LONG, Wired, in_rollout, wire

MARK = "@ratchet.tool(side_effects=True)\n"
ASK = (
    f"from openai import OpenAI\nRULES = '{LONG}'\n"
    "def ask(question: str) -> str:\n"
    "    return OpenAI().chat.completions.create(model='m', messages=[\n"
    "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
)


def _module(wired: Wired, path: str = "desk.py") -> ModuleType:
    """A file of the repository, imported under a name of its own."""
    name = f"wired_{abs(hash(str(wired.root)))}"
    spec = importlib.util.spec_from_file_location(name, wired.root / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def _unmarked(wired: Wired) -> ModuleType:
    """The same file without its marks."""
    text = wired.text("desk.py")
    (wired.root / "plain.py").write_text(text.replace("@ratchet.tool(side_effects=True)", ""))
    return _module(wired, "plain.py")


def test_the_agents_sdk_sees_its_tool_as_before(tmp_path: Path) -> None:
    code = (
        "import shutil\nfrom agents import Agent, Runner, RunContextWrapper, function_tool\n"
        "@function_tool(name_override='wipe_shelf')\n"
        "async def wipe(context: RunContextWrapper[dict], path: str, deep: bool = False) -> str:\n"
        '    """Wipes a shelf.\n\n    Args:\n        path: Which.\n        deep: How.\n    """\n'
        "    shutil.rmtree(path)\n    return 'done'\n"
        f"clerk = Agent(name='Clerk', instructions='{LONG}', tools=[wipe])\n"
        "async def ask(question: str):\n    return await Runner.run(clerk, question)\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    assert f"'wipe_shelf')\n{MARK}async def wipe(" in wired.text("desk.py")
    now, before = _module(wired).wipe, _unmarked(wired).wipe
    assert (now.name, now.description) == (before.name, before.description)
    assert now.params_json_schema == before.params_json_schema
    from agents.tool_context import ToolContext

    given = json.dumps({"path": str(tmp_path / "x"), "deep": False})
    context = ToolContext({}, tool_name="wipe_shelf", tool_call_id="1", tool_arguments=given)
    (tmp_path / "x").mkdir()
    with in_rollout() as collector:
        asyncio.run(now.on_invoke_tool(context, given))
    assert collector.blocked
    assert (tmp_path / "x").is_dir()


def test_pydantic_ai_sees_its_tool_as_before(tmp_path: Path) -> None:
    code = (
        "import os\nfrom pydantic_ai import Agent, RunContext\n"
        "from pydantic_ai.models.test import TestModel\n"
        f"clerk = Agent(TestModel(), system_prompt='{LONG}', deps_type=int)\n"
        "@clerk.tool\n"
        "async def drop(context: RunContext[int], path: str) -> str:\n"
        '    """Drops a book.\n\n    Args:\n        path: Which.\n    """\n'
        "    os.remove(path)\n    return 'gone'\n"
        "async def ask(question: str) -> str:\n"
        "    return (await clerk.run(question, deps=1)).output\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    assert f"@clerk.tool\n{MARK}async def drop(" in wired.text("desk.py")

    def schema(module: ModuleType) -> Any:
        [tool] = module.clerk._function_toolset.tools.values()
        return tool.function_schema.json_schema, tool.description, tool.takes_ctx

    module = _module(wired)
    assert schema(module) == schema(_unmarked(wired))
    with in_rollout() as collector, pytest.raises(RatchetError):
        asyncio.run(module.ask("a"))
    assert collector.blocked == "drop"


def test_a_tool_that_may_run_is_not_marked(tmp_path: Path) -> None:
    code = "import os\nfrom agents import function_tool\n" + "".join(
        f"@function_tool\ndef {name}(path: str):\n    os.remove(path)\n"
        for name in ("keep", "drop")
    )
    wired = wire(tmp_path, {"desk.py": code + ASK}, "ask", may_run=("keep",))
    text = wired.text("desk.py")
    assert "@function_tool\ndef keep" in text
    assert f"@function_tool\n{MARK}def drop" in text


def test_the_methods_of_a_tools_class_are_marked_with_its_name(tmp_path: Path) -> None:
    code = (
        "import os\nfrom langchain_core.tools import BaseTool\n"
        "class Drop(BaseTool):\n    name: str = 'drop_book'\n    description: str = 'Drops.'\n"
        "    def _run(self, path: str) -> str:\n        os.remove(path)\n"
        "    async def _arun(self, path: str) -> str:\n        return self._run(path)\n"
    )
    wired = wire(tmp_path, {"desk.py": ASK, "tools.py": code}, "ask")
    mark = '    @ratchet.tool(name="drop_book", side_effects=True)\n'
    assert f"{mark}    def _run" in wired.text("tools.py")
    assert f"{mark}    async def _arun" in wired.text("tools.py")


def test_nested_functions_and_lists_of_plain_callables_are_marked(tmp_path: Path) -> None:
    code = (
        "from llama_index.core.tools import FunctionTool\nfrom agents import Agent\n"
        "def tools():\n"
        "    async def transfer_money(amount: int) -> str:\n        '''Transfers.'''\n"
        "        return 'x'\n"
        "    def read_balance() -> str:\n        return 'x'\n"
        "    return [FunctionTool.from_defaults(async_fn=transfer_money),\n"
        "            FunctionTool.from_defaults(fn=read_balance)]\n"
        "def cancel_loan(loan: str) -> str:\n    return 'x'\n"
        f"clerk = Agent(name='Clerk', instructions='{LONG}', tools=[cancel_loan])\n"
    )
    wired = wire(tmp_path, {"desk.py": code + ASK}, "ask")
    text = wired.text("desk.py")
    assert f"    {MARK}    async def transfer_money" in text
    assert f"{MARK}def cancel_loan" in text
    assert text.count("ratchet.tool(") == 2


def test_what_no_tool_leads_to_is_marked_where_the_entry_reaches_it(tmp_path: Path) -> None:
    files = {
        "desk.py": "from mail import tell\n"
        + ASK.replace("    return OpenAI", "    tell('a')\n    return OpenAI"),
        "mail.py": "import smtplib\ndef tell(text):\n    with smtplib.SMTP('h') as server:\n"
        "        server.send_message(text)\n",
        "wipe.py": "import shutil\nfrom openai import OpenAI\n"
        "def wipe():\n    shutil.rmtree('x')\n    OpenAI().chat.completions.create(messages=[])\n",
    }
    wired = wire(tmp_path, files, "ask")
    assert f"{MARK}def tell" in wired.text("mail.py")
    assert "ratchet.tool" not in wired.text("wipe.py")


def test_a_call_beside_the_model_is_marked_alone(tmp_path: Path) -> None:
    code = (
        "import subprocess\nfrom openai import OpenAI\n"
        f"RULES = '{LONG}'\n"
        "def ask(question: str) -> str:\n"
        "    subprocess.run(\n        ['touch', question],\n        check=True)\n"
        "    return OpenAI().chat.completions.create(model='m', messages=[\n"
        "        {'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}])\n"
    )
    wired = wire(tmp_path, {"desk.py": code}, "ask")
    text = wired.text("desk.py")
    assert '    ratchet.tool(name="run", side_effects=True)(subprocess.run)(\n' in text
    with in_rollout() as collector, pytest.raises(RatchetError):
        _module(wired).ask(str(tmp_path / "made"))
    assert collector.blocked == "run"
    assert not (tmp_path / "made").exists()
    assert wired.again().changes.files == ()


def test_files_of_the_programs_own_and_clients_are_left_with_the_reason(tmp_path: Path) -> None:
    code = (
        "import chromadb\nfrom pathlib import Path\n"
        "def keep(text):\n    Path('log.txt').write_text(text)\n"
        "def index():\n    return chromadb.PersistentClient('x')\n"
    )
    wired = wire(tmp_path, {"desk.py": code + ASK}, "ask")
    assert "ratchet.tool" not in wired.text("desk.py")
    assert "keep writes it in rollouts too" in wired.left
    assert "index sets up a client" in wired.left


def test_what_acts_at_import_and_lambdas_are_left_with_the_reason(tmp_path: Path) -> None:
    code = "import subprocess\nsubprocess.run(['ls'])\n" + ASK
    wired = wire(tmp_path, {"desk.py": code}, "ask", run="command")
    assert "It acts when the module is imported" in wired.left


def test_a_mark_of_the_users_own_stays_as_it_is(tmp_path: Path) -> None:
    code = (
        "import os\nimport ratchet\nfrom agents import function_tool\n"
        f"@function_tool\n{MARK}def drop(path: str):\n    os.remove(path)\n"
        "@function_tool\n@ratchet.tool\ndef wipe(path: str):\n    os.remove(path)\n"
    )
    wired = wire(tmp_path, {"desk.py": code + ASK}, "ask")
    assert wired.text("desk.py") == code + ASK
    assert "wipe: It acts and is marked without" in wired.left


def test_overloads_async_and_other_decorators_keep_their_order(tmp_path: Path) -> None:
    code = (
        "import functools\nimport os\nfrom typing import overload\nfrom agents import function_tool\n"
        "@overload\ndef drop(path: str) -> str: ...\n"
        "@overload\ndef drop(path: bytes) -> bytes: ...\n"
        "@function_tool\n@functools.cache  # slow\n# the tool\ndef drop(path):\n    os.remove(path)\n"
    )
    wired = wire(tmp_path, {"desk.py": code + ASK}, "ask")
    assert f"@functools.cache  # slow\n# the tool\n{MARK}def drop(path):\n" in wired.text("desk.py")
    assert wired.text("desk.py").count(MARK) == 1


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "BOM"])
def test_windows_line_ends_and_a_byte_order_mark_stay(tmp_path: Path, mark: str) -> None:
    code = (
        "# é 🚚\n'''Docs.'''\nfrom __future__ import annotations\nimport os\n"
        "from agents import function_tool\nclass Tools:\n\t@staticmethod\n\t@function_tool\n"
        "\tdef drop(path: str):\n\t\tos.remove(path)\n"
    )
    text = mark + (code + ASK).replace("\n", "\r\n")
    wired = wire(tmp_path, {"desk.py": text}, "ask")
    data = (wired.root / "desk.py").read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n")
    assert data.startswith(mark.encode())
    made = (b"import ratchet\r\n", b"\t@ratchet.tool(side_effects=True)\r\n")
    assert data.replace(made[0], b"").replace(made[1], b"") == text.encode()
    assert b"\t@function_tool\r\n\t@ratchet.tool(side_effects=True)\r\n\tdef drop" in data
