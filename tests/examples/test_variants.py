"""The examples' agents in other frameworks: each is the same agent, told the same.

They are read, not run: the frameworks are no dependencies of the tests.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.demo import example_folder

ROOMS = "room_booking/room_booking"
PYTHON = [
    (f"{folder}/{name}.py", f"{folder}/agent.py")
    for folder in (ROOMS, "math_tools")
    for name in ("langgraph_agent", "agents_sdk")
]
EXAMPLES = example_folder("math_tools").parent


def tree(path: str) -> ast.Module:
    return ast.parse((EXAMPLES / path).read_text(encoding="utf-8"))


def prompts(module: ast.Module) -> dict[str, str]:
    """The texts that a module declares as prompts, by name."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    return {
        ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1])
        for call in calls
        if ast.unparse(call.func) == "ratchet.prompt"
    }


def entries(module: ast.Module) -> list[tuple[str, str]]:
    """Name and parameters of each function that is marked as an agent."""
    return [
        (node.name, ast.unparse(node.args))
        for node in module.body
        if isinstance(node, ast.AsyncFunctionDef)
        and "ratchet.agent" in map(ast.unparse, node.decorator_list)
    ]


def imported(module: ast.Module) -> set[str]:
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize(("variant", "original"), PYTHON)
def test_a_variant_has_the_prompt_the_entry_and_the_tool_of_the_original(
    variant: str, original: str
) -> None:
    mine, its = tree(variant), tree(original)
    assert prompts(mine) == prompts(its) != {}
    assert entries(mine) == entries(its) != []
    tool = "rooms.rooms_on" if ROOMS in variant else "calculator.value_of"
    assert tool in imported(mine) & imported(its)


@pytest.mark.parametrize("variant", [variant for variant, _ in PYTHON if ROOMS in variant])
def test_a_framework_tells_a_model_of_the_tool_what_the_schema_says(variant: str) -> None:
    from tests.examples.room_booking import TOOLS

    schema: dict[str, Any] = TOOLS[0]["function"]
    (tool,) = [
        node
        for node in tree(variant).body
        if isinstance(node, ast.FunctionDef) and node.name == schema["name"]
    ]
    described = ast.get_docstring(tool)
    assert described is not None
    (argument, about) = next(iter(schema["parameters"]["properties"].items()))
    assert described.splitlines()[0] == schema["description"]
    assert f"{argument}: {about['description']}" in described


def test_the_router_in_typescript_has_the_instruction_of_the_one_in_python() -> None:
    written = (EXAMPLES / "support_router/agent.ts").read_text(encoding="utf-8")
    (instruction,) = re.findall(r"const INSTRUCTION = `([^`$\\]*)`;", written)
    assert [instruction] == list(prompts(tree("support_router/agent.py")).values())


@pytest.mark.parametrize("name", ["room_booking", "math_tools"])
def test_every_package_that_a_variant_imports_is_in_its_extra(name: str) -> None:
    folder = EXAMPLES / name
    extras = tomllib.loads((folder / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    packages = {"agents": "openai-agents"}
    for path, _ in PYTHON:
        if not path.startswith(name):
            continue
        module = Path(path).stem.removesuffix("_agent").replace("_", "-")
        tops = {where.split(".")[0] for where in imported(tree(path))}
        needed = {packages.get(top, top.replace("_", "-")) for top in tops if top in FRAMEWORKS}
        listed = {re.split(r"[\[>=<]", requirement)[0] for requirement in extras[module]}
        assert needed <= listed, json.dumps(extras)


FRAMEWORKS = {"agents", "langgraph", "langchain_core", "langchain_openai"}
